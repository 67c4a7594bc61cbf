"""Which of the known STUN and TURN servers a connection is given: those over UDP only while UDP gets out at all.

The library asks one STUN and one TURN server. A router that lets no UDP out would cost it its whole gathering time for
nothing, and leave it without the relay by TCP that does work.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any, Final

from aioice import stun

from engine.signaling.messages import IceServer

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 1.5
SEND_AGAIN_SECONDS: Final = 0.3
DEFAULT_PORT: Final = 3478
DEFAULT_TLS_PORT: Final = 5349
MAX_ASKED: Final = 4


def _place_of(url: str) -> tuple[str, str, tuple[str, int]] | None:
    """Scheme, query, and host with port."""
    scheme, _, rest = url.partition(":")
    place, _, query = rest.partition("?")
    host, colon, port = place.rpartition(":")
    if colon and port.isdigit() and 0 < int(port) < 65536:
        return scheme, query, (host, int(port))
    if place and not colon:
        return scheme, query, (place, DEFAULT_TLS_PORT if scheme in ("stuns", "turns") else DEFAULT_PORT)
    return None


def udp_places(servers: tuple[IceServer, ...]) -> tuple[tuple[str, int], ...]:
    """Host and port of servers that answer binding requests over UDP. PURE."""
    found = [_place_of(url) for server in servers for url in server.urls]
    asked = [one[2] for one in found if one and one[0] in ("stun", "turn") and one[1] != "transport=tcp"]
    return tuple(dict.fromkeys(asked))[:MAX_ASKED]


def tcp_places(servers: tuple[IceServer, ...]) -> tuple[tuple[str, int], ...]:
    """Host and port of servers that may listen over TCP, whatever else they do. PURE."""
    found = [_place_of(url) for server in servers for url in server.urls]
    asked = [one[2] for one in found if one and one[0] in ("stun", "stuns", "turn", "turns")]
    return tuple(dict.fromkeys(asked))[:MAX_ASKED]


def over_tcp(servers: tuple[IceServer, ...]) -> tuple[IceServer, ...]:
    """Only what needs no UDP: `turn:...?transport=tcp` and `turns:`. PURE."""
    return _with_urls(servers, lambda url: url.startswith("turns:") or url.endswith("?transport=tcp"))


def over_udp(servers: tuple[IceServer, ...]) -> tuple[IceServer, ...]:
    """Only relays that are asked over UDP. PURE."""
    return _with_urls(servers, lambda url: url.startswith("turn:") and not url.endswith("?transport=tcp"))


def _with_urls(servers: tuple[IceServer, ...], fits: Callable[[str], bool]) -> tuple[IceServer, ...]:
    kept = []
    for server in servers:
        urls = tuple(url for url in server.urls if fits(url))
        if urls:
            kept.append(IceServer(urls=urls, username=server.username, credential=server.credential))
    return tuple(kept)


def has_relay(servers: tuple[IceServer, ...]) -> bool:
    """Whether any of them relays. PURE."""
    return any(url.startswith(("turn:", "turns:")) for server in servers for url in server.urls)


class StunAsker(asyncio.DatagramProtocol):
    """Sends binding requests from one socket, and keeps how each server saw it."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, int], tuple[str, int]] = {}
        self.answered = False
        self._requests: dict[bytes, tuple[str, int]] = {}
        self._asked: set[tuple[str, int]] = set()
        self._news = asyncio.Event()

    @property
    def all_answered(self) -> bool:
        """Whether every server that could be asked has answered."""
        return bool(self._asked) and len(self.seen) == len(self._asked)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """See `asyncio.DatagramProtocol`. What is no answer to a request of ours is passed over."""
        with contextlib.suppress(ValueError):
            message = stun.parse_message(data)
            place = self._requests.get(message.transaction_id)
            mapped = message.attributes.get("XOR-MAPPED-ADDRESS") or message.attributes.get("MAPPED-ADDRESS")
            if place is None:
                return
            self.answered = True
            if place == tuple(addr[:2]) and mapped:
                self.seen[place] = (str(mapped[0]), int(mapped[1]))
            self._news.set()

    async def ask(self, transport: asyncio.DatagramTransport, places: tuple[tuple[str, int], ...]) -> None:
        """Send a request to each server that has not answered."""
        loop = asyncio.get_running_loop()
        for host, port in places:
            with contextlib.suppress(OSError, UnicodeError):  # the latter: a name that no host can have
                (_, _, _, _, address), *_ = await loop.getaddrinfo(host, port, family=2)  # IPv4, as the socket is
                place = (str(address[0]), int(address[1]))
                self._asked.add(place)
                if place in self.seen:
                    continue
                request = stun.Message(message_method=stun.Method.BINDING, message_class=stun.Class.REQUEST)
                self._requests[request.transaction_id] = place
                transport.sendto(bytes(request), address)

    async def answers_within(self, seconds: float) -> None:
        """Wait for the next answer, but no longer than that."""
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()


async def a_stun_socket() -> tuple[asyncio.DatagramTransport, StunAsker]:
    """A UDP socket to ask from.

    Raises:
        OSError: the system gives none.
    """
    loop = asyncio.get_running_loop()
    return await loop.create_datagram_endpoint(StunAsker, local_addr=("0.0.0.0", 0))  # noqa: S104


async def udp_gets_out(servers: tuple[IceServer, ...]) -> bool:
    """Whether any server answers a binding request (RFC 8489) within CHECK_SECONDS; true when there is none to ask."""
    places = udp_places(servers)
    if not places:
        return True
    try:
        transport, asker = await a_stun_socket()
    except OSError as error:
        log.info("no UDP socket: %s", error)
        return False
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            while not asker.answered:
                await asker.ask(transport, places)
                await asker.answers_within(SEND_AGAIN_SECONDS)
        return True
    except TimeoutError:
        return False
    finally:
        transport.close()
