"""What a link makes of a line: `make bench-link` (root). The last line of standard output is JSON.

Two namespaces joined by tests/lab/relay.py (rate, delay, losses; packets pass through this machine's processors, as do
both ends), the real hub, the engine's own network at each end. `attainable` is the line's rate less headers: 1200 bytes
of payload in packets of 1307 with Ethernet's 14, SCTP's 28, DTLS's 37, UDP's and IP's 28.
"""

import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.benchmarks.report import Goal, goal, line, quantile, rounded
from tests.lab.cases import Process
from tests.lab.relay import ADDRESSES, Shape
from tests.lab.topology import PREFIX, remove_all, run, why_unavailable

HEADER_TAX: Final = 1200 / 1307
SECONDS: Final = 16.0
WARM_SECONDS: Final = 5.0
NUMBER: Final = 8
TCP_PORT: Final = 5201
BUSY_SECONDS: Final = 60.0
PING_GAP_SECONDS: Final = 0.05
CASES: Final = (
    ("clean_50", Shape(50e6, 0.025), 0.85),
    ("loss_0.1_percent_50", Shape(50e6, 0.025, loss=0.001), 0.70),
    ("loss_1_percent_50", Shape(50e6, 0.025, loss=0.01), 0.45),
    ("clean_100", Shape(100e6, 0.010), 0.80),
)
SLOW: Final = Shape(10e6, 0.015, buffer_seconds=0.2)


def say(text: str) -> None:
    """On standard error."""
    sys.stderr.write(f"bench-link: {text}\n")
    sys.stderr.flush()


@contextlib.contextmanager
def a_line(shape: Shape, folder: Path) -> Iterator[tuple[str, str]]:
    """Two namespaces, joined."""
    names = (f"{PREFIX}{NUMBER}-a", f"{PREFIX}{NUMBER}-b")
    remove_all(f"{PREFIX}{NUMBER}")
    try:
        for name in names:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        text = msgspec.json.encode(shape).decode()
        relay = Process([sys.executable, "-m", "tests.lab.relay", *names, text], folder / "relay.log")
        try:
            relay.line(20)
            yield names
        finally:
            relay.close()
    finally:
        remove_all(f"{PREFIX}{NUMBER}")


def within(namespace: str, *argv: str) -> list[str]:
    """A command there."""
    return ["ip", "netns", "exec", namespace, *argv]


@contextlib.contextmanager
def a_transfer(names: tuple[str, str], folder: Path, seconds: float, *, plain: bool) -> Iterator[dict[str, Any]]:
    """Bulk from the first to the second while the block lasts and until the sender is done; then its figures."""
    environment = {"POTLUCK_LAB_HUB": ADDRESSES[0]} | ({"POTLUCK_LAB_PLAIN": "1"} if plain else {})
    hub = Process(
        within(names[0], sys.executable, "-m", "tests.lab.hub", str(folder)), folder / "hub.log", **environment
    )
    ends: list[Process] = []
    figures: dict[str, Any] = {}
    try:
        hub.line(40)
        for index, command in enumerate(("send", "take")):
            argv = within(names[index], sys.executable, "-m", "tests.lab.peer", str(index), command, str(seconds))
            ends.append(Process(argv, folder / f"{command}.log", **environment))
        ends[1].until("taken", 60)
        yield figures
        ends[1].until("done", seconds + 60)
        taken = [event for event in ends[1].seen if event["event"] == "taken"]
        for end in ends:
            end.close()
        cpu = [end.rest()[-1].get("cpu_seconds", 0.0) for end in ends]
        figures.update(_rates(taken, cpu))
    finally:
        for end in ends:
            end.close()
        hub.close()
        (folder / "hub.db").unlink(missing_ok=True)


def _rates(taken: list[dict[str, Any]], cpu: list[float]) -> dict[str, Any]:
    last = taken[-1]
    steady = [event for event in taken if event["seconds"] >= WARM_SECONDS]
    figures = {"whole_bits_per_second": rounded(last["bytes"] * 8 / last["seconds"])}
    if len(steady) > 1:
        moved, passed = last["bytes"] - steady[0]["bytes"], last["seconds"] - steady[0]["seconds"]
        figures["steady_bits_per_second"] = rounded(moved * 8 / passed)
    gigabytes = last["bytes"] / 1e9
    figures["cpu_seconds_per_gigabyte"] = [rounded(used / gigabytes) for used in cpu]
    return figures


def measure(shape: Shape, *, plain: bool = False, busy: bool = False) -> dict[str, Any]:
    """One line, one way."""
    with tempfile.TemporaryDirectory() as temporary, a_line(shape, Path(temporary)) as names:
        load = [subprocess.Popen(_BUSY) for _ in range(os.cpu_count() or 1)] if busy else []
        try:
            with a_transfer(names, Path(temporary), SECONDS, plain=plain) as figures:
                pass
            figures["share_of_attainable"] = rounded(
                figures.get("steady_bits_per_second", 0.0) / (shape.bits_per_second * HEADER_TAX)
            )
            return figures
        finally:
            for process in load:
                process.kill()
                process.wait()


def plain_library(shape: Shape) -> dict[str, Any]:
    """The same line with one data channel of the library as it comes: no lanes, no pacing, no framing."""
    with tempfile.TemporaryDirectory() as temporary, a_line(shape, Path(temporary)) as names:
        folder, ends = Path(temporary), []
        try:
            for name, command in zip(names, ("send", "take"), strict=True):
                argv = within(name, sys.executable, "-m", "tests.lab.plain", command, str(SECONDS))
                ends.append(Process(argv, folder / f"{command}.log"))
            sender, taker = ends
            taker.say(sdp=sender.until("description", 40)["sdp"])
            sender.say(sdp=taker.until("description", 40)["sdp"])
            cpu = [end.until("end", SECONDS + 60)["cpu_seconds"] for end in (taker, sender)]
            figures = _rates([event for event in taker.seen if event["event"] == "taken"], cpu[::-1])
        finally:
            for end in ends:
                end.close()
    figures["share_of_attainable"] = rounded(
        figures.get("steady_bits_per_second", 0.0) / (shape.bits_per_second * HEADER_TAX)
    )
    return figures


_BUSY: Final = [
    "nice",
    "-n",
    "19",
    sys.executable,
    "-c",
    f"import time; e=time.time()+{BUSY_SECONDS}\nwhile time.time()<e: pass",
]


def queueing() -> dict[str, Any]:
    """What a third party's ping sees on a slow line, with and without a transfer beside it."""
    with tempfile.TemporaryDirectory() as temporary, a_line(SLOW, Path(temporary)) as names:
        alone = _ping(names, 60)
        with a_transfer(names, Path(temporary), SECONDS, plain=False) as figures:
            time.sleep(WARM_SECONDS)
            beside = _ping(names, int((SECONDS - WARM_SECONDS - 2) / PING_GAP_SECONDS))
        base = statistics.median(alone)
        added = [max(0.0, rtt - base) for rtt in beside]
        return {
            "ping_alone_seconds": rounded(base),
            "added_seconds_median": rounded(statistics.median(added)),
            "added_seconds_p95": rounded(quantile(added, 0.95)),
            "pings": len(beside),
            **figures,
        }


def _ping(names: tuple[str, str], count: int) -> list[float]:
    argv = within(names[0], "ping", "-n", "-i", str(PING_GAP_SECONDS), "-c", str(count), "-W", "2", ADDRESSES[1])
    said = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120).stdout
    return [float(found) / 1000 for found in re.findall(r"time=([\d.]+)", said)]


def beside_tcp() -> dict[str, Any]:
    """What a TCP flow keeps of the line when a transfer goes beside it, the same way."""
    with tempfile.TemporaryDirectory() as temporary, a_line(SLOW, Path(temporary)) as names:
        alone = _tcp(names, 8.0)
        with a_transfer(names, Path(temporary), SECONDS, plain=False) as figures:
            time.sleep(WARM_SECONDS)
            beside = _tcp(names, SECONDS - WARM_SECONDS - 2)
        return {
            "tcp_alone_bits_per_second": rounded(alone),
            "tcp_beside_bits_per_second": rounded(beside),
            "tcp_share": rounded(beside / alone),
            **figures,
        }


_TAKE: Final = (
    "import socket,sys,time\ns=socket.socket();s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)\n"
    f"s.bind(('0.0.0.0',{TCP_PORT}));s.listen();print('ready',flush=True)\nc,_=s.accept();n=0;t=time.time()\n"
    "while (d:=c.recv(65536)): n+=len(d)\nprint(n*8/(time.time()-t),flush=True)"
)
_GIVE: Final = (
    "import socket,sys,time\nc=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n"
    "e=time.time()+float(sys.argv[3])\n"
    "while time.time()<e: c.sendall(bytes(16384))"
)


def _tcp(names: tuple[str, str], seconds: float) -> float:
    """Bits a second that arrived."""
    taker = subprocess.Popen(within(names[1], sys.executable, "-c", _TAKE), stdout=subprocess.PIPE, text=True)
    try:
        if taker.stdout is None:
            raise RuntimeError("no pipe")
        taker.stdout.readline()
        argv = within(names[0], sys.executable, "-c", _GIVE, ADDRESSES[1], str(TCP_PORT), str(seconds))
        subprocess.run(argv, check=True, timeout=seconds + 30)
        return float(taker.stdout.readline())
    finally:
        taker.kill()
        taker.communicate()


def main() -> int:
    """All cases."""
    why = why_unavailable()
    if why:
        say(f"it cannot run here: {why}")
        return 1
    figures: dict[str, Any] = {
        "cores": os.cpu_count(),
        "header_tax": rounded(HEADER_TAX),
        "load_before": os.getloadavg()[0],
    }
    goals: dict[str, Goal] = {}
    for name, shape, least in CASES:
        say(name)
        figures[name] = measure(shape)
        goals[name] = goal(figures[name]["share_of_attainable"], least, "at_least")
    say("one association without pacing, for comparison")
    figures["one_association_clean_50"] = measure(CASES[0][1], plain=True)
    figures["one_association_loss_1_percent_50"] = measure(CASES[2][1], plain=True)
    say("one data channel of the library as it comes")
    for name, shape, _ in CASES:
        figures[f"plain_aiortc_{name}"] = plain_library(shape)
    say("with every core busy")
    figures["busy_clean_50"] = measure(CASES[0][1], busy=True)
    kept = figures["busy_clean_50"]["share_of_attainable"] / figures["clean_50"]["share_of_attainable"]
    goals["busy_share_of_idle"] = goal(rounded(kept), 0.80, "at_least")
    say("a ping beside it")
    figures["queueing_10"] = queueing()
    goals["added_delay_seconds_p95"] = goal(figures["queueing_10"]["added_seconds_p95"], 0.030, "below")
    say("a TCP flow beside it")
    figures["tcp_10"] = beside_tcp()
    goals["tcp_share"] = goal(figures["tcp_10"]["tcp_share"], 0.80, "at_least")
    sys.stdout.write(line("link", figures, goals) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
