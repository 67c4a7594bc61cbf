"""What a computer finds out about its network, behind each kind of router and with each kind of server."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from engine.contract.reach import Mapping, Relay
from engine.signaling.messages import IceServer
from tests.lab.cases import ROOT, ice_servers
from tests.lab.topology import SERVER_ADDRESS, Home, Lab, Nat, a_turn_server, run, why_unavailable

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

NUMBER = 10
PORTS = (3478, 3578)
STUN = tuple(IceServer(urls=(f"stun:{SERVER_ADDRESS}:{port}",)) for port in PORTS)


@pytest.fixture(autouse=True)
def lab_here() -> Iterator[None]:
    why = why_unavailable()
    if why:
        pytest.skip(why)
    yield
    assert f"potlab{NUMBER}" not in run("ip", "netns", "list")


@pytest.fixture
def lab(lab_here: None) -> Iterator[Lab]:
    with Lab(NUMBER) as built:
        yield built


def verdict(home: Home, servers: tuple[IceServer, ...]) -> tuple[Mapping, Relay]:
    """Of the home's computer."""
    argv = home.command(sys.executable, "-m", "tests.lab.reach", msgspec.json.encode(servers).decode())
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    mapping, relay, _ = done.stdout.split()
    return Mapping(mapping), Relay(relay)


def test_each_kind_of_router_is_told_from_the_others(lab: Lab, tmp_path: Path) -> None:
    kinds = {
        Nat.NONE: (Mapping.NONE, Relay.UDP),
        Nat.PRESERVING: (Mapping.STEADY, Relay.UDP),
        Nat.DOUBLE: (Mapping.STEADY, Relay.UDP),
        Nat.RANDOM: (Mapping.CHANGING, Relay.UDP),
        Nat.NO_UDP: (Mapping.NO_UDP, Relay.TCP),
    }
    homes = {nat: lab.add_home(nat) for nat in kinds}
    servers = (*STUN, *ice_servers())
    with a_turn_server(lab, tmp_path, port=PORTS[0]) as first, a_turn_server(lab, tmp_path, port=PORTS[1]) as other:
        assert {nat: verdict(homes[nat], servers) for nat in kinds} == kinds
        assert first.poll() is other.poll() is None


def test_a_customer_of_a_carrier_without_a_router(lab: Lab, tmp_path: Path) -> None:
    home = lab.add_home(Nat.PRESERVING, "100.64.9")  # RFC 6598: not public, though no home's either
    with a_turn_server(lab, tmp_path, port=PORTS[0]), a_turn_server(lab, tmp_path, port=PORTS[1]):
        assert verdict(home, STUN) == (Mapping.STEADY, Relay.NOT_OFFERED)


def test_what_cannot_be_told_is_not_guessed(lab: Lab, tmp_path: Path) -> None:
    random, shut = lab.add_home(Nat.RANDOM), lab.add_home(Nat.NO_UDP)
    unread = Mapping.UNREADABLE
    assert verdict(random, (*STUN, *ice_servers())) == (unread, Relay.FAILED)  # nobody is there
    with a_turn_server(lab, tmp_path, port=PORTS[0]):
        assert verdict(random, STUN[:1]) == (unread, Relay.NOT_OFFERED)  # one server cannot tell
        assert verdict(random, ice_servers()) == (unread, Relay.UDP)
        assert verdict(random, ()) == (unread, Relay.NOT_OFFERED)
        assert verdict(shut, STUN) == (Mapping.NO_UDP, Relay.NOT_OFFERED)


def test_a_relay_that_refuses_is_none(lab: Lab, tmp_path: Path) -> None:
    home = lab.add_home(Nat.PRESERVING)
    stun, relay = ice_servers()
    stranger = IceServer(urls=relay.urls, username=relay.username, credential="wrong")
    with a_turn_server(lab, tmp_path, port=PORTS[0]):
        assert verdict(home, (stun, stranger)) == (Mapping.UNREADABLE, Relay.FAILED)


def test_what_the_relay_gave_is_given_back(lab: Lab, tmp_path: Path) -> None:
    home = lab.add_home(Nat.PRESERVING)
    with a_turn_server(lab, tmp_path, ["--verbose"]):
        assert verdict(home, ice_servers())[1] is Relay.UDP
        log = (tmp_path / "turn-3478.log").read_text()
    assert log.count("new, realm=") == log.count("refreshed, realm=") == 1
    assert "lifetime=0" in log.partition("refreshed, realm=")[2]  # RFC 8656 section 8: given up


def test_names_that_no_host_can_have_are_passed_over(lab: Lab) -> None:
    home, label = lab.add_home(Nat.PRESERVING), "a" * 70
    servers = (IceServer(urls=(f"stun:{label}", f"turn:{label}", "turns:a..b"), username="u", credential="c"),)
    assert verdict(home, servers) == (Mapping.UNREADABLE, Relay.FAILED)
