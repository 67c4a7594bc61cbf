import asyncio
from typing import Any

import pytest
from aioice import stun

from engine.signaling.messages import IceServer
from engine.transport.base import Mapping
from engine.transport.reachability import Observation, mapping_of, observe
from engine.transport.servers import has_relay

ONE, TWO = ("198.51.100.1", 3478), ("198.51.100.2", 3478)
HOME, ROUTER = ("192.168.1.2", 40000), ("203.0.113.5", 40000)


@pytest.mark.parametrize(
    ("asked", "seen", "mapping"),
    [
        ((), {}, Mapping.UNKNOWN),
        ((ONE,), {}, Mapping.NO_UDP),
        ((ONE,), {ONE: ROUTER}, Mapping.UNKNOWN),
        ((ONE, TWO), {ONE: ROUTER}, Mapping.UNKNOWN),
        ((ONE, TWO), {ONE: ROUTER, TWO: ROUTER}, Mapping.STEADY),
        ((ONE, TWO), {ONE: ROUTER, TWO: (ROUTER[0], 40001)}, Mapping.CHANGING),
        ((ONE, TWO), {ONE: ROUTER, TWO: ("203.0.113.6", ROUTER[1])}, Mapping.CHANGING),
        ((ONE,), {ONE: HOME}, Mapping.NONE),
        ((ONE, TWO), {ONE: HOME, TWO: ROUTER}, Mapping.CHANGING),
        ((ONE,), {ONE: (HOME[0], 40001)}, Mapping.UNKNOWN),
    ],
)
def test_verdicts(asked: Any, seen: Any, mapping: Mapping) -> None:
    assert mapping_of(Observation(asked, seen, HOME[1], frozenset({HOME[0]}))) is mapping


@pytest.mark.parametrize(
    ("urls", "found"),
    [(("stun:a",), False), (("turn:a",), True), (("stun:a", "turns:a?transport=tcp"), True), (("turnip:a",), False)],
)
def test_what_relays(urls: tuple[str, ...], found: bool) -> None:
    assert has_relay((IceServer(urls=urls),)) is found


class Mirror(asyncio.DatagramProtocol):
    """A STUN server on loopback that says how it sees a client, a while after nonsense."""

    def __init__(self, port_shift: int) -> None:
        self.port_shift = port_shift
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        request = stun.parse_message(data)
        answer = stun.Message(stun.Method.BINDING, stun.Class.RESPONSE, request.transaction_id)
        answer.attributes["XOR-MAPPED-ADDRESS"] = ("203.0.113.5", addr[1] + self.port_shift)
        self.transport.sendto(b"\x00" * 20, addr)
        self.transport.sendto(bytes(answer), addr)


@pytest.mark.integration
@pytest.mark.parametrize(("shifts", "mapping"), [((0, 0), Mapping.STEADY), ((0, 1), Mapping.CHANGING)])
async def test_asking_real_sockets(shifts: tuple[int, int], mapping: Mapping) -> None:
    loop = asyncio.get_running_loop()
    servers, transports = [], []
    for shift in shifts:
        transport, _ = await loop.create_datagram_endpoint(
            lambda shift=shift: Mirror(shift),  # type: ignore[misc]
            local_addr=("127.0.0.1", 0),
        )
        transports.append(transport)
        servers.append(IceServer(urls=(f"stun:127.0.0.1:{transport.get_extra_info('sockname')[1]}",)))
    found = await observe(tuple(servers))
    assert len(found.seen) == 2
    assert mapping_of(found) is mapping
    for transport in transports:
        transport.close()
