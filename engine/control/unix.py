"""The local link on Linux and macOS: a Unix socket that only its user can open."""

import asyncio
import contextlib
import os
import socket
import stat
import sys
from pathlib import Path
from typing import Final

from engine.contract.codec import MAX_LINE_BYTES
from engine.control.listener import Kind, Listener, OnLink, Streams
from engine.core.errors import UserError
from engine.core.paths import Paths

BACKLOG: Final = 32

if sys.platform != "win32":

    class _UnixListener:
        kind: Kind = "unix"

        def __init__(self, path: Path, server: asyncio.Server) -> None:
            self.address = str(path)
            self._path = path
            self._server = server

        async def close(self) -> None:
            self._server.close()
            with contextlib.suppress(OSError):
                self._path.unlink()

    async def listen(paths: Paths, on_link: OnLink) -> Listener:
        """Accept links; a socket file that a killed engine left is replaced.

        Raises:
            UserError: the socket cannot be made there.
        """
        path = paths.socket_file
        try:
            if path.parent != paths.data_dir:
                _make_private(path.parent)
            _remove_stale(path)
            listening = _bound(path)
            server = await asyncio.start_unix_server(on_link, sock=listening, limit=MAX_LINE_BYTES, backlog=BACKLOG)
        except OSError as error:
            raise UserError(
                f"Potluck cannot open its local socket {path}: {error.strerror or error}.",
                "Make that folder writable, then start again.",
            ) from error
        return _UnixListener(path, server)

    def _bound(path: Path) -> socket.socket:
        """Bound and made private before it listens, so that nobody else can connect in between."""
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            bound.bind(str(path))
            path.chmod(0o600)
        except OSError:
            bound.close()
            raise
        return bound

    def _remove_stale(path: Path) -> None:
        """What a killed engine left. Only a socket is removed: anything else there is not ours."""
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(mode):
            raise UserError(f"{path} is in the way of Potluck's local socket.", "Move it away, then start again.")
        path.unlink()

    def _make_private(folder: Path) -> None:
        """A folder in the shared temporary one: ours alone, or not used."""
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise UserError(f"{folder} belongs to someone else.", "Remove it, or set POTLUCK_HOME to a shorter path.")
        if stat.S_IMODE(status.st_mode) & 0o077:
            folder.chmod(0o700)

    async def connect(address: str) -> Streams:
        """Connect to a listening engine.

        Raises:
            OSError: nobody listens there.
        """
        return await asyncio.open_unix_connection(address, limit=MAX_LINE_BYTES)
