"""Links that show nobody this computer's address, behind real routers."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.cases import CONNECT_SECONDS, START_SECONDS, Process, a_public_side
from tests.lab.topology import PUBLIC, SERVER_ADDRESS, Lab, Nat, run, why_unavailable

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

NUMBER = 9


@pytest.fixture(autouse=True)
def lab_here() -> Iterator[None]:
    why = why_unavailable()
    if why:
        pytest.skip(why)
    yield
    assert f"potlab{NUMBER}" not in run("ip", "netns", "list")


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


def test_an_address_can_be_hidden_and_shown_while_links_stand() -> None:
    with Lab(NUMBER) as lab, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        homes = [lab.add_home(Nat.PRESERVING), lab.add_home(Nat.PRESERVING)]
        with a_public_side(lab, folder):
            peers: list[Process] = []
            try:
                for number, home in enumerate(homes):
                    argv = home.command(sys.executable, "-m", "tests.lab.stayer", str(number))
                    peers.append(Process(argv, folder / f"stayer-{number}.log"))
                    peers[-1].until("start", START_SECONDS)
                one = peers[1]
                assert one.until("up", CONNECT_SECONDS)["path"] == "direct"
                told = len(one.seen)
                one.order("hide")
                assert one.until("down", CONNECT_SECONDS)["code"] == "rerouted"
                assert one.until("up", CONNECT_SECONDS)["path"] == "relayed"
                since = [event["hosts"] for event in one.seen[told:] if event["event"] == "sdp"]
                assert since == len(since) * [[SERVER_ADDRESS]] != []
                one.order("show")
                assert one.until("down", CONNECT_SECONDS)["code"] == "rerouted"
                assert one.until("up", CONNECT_SECONDS)["path"] == "direct"
            finally:
                for peer in peers:
                    peer.close()
