import aioice.ice
import pytest

from engine.signaling.messages import IceServer
from engine.transport.base import PathKind
from engine.transport.ice import LOOPBACK_ADDRESS, MAX_HOST_ADDRESSES, classify, configuration, gathering


@pytest.mark.parametrize(
    ("local", "remote", "host", "path"),
    [
        ("host", "host", "127.0.0.1", PathKind.LOOPBACK),
        ("host", "prflx", "::1", PathKind.LOOPBACK),
        ("host", "host", "192.168.1.4", PathKind.LAN),
        ("host", "prflx", "10.1.2.3", PathKind.LAN),
        ("host", "srflx", "8.8.8.8", PathKind.DIRECT),
        ("host", "host", "2001:4860::1", PathKind.DIRECT),
        ("relay", "host", "192.168.1.4", PathKind.RELAYED),
        ("host", "relay", "8.8.8.8", PathKind.RELAYED),
    ],
)
def test_the_way_that_packets_go(local: str, remote: str, host: str, path: PathKind) -> None:
    assert classify(local, remote, host) is path


def test_without_servers_nobody_is_asked() -> None:
    assert configuration(()).iceServers == []


def test_servers_that_make_no_sense_are_left_out() -> None:
    servers = configuration(
        (
            IceServer(urls=("stun:stun.example.org:3478", "http://example.org", "stun:")),
            IceServer(urls=("turn:turn.example.org?transport=udp",), username="u", credential="c"),
            IceServer(urls=("turn:turn.example.org?transport=carrier-pigeon",)),
        )
    ).iceServers
    assert servers is not None
    assert [server.urls for server in servers] == [
        ["stun:stun.example.org:3478"],
        ["turn:turn.example.org?transport=udp"],
    ]
    assert (servers[1].username, servers[1].credential) == ("u", "c")


def test_gathering_on_loopback_is_loopback_only() -> None:
    with gathering(loopback_only=True):
        assert aioice.ice.get_host_addresses(use_ipv4=True, use_ipv6=True) == [LOOPBACK_ADDRESS]
        with gathering(loopback_only=False):
            assert LOOPBACK_ADDRESS not in aioice.ice.get_host_addresses(use_ipv4=True, use_ipv6=True)
    assert LOOPBACK_ADDRESS not in aioice.ice.get_host_addresses(use_ipv4=True, use_ipv6=True)


def test_many_interfaces_do_not_make_many_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    def many(use_ipv4: bool, use_ipv6: bool) -> list[str]:
        return ["169.254.1.1", "fe80::1", *(f"10.0.0.{n}" for n in range(1, 50))]

    monkeypatch.setattr("engine.transport.ice.library_addresses", many)
    with gathering(loopback_only=False):
        addresses = aioice.ice.get_host_addresses(use_ipv4=True, use_ipv6=True)
    assert addresses == [f"10.0.0.{n}" for n in range(1, MAX_HOST_ADDRESSES + 1)]
