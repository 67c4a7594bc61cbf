"""Which servers are asked, and which addresses no relay can reach."""

import asyncio
import socket
from typing import Any

import pytest
from aioice import stun
from hypothesis import given
from hypothesis import strategies as st

from engine.signaling.messages import IceServer
from engine.transport.servers import over_tcp, udp_gets_out, udp_places
from engine.transport.turn import is_inner, may_relay

BOTH = (
    IceServer(urls=("stun:s.example", "stun:s.example:99")),
    IceServer(
        urls=("turn:t.example:3478?transport=udp", "turn:t.example:3478?transport=tcp", "turns:t.example:5349"),
        username="u",
        credential="c",
    ),
)


def test_who_is_asked_over_udp() -> None:
    assert udp_places(BOTH) == (("s.example", 3478), ("s.example", 99), ("t.example", 3478))
    assert udp_places(()) == ()


def test_what_is_left_without_udp() -> None:
    (left,) = over_tcp(BOTH)
    assert left.urls == ("turn:t.example:3478?transport=tcp", "turns:t.example:5349")
    assert (left.username, left.credential) == ("u", "c")


@given(st.lists(st.text(max_size=40), min_size=1, max_size=8))
def test_no_address_of_a_server_raises(urls: list[str]) -> None:
    servers = (IceServer(urls=tuple(urls)),)
    assert len(udp_places(servers)) <= 4
    over_tcp(servers)


@pytest.mark.parametrize(
    ("server", "peer", "may"),
    [
        ("203.0.113.1", "192.168.1.2", False),
        ("203.0.113.1", "10.1.2.3", False),
        ("203.0.113.1", "100.64.0.9", False),
        ("203.0.113.1", "fd00::1", False),
        ("203.0.113.1", "169.254.1.1", False),
        ("203.0.113.1", "198.51.100.7", True),
        ("203.0.113.1", "203.0.113.1", True),
        ("203.0.113.1", "2001:db8::1", True),
        ("192.168.1.5", "192.168.1.2", True),
        ("relay.example", "192.168.1.2", False),
        ("203.0.113.1", "not an address", True),
    ],
)
def test_a_relay_is_sent_nothing_for_other_homes_inner_addresses(server: str, peer: str, may: bool) -> None:
    assert may_relay(server, peer) is may


def test_inner_addresses() -> None:
    assert is_inner("172.31.255.255")
    assert not is_inner("172.32.0.0")


class Answering(asyncio.DatagramProtocol):
    """A STUN server on loopback."""

    def __init__(self, *, sound: bool) -> None:
        self.sound = sound
        self.transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        request = stun.parse_message(data)
        answer = stun.Message(
            message_method=stun.Method.BINDING,
            message_class=stun.Class.RESPONSE,
            transaction_id=request.transaction_id if self.sound else b"x" * 12,
        )
        assert self.transport is not None
        self.transport.sendto(b"nonsense", addr)
        self.transport.sendto(bytes(answer), addr)


@pytest.mark.integration
@pytest.mark.parametrize("sound", [True, False])
async def test_a_server_that_answers_shows_that_udp_gets_out(sound: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.transport.servers.CHECK_SECONDS", 30.0 if sound else 0.2)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: Answering(sound=sound), local_addr=("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    assert await udp_gets_out((IceServer(urls=(f"stun:127.0.0.1:{port}",)),)) is sound
    transport.close()


@pytest.mark.integration
async def test_silence_shows_that_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.transport.servers.CHECK_SECONDS", 0.2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        assert not await udp_gets_out((IceServer(urls=(f"stun:127.0.0.1:{silent.getsockname()[1]}",)),))


async def test_without_servers_there_is_nothing_to_find_out() -> None:
    assert await udp_gets_out(())
