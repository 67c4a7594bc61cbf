"""How long averaging takes among 8 volunteers: `make bench-averaging`. The last line of standard output is JSON.

The reference's own case (hivemind's benchmark): 8 peers, a vector of 2,373,888 float32 values, each peer a process with
the engine's real network, round machine and codecs, links by aiortc, all on this machine's cores. On loopback the
processors are the limit: `cpu_floor_seconds` is the processor time of all peers in a round over the cores, measured in
the same rounds. On shaped lines (namespaces, 5, 10 and 20 Mbit/s up, 5 times that down) `eta` is the bound of
docs/specs/averaging.md over what was measured. The hybrid swarm of the paper (8 fast, 16 slow) is computed with the
same line model that the planner uses: two cores cannot carry 24 peers, and the figure's name says so.
"""

import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from engine.averaging.optimum import Line, bound_seconds, fastest, seconds
from tests.benchmarks.report import Goal, goal, line, rounded
from tests.lab.cases import Process, a_public_side
from tests.lab.topology import Lab, Nat, why_unavailable

PEERS: Final = 8
LENGTH: Final = 2_373_888
ROUNDS: Final = 50
SHAPED_ROUNDS: Final = 6
WARM_ROUNDS: Final = 2
START_SECONDS: Final = 60.0
ROUND_SECONDS: Final = 180.0
UPLOADS_MBIT: Final = (5, 5, 5, 10, 10, 10, 20, 20)
DOWN_PER_UP: Final = 5
HEADER_TAX: Final = 1200 / 1307
"""Payload in a packet over the packet on the wire, as in tests/benchmarks/link.py."""
BYTES_EACH: Final = {"float32": 4.0, "float16": 2.0, "int8": 1.001}


def say(text: str) -> None:
    """On standard error."""
    sys.stderr.write(f"bench-averaging: {text}\n")
    sys.stderr.flush()


def command(number: int, exchange: str, *more: str) -> list[str]:
    """One volunteer's."""
    return [sys.executable, "-m", "tests.benchmarks.averager", str(number), str(PEERS), exchange, str(LENGTH), *more]


@contextlib.contextmanager
def on_loopback(exchange: str) -> Iterator[list[Process]]:
    """Eight that have met."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, environment = Path(temporary), {"POTLUCK_LAB_HUB": "127.0.0.1"}
        hub = Process([sys.executable, "-m", "tests.lab.hub", temporary], folder / "hub.log", **environment)
        peers: list[Process] = []
        try:
            hub.line(START_SECONDS)
            peers += [
                Process(command(number, exchange), folder / f"{number}.log", **environment) for number in range(PEERS)
            ]
            meet(peers)
            yield peers
        finally:
            for peer in peers:
                peer.close()
            hub.close()


@contextlib.contextmanager
def on_shaped_lines(exchange: str) -> Iterator[list[Process]]:
    """The same in homes with lines of their own."""
    with Lab(6) as lab, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        homes = [lab.add_home(Nat.PRESERVING) for _ in range(PEERS)]
        with a_public_side(lab, folder):
            peers: list[Process] = []
            try:
                for number, home in enumerate(homes):
                    argv = home.command(*command(number, exchange, "lab"))
                    peers.append(Process(argv, folder / f"{number}.log"))
                meet(peers)
                for home, upload in zip(homes, UPLOADS_MBIT, strict=True):
                    lab.shape(home, upload * 1_000_000, DOWN_PER_UP * upload * 1_000_000)
                yield peers
            finally:
                for peer in peers:
                    peer.close()


def meet(peers: list[Process]) -> None:
    """Wait until all have links with all."""
    for peer in peers:
        while peer.until("ready", START_SECONDS)["count"] < PEERS - 1:
            pass


def pss_bytes(pid: int) -> int:
    """Proportional set size: shared pages counted by share."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("Pss:"))


def run_rounds(peers: list[Process], count: int) -> dict[str, Any]:
    """`count` rounds, led in turn."""
    pids = [peer.seen[0]["pid"] for peer in peers]
    durations, cpus, successes, pss, lost = [], [], 0, 0, []
    shares: list[int] = []
    last_cpu = [0.0] * len(peers)
    sent = 0
    for number in range(count):
        peers[number % len(peers)].order("go")
        began = time.monotonic()
        outcomes = [peer.until("outcome", ROUND_SECONDS) for peer in peers]
        took = time.monotonic() - began
        cpu = [outcome["cpu"] for outcome in outcomes]
        if number >= WARM_ROUNDS:
            durations.append(took)
            cpus.append(sum(cpu) - sum(last_cpu))
        last_cpu = cpu
        good = {outcome["kind"] for outcome in outcomes} == {"Committed"}
        same = len({outcome.get("digest") for outcome in outcomes}) == 1
        if good and same and outcomes[0]["accepted"] == len(peers):
            successes += 1
            shares = outcomes[0]["shares"]
        else:
            lost.append([outcome.get("reason", outcome["kind"]) for outcome in outcomes])
        pss = max(pss, *(pss_bytes(pid) for pid in pids))
        sent = max(outcome["sent"] for outcome in outcomes)
    return {
        "rounds": count,
        "successes": successes,
        "seconds_median": rounded(statistics.median(durations)),
        "seconds_min": rounded(min(durations)),
        "seconds_max": rounded(max(durations)),
        "cpu_seconds_of_all_peers": rounded(statistics.median(cpus)),
        "cpu_floor_seconds": rounded(statistics.median(cpus) / (os.cpu_count() or 1)),
        "pss_bytes_worst": pss,
        "wire_bytes_sent_most": sent,
        "shares": shares,
        "lines_told": [outcome["line"] for outcome in outcomes],
        "failures": lost[:3],
    }


def hybrid() -> float:
    """Equal shares over adaptive ones, 8 lines of 1 Gbit/s and 16 of 0.2."""
    lines = [Line(125e6, 125e6)] * 8 + [Line(25e6, 25e6)] * 16
    optimum = fastest(lines)
    adaptive = seconds(lines, [rate / optimum.bytes_per_second for rate in optimum.rates])
    return seconds(lines, [1 / len(lines)] * len(lines)) / adaptive


def main() -> int:
    """All cases."""
    figures: dict[str, Any] = {"cores": os.cpu_count(), "peers": PEERS, "elements": LENGTH}
    goals: dict[str, Goal] = {}
    for exchange, most in (("float16", 2.6), ("int8", 1.5)):
        say(f"{ROUNDS} rounds on loopback, {exchange}")
        with on_loopback(exchange) as peers:
            found = figures[f"loopback_{exchange}"] = run_rounds(peers, ROUNDS)
        goals[f"successes_{exchange}"] = goal(float(found["successes"]), float(ROUNDS), "at_least")
        goals[f"seconds_{exchange}"] = goal(found["seconds_median"], most, "below")
        goals[f"pss_bytes_{exchange}"] = goal(float(found["pss_bytes_worst"]), 150e6, "below")
    why = why_unavailable()
    if why:
        say(f"no shaped lines: {why}")
    else:
        for exchange in ("float16", "int8"):
            say(f"{SHAPED_ROUNDS} rounds on shaped lines, {exchange}")
            with on_shaped_lines(exchange) as peers:
                found = figures[f"shaped_{exchange}"] = run_rounds(peers, SHAPED_ROUNDS)
            payload = [upload * 1e6 / 8 * HEADER_TAX for upload in UPLOADS_MBIT]
            found["bound_seconds"] = rounded(bound_seconds(LENGTH * BYTES_EACH[exchange], payload))
            found["eta"] = rounded(found["bound_seconds"] / found["seconds_median"])
            goals[f"eta_{exchange}"] = goal(found["eta"], 0.85, "at_least")
    figures["hybrid_gain_by_line_model"] = rounded(hybrid())
    goals["hybrid_gain"] = goal(figures["hybrid_gain_by_line_model"], 1.8, "at_least")
    sys.stdout.write(line("averaging", figures, goals) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
