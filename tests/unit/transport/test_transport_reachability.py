import asyncio
from typing import Any

import pytest
from aioice import stun

from engine.contract.reach import Mapping, Relay
from engine.signaling.messages import IceServer
from engine.transport.base import Reachability
from engine.transport.reach_check import check_reachability, observe
from engine.transport.reachability import Observation, mapping_of, reachability_of
from engine.transport.servers import has_relay, over_tcp, over_udp, tcp_places, udp_places

ONE, TWO = ("198.51.100.1", 3478), ("198.51.100.2", 3478)
HOME, ROUTER = ("192.168.1.2", 40000), ("203.0.113.5", 40000)


CARRIER = ("100.64.9.2", 40000)  # RFC 6598
OPEN = ("203.0.113.7", 40000)  # an address of this computer's own


@pytest.mark.parametrize(
    ("asked", "seen", "mapping"),
    [
        ((), {}, Mapping.UNREADABLE),
        ((ONE,), {}, Mapping.UNREADABLE),
        ((ONE,), {ONE: ROUTER}, Mapping.UNREADABLE),
        ((ONE, TWO), {ONE: ROUTER}, Mapping.UNREADABLE),
        ((ONE, TWO), {ONE: ROUTER, TWO: ROUTER}, Mapping.STEADY),
        ((ONE, TWO), {ONE: ROUTER, TWO: (ROUTER[0], 40001)}, Mapping.CHANGING),
        ((ONE, TWO), {ONE: ROUTER, TWO: ("203.0.113.6", ROUTER[1])}, Mapping.CHANGING),
        ((ONE,), {ONE: OPEN}, Mapping.NONE),
        ((ONE, TWO), {ONE: OPEN, TWO: OPEN}, Mapping.NONE),
        ((ONE, TWO), {ONE: OPEN, TWO: ROUTER}, Mapping.CHANGING),
        ((ONE,), {ONE: (OPEN[0], 40001)}, Mapping.UNREADABLE),
    ],
)
def test_verdicts(asked: Any, seen: Any, mapping: Mapping) -> None:
    assert mapping_of(Observation(asked, seen, HOME[1], frozenset({HOME[0], OPEN[0]}))) is mapping


@pytest.mark.parametrize("inner", [HOME, CARRIER])
def test_a_server_within_the_home_or_the_carrier_says_nothing_of_routers(inner: Any) -> None:
    own = frozenset({HOME[0], CARRIER[0]})
    assert mapping_of(Observation((ONE,), {ONE: inner}, inner[1], own)) is Mapping.UNREADABLE
    assert mapping_of(Observation((ONE, TWO), {ONE: inner, TWO: inner}, inner[1], own)) is Mapping.UNREADABLE
    assert mapping_of(Observation((ONE, TWO), {ONE: inner, TWO: ROUTER}, inner[1], own)) is Mapping.UNREADABLE


@pytest.mark.parametrize(
    ("asked", "relay", "tcp_gets_out", "mapping"),
    [
        ((ONE,), Relay.FAILED, False, Mapping.UNREADABLE),  # no server is there, or this computer is offline
        ((ONE,), Relay.NOT_OFFERED, True, Mapping.NO_UDP),
        ((ONE,), Relay.TCP, True, Mapping.NO_UDP),
        ((ONE,), Relay.UDP, True, Mapping.UNREADABLE),  # UDP does get out: it is the server that is silent
        ((), Relay.TCP, True, Mapping.UNREADABLE),
    ],
)
def test_silence_is_the_networks_doing_only_where_tcp_gets_out(
    asked: Any, relay: Relay, tcp_gets_out: bool, mapping: Mapping
) -> None:
    found = reachability_of(Observation(asked, {}, 0, frozenset(), relay, tcp_gets_out))
    assert found == Reachability(mapping, relay)


TURN = IceServer(
    urls=("stun:a", "turn:b:1", "turn:c?transport=tcp", "turns:d", "turn:e:70000", "turn:"),
    username="u",
    credential="c",
)


def test_which_servers_are_asked_by_which_way() -> None:
    assert udp_places((TURN, TURN)) == (("a", 3478), ("b", 1))
    assert tcp_places((TURN, TURN)) == (("a", 3478), ("b", 1), ("c", 3478), ("d", 5349))
    assert [server.urls for server in over_udp((TURN,))] == [("turn:b:1", "turn:e:70000", "turn:")]
    assert [server.urls for server in over_tcp((TURN,))] == [("turn:c?transport=tcp", "turns:d")]
    assert (over_tcp((TURN,))[0].username, over_udp((TURN,))[0].credential) == ("u", "c")


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


@pytest.mark.integration
async def test_a_check_can_be_called_off() -> None:
    mute = await asyncio.get_running_loop().create_datagram_endpoint(
        asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)
    )
    port = mute[0].get_extra_info("sockname")[1]
    servers = (IceServer(urls=(f"stun:127.0.0.1:{port}", f"turn:127.0.0.1:{port}"), username="u", credential="c"),)
    check = asyncio.create_task(check_reachability(servers))
    await asyncio.sleep(0)
    check.cancel()
    await asyncio.wait({check})
    assert check.cancelled()
    mute[0].close()
