"""Which of the known STUN and TURN servers a connection is given: those over UDP only while UDP gets out at all.

The library asks one STUN and one TURN server. A router that lets no UDP out would cost it its whole gathering time for
nothing, and leave it without the relay by TCP that does work.
"""

import asyncio
import contextlib
import logging
from typing import Any, Final

from aioice import stun

from engine.signaling.messages import IceServer

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 1.5
SEND_AGAIN_SECONDS: Final = 0.3
DEFAULT_PORT: Final = 3478
MAX_ASKED: Final = 4


def udp_places(servers: tuple[IceServer, ...]) -> tuple[tuple[str, int], ...]:
    """Host and port of servers that answer binding requests over UDP. PURE."""
    found: dict[tuple[str, int], None] = {}
    for server in servers:
        for url in server.urls:
            scheme, _, rest = url.partition(":")
            place, _, query = rest.partition("?")
            if scheme not in ("stun", "turn") or query == "transport=tcp":
                continue
            host, colon, port = place.rpartition(":")
            if colon and port.isdigit() and 0 < int(port) < 65536:
                found[(host, int(port))] = None
            elif place and not colon:
                found[(place, DEFAULT_PORT)] = None
    return tuple(found)[:MAX_ASKED]


def over_tcp(servers: tuple[IceServer, ...]) -> tuple[IceServer, ...]:
    """Only what needs no UDP: `turn:...?transport=tcp` and `turns:`. PURE."""
    kept = []
    for server in servers:
        urls = tuple(url for url in server.urls if url.startswith("turns:") or url.endswith("?transport=tcp"))
        if urls:
            kept.append(IceServer(urls=urls, username=server.username, credential=server.credential))
    return tuple(kept)


class _Asker(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.requests: set[bytes] = set()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        with contextlib.suppress(ValueError):
            message = stun.parse_message(data)
            if message.transaction_id in self.requests and not self.answered.done():
                self.answered.set_result(None)


async def udp_gets_out(servers: tuple[IceServer, ...]) -> bool:
    """Whether any server answers a binding request (RFC 8489) within CHECK_SECONDS; true when there is none to ask."""
    places = udp_places(servers)
    if not places:
        return True
    loop = asyncio.get_running_loop()
    try:
        transport, asker = await loop.create_datagram_endpoint(_Asker, local_addr=("0.0.0.0", 0))  # noqa: S104
    except OSError as error:
        log.info("no UDP socket: %s", error)
        return False
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            while not asker.answered.done():
                await _ask(transport, asker, places)
                await asyncio.wait({asker.answered}, timeout=SEND_AGAIN_SECONDS)
        return True
    except TimeoutError:
        return False
    finally:
        transport.close()


async def _ask(transport: asyncio.DatagramTransport, asker: _Asker, places: tuple[tuple[str, int], ...]) -> None:
    loop = asyncio.get_running_loop()
    for host, port in places:
        with contextlib.suppress(OSError):
            (_, _, _, _, address), *_ = await loop.getaddrinfo(host, port, family=2)  # IPv4, as the socket is
            request = stun.Message(message_method=stun.Method.BINDING, message_class=stun.Class.REQUEST)
            asker.requests.add(request.transaction_id)
            transport.sendto(bytes(request), address)
