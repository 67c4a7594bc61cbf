"""What routers let through, found out behind real ones; and links that show nobody this computer's address."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from engine.signaling.messages import IceServer
from tests.lab.cases import CONNECT_SECONDS, ROOT, START_SECONDS, Process, a_public_side
from tests.lab.topology import PUBLIC, SERVER_ADDRESS, Lab, Nat, a_turn_server, run, why_unavailable

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

NUMBER = 9
PORTS = (3478, 3578)
STUN = tuple(IceServer(urls=(f"stun:{SERVER_ADDRESS}:{port}",)) for port in PORTS)


@pytest.fixture(autouse=True)
def lab_here() -> Iterator[None]:
    why = why_unavailable()
    if why:
        pytest.skip(why)
    yield
    assert f"potlab{NUMBER}" not in run("ip", "netns", "list")


def test_each_kind_of_router_is_told_from_the_others(tmp_path: Path) -> None:
    kinds = {
        Nat.NONE: "none",
        Nat.PRESERVING: "steady",
        Nat.DOUBLE: "steady",
        Nat.RANDOM: "changing",
        Nat.NO_UDP: "no_udp",
    }
    with Lab(NUMBER) as lab:
        homes = {nat: lab.add_home(nat) for nat in kinds}
        with a_turn_server(lab, tmp_path, port=PORTS[0]) as first, a_turn_server(lab, tmp_path, port=PORTS[1]) as other:
            found = {nat: ask(homes[nat].command(), STUN) for nat in kinds}
            one = ask(homes[Nat.RANDOM].command(), STUN[:1])
            assert first.poll() is other.poll() is None
    assert found == kinds
    assert one == "unknown"  # one server cannot tell


def ask(place: list[str], servers: tuple[IceServer, ...]) -> str:
    """The verdict at `place`."""
    command = [*place, sys.executable, "-m", "tests.lab.reach", msgspec.json.encode(servers).decode()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_a_hidden_computer_tells_no_address_of_its_own() -> None:
    with Lab(NUMBER) as lab, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        homes = [lab.add_home(Nat.PRESERVING), lab.add_home(Nat.PRESERVING)]
        with a_public_side(lab, folder):
            peers: list[Process] = []
            try:
                for number, (home, more) in enumerate(zip(homes, ([], ["hidden"]), strict=True)):
                    argv = home.command(sys.executable, "-m", "tests.lab.stayer", str(number), *more)
                    peers.append(Process(argv, folder / f"stayer-{number}.log"))
                    peers[-1].until("start", START_SECONDS)
                ups = [one.until("up", CONNECT_SECONDS) for one in peers]
                assert [up["path"] for up in ups] == ["relayed", "relayed"]
                told = [event for event in peers[1].seen if event["event"] == "sdp"]
                assert told
                for event in told:
                    assert event["hosts"] == [SERVER_ADDRESS]
                    assert homes[1].address not in event["text"]
                    assert f"{PUBLIC}.11" not in event["text"]  # its router's
            finally:
                for one in peers:
                    one.close()
