"""Homes behind real routers of the kernel, a real relay, the real hub: the short form of `make lab`."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.cases import CONNECT_SECONDS, START_SECONDS, a_public_side, meet, peer
from tests.lab.topology import Lab, Nat, remove_all, run, why_unavailable

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

NUMBER = 7


@pytest.fixture(autouse=True)
def lab_here() -> Iterator[None]:
    why = why_unavailable()
    if why:
        pytest.skip(why)
    yield
    assert f"potlab{NUMBER}" not in run("ip", "netns", "list")


@pytest.mark.parametrize(
    ("first", "second", "same_subnet", "path"),
    [
        (Nat.PRESERVING, Nat.DOUBLE, False, "direct"),
        (Nat.PRESERVING, Nat.PRESERVING, True, "direct"),
        (Nat.RANDOM, Nat.RANDOM, False, "relayed"),
        (Nat.NO_UDP, Nat.RANDOM, False, "relayed"),
    ],
)
def test_two_homes_meet(first: Nat, second: Nat, same_subnet: bool, path: str) -> None:
    meeting = meet(first, second, NUMBER, same_subnet=same_subnet)
    assert meeting.connected, meeting.why_not
    assert meeting.path == path


def test_a_line_that_is_cut_for_a_moment_carries_on() -> None:
    with Lab(NUMBER) as lab, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        homes = [lab.add_home(Nat.PRESERVING), lab.add_home(Nat.PRESERVING)]
        for home in homes:
            lab.shape(home, 20_000_000, 20_000_000)
        with a_public_side(lab, folder):
            sender, taker = (
                peer(home, n, folder, c, 8.0) for n, (home, c) in enumerate(zip(homes, ("send", "take"), strict=True))
            )
            try:
                taker.until("up", START_SECONDS + CONNECT_SECONDS)
                taker.until("taken", CONNECT_SECONDS)
                lab.cut(homes[0], cut=True)
                with pytest.raises(TimeoutError):
                    while True:
                        taker.line(2.0)  # what was on its way still comes
                lab.cut(homes[0], cut=False)
                taker.until("done", CONNECT_SECONDS)
                assert [event["event"] for event in taker.seen if event["event"] in ("up", "down")] == ["up"]
            finally:
                sender.close()
                taker.close()


def test_what_a_killed_builder_left_is_removed_by_the_next() -> None:
    program = (
        "import sys, time; from tests.lab.topology import Lab, Nat\n"
        f"lab = Lab({NUMBER}).__enter__(); lab.add_home(Nat.DOUBLE); print('built', flush=True); sys.stdin.read()"
    )
    builder = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert builder.stdout is not None
        assert builder.stdout.readline() == b"built\n"
        os.kill(builder.pid, signal.SIGKILL)
        assert f"potlab{NUMBER}-c1" in run("ip", "netns", "list")
        with Lab(NUMBER) as lab:
            lab.add_home(Nat.NONE)
            assert f"potlab{NUMBER}-c1" not in run("ip", "netns", "list")
    finally:
        builder.kill()
        builder.communicate()
        remove_all(f"potlab{NUMBER}")
