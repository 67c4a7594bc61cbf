"""What aiortc does not tell or handle by its public interface."""

import asyncio
import contextlib
import logging
import socket
from dataclasses import dataclass
from typing import Any, Final

import aioice.stun
from aiortc import RTCPeerConnection

log = logging.getLogger(__name__)

_LIBRARIES = ("aiortc", "aioice")


def tame_losses(loop: asyncio.AbstractEventLoop) -> None:
    """Keep one kind of report out of the log of `loop`: tasks of aiortc that found their connection gone.

    WORKAROUND: aiortc starts tasks that nobody awaits (flush, retransmit, connect); when the connection goes down
    between their start and their turn they raise ConnectionError, which asyncio reports as an error although the link
    has told of its end by other means. Everything else goes to the handler that was there before.
    """
    before = loop.get_exception_handler()
    if getattr(before, "tames_losses", False):
        return

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if _is_lost_race(context):
            log.debug("aiortc met a closed connection: %s", context.get("exception"))
        elif before is not None:
            before(loop, context)
        else:
            loop.default_exception_handler(context)

    handle.tames_losses = True  # type: ignore[attr-defined]
    loop.set_exception_handler(handle)


CONSENT_SECONDS: Final = 4.0
_library_transaction = aioice.stun.Transaction.__init__


def _transaction(self: Any, *args: Any, **options: Any) -> None:
    _library_transaction(self, *args, **options)
    if options.get("retransmissions") == 0:
        self._Transaction__timeout_delay = CONSENT_SECONDS


# WORKAROUND: aioice 0.13 checks six times in 30 s whether the other end still wants packets (RFC 7675) and gives each
# answer half a second. On a line whose buffer holds more than that, or where either computer is busy, good connections
# are closed after 30 s. The check is the only request that is never repeated, and is known by that. Whether a link
# lives is decided by its own signs of life, which are quicker.
aioice.stun.Transaction.__init__ = _transaction  # type: ignore[method-assign]


RECEIVE_BUFFER_BYTES: Final = 4 * 1024 * 1024


def widen_receive_buffers(connection: RTCPeerConnection) -> None:
    """Let the system keep more packets for `connection` while this process is busy with something else.

    Without it some hundred full packets are kept (on Windows fifty), and the next ones are lost: a pause of 10 ms on a
    fast line. Systems grant less than is asked for, each by its own bound.

    WORKAROUND: aioice has no setting for it and does not show its sockets, so they are taken from its private state.
    """
    sctp = connection.sctp
    if sctp is None:
        return
    for protocol in sctp.transport.transport._connection._protocols:
        transport = getattr(protocol, "transport", None)
        taken = transport.get_extra_info("socket") if transport is not None else None
        if taken is not None and taken.type == socket.SOCK_DGRAM:
            with contextlib.suppress(OSError):
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Pieces of data-channel messages that an association holds because they are not whole or not in turn."""

    payload_bytes: int
    chunks: int


_SCTP_WINDOW_BYTES: Final = 1024 * 1024
_IP_UDP_BYTES: Final = 28


def undelivered(connection: RTCPeerConnection) -> Undelivered:
    """What the peer made `connection` hold.

    WORKAROUND: aiortc puts messages of any size together and does not refuse what exceeds the window it advertises, nor
    tells of either. The present window and the streams' pieces are read from its private state.
    """
    sctp = connection.sctp
    if sctp is None:
        return Undelivered(0, 0)
    chunks = sum(len(stream.reassembly) for stream in sctp._inbound_streams.values())
    return Undelivered(_SCTP_WINDOW_BYTES - sctp._advertised_rwnd, chunks)


def wire_bytes(connection: RTCPeerConnection) -> tuple[int, int]:
    """Bytes sent and received so far, with the headers of UDP and IPv4, without ICE's own packets.

    WORKAROUND: `RTCPeerConnection.getStats` reports on media only, so the transport's own report is asked for.
    """
    sctp = connection.sctp
    if sctp is None:
        return 0, 0
    (stats,) = sctp.transport._get_stats().values()
    sent, received = stats.bytesSent, stats.bytesReceived
    return sent + _IP_UDP_BYTES * stats.packetsSent, received + _IP_UDP_BYTES * stats.packetsReceived


def _is_lost_race(context: dict[str, Any]) -> bool:
    task = context.get("future")
    if not isinstance(context.get("exception"), ConnectionError) or not isinstance(task, asyncio.Task):
        return False
    code = getattr(task.get_coro(), "cr_code", None)
    parts = code.co_filename.replace("\\", "/").split("/") if code is not None else []
    return any(library in parts for library in _LIBRARIES)
