"""Streams between processes of one user on one computer: a Unix socket, or a named pipe on Windows."""

import sys

from engine.control.listener import Kind, Listener, OnLink, Streams
from engine.core.paths import Paths

if sys.platform == "win32":
    from engine.control import pipe
else:
    from engine.control import unix


async def listen(paths: Paths, on_link: OnLink) -> Listener:
    """Accept links for the engine of this profile. The caller holds the profile's `EngineLock`.

    Raises:
        UserError: the address is taken or cannot be made.
    """
    if sys.platform == "win32":
        return await pipe.listen(pipe.address_of(paths), on_link)
    else:  # noqa: RET505 (the type checker follows the platform only this way)
        return await unix.listen(paths, on_link)


async def open_link(kind: Kind, address: str) -> Streams:
    """Connect to a listening engine.

    Raises:
        OSError: nobody listens there, or this system has no such kind of link.
    """
    here: Kind = "pipe" if sys.platform == "win32" else "unix"
    if kind != here:
        raise OSError(f"this system has no links of the kind {kind!r}")
    if sys.platform == "win32":
        return await pipe.connect(address)
    else:  # noqa: RET505
        return await unix.connect(address)
