"""The local link on Windows: a named pipe. Named pipes are open to the local user; the token does the rest."""

import asyncio
import sys

from engine.contract.codec import MAX_LINE_BYTES
from engine.core.errors import UserError
from engine.core.paths import Paths, hash_of

if sys.platform == "win32":
    from asyncio.windows_events import PipeServer

    from engine.control.listener import Kind, Listener, OnLink, Streams

    def address_of(paths: Paths) -> str:
        """One name for each profile."""
        return rf"\\.\pipe\potluck-{hash_of(paths.data_dir):016x}"

    class _PipeListener:
        kind: Kind = "pipe"

        def __init__(self, address: str, servers: list[PipeServer]) -> None:
            self.address = address
            self._servers = servers

        async def close(self) -> None:
            for server in self._servers:
                server.close()

    async def listen(address: str, on_link: OnLink) -> Listener:
        """Accept links.

        Raises:
            UserError: the pipe's name is taken.
        """
        loop = _proactor()

        def protocol() -> asyncio.StreamReaderProtocol:
            reader = asyncio.StreamReader(limit=MAX_LINE_BYTES, loop=loop)
            return asyncio.StreamReaderProtocol(reader, on_link, loop=loop)

        try:
            servers = await loop.start_serving_pipe(protocol, address)
        except OSError as error:
            raise UserError(
                f"Potluck cannot open its local pipe {address}: {error.strerror or error}.",
                "End other copies of Potluck, then start again.",
            ) from error
        return _PipeListener(address, servers)

    async def connect(address: str) -> Streams:
        """Connect to a listening engine.

        Raises:
            OSError: nobody listens there.
        """
        loop = _proactor()
        reader = asyncio.StreamReader(limit=MAX_LINE_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.create_pipe_connection(lambda: protocol, address)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def _proactor() -> asyncio.ProactorEventLoop:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, asyncio.ProactorEventLoop):
            raise RuntimeError("named pipes need the proactor event loop, the default one on Windows")
        return loop
