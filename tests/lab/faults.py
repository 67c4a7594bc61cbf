"""What links make of faults: `make lab-faults`. Each case builds its own homes; the last line of output is JSON.

A case is a function that is given a running `Scene` and says what it saw. `down_seconds` counts from the fault to the
first link that ended, `back_seconds` from the mending of the fault to the link that stands again; `memory_growth_bytes`
is the most that any computer but a hostile one gained meanwhile.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.report import goal, line, rounded
from tests.lab.cases import CONNECT_SECONDS, START_SECONDS, Process, a_public_side
from tests.lab.topology import PUBLIC, Home, Lab, Nat, a_turn_server, run, why_unavailable

MEMORY_BOUND_BYTES: Final = 64 * 1024 * 1024
"""What one hostile or lost peer may make a computer hold, from docs/specs/wire.md with room for the allocator."""
LINE_BITS: Final = 20_000_000
SILENCE_SECONDS: Final = 12.0
"""A line that is cut for longer loses its links."""
NOTICE_SECONDS: Final = 30.0
BACK_SECONDS: Final = 60.0
"""Twice the time that a try may take, since one may have begun just before the line came back."""


@dataclass
class Scene:
    """Homes, a hub and a relay that run."""

    lab: Lab
    homes: list[Home]
    peers: list[Process]
    folder: Path
    hub: Process
    relay: subprocess.Popen[bytes]

    def until_up(self, number: int, other: int, seconds: float = CONNECT_SECONDS) -> dict[str, Any]:
        """Wait until home `number` has a link with `other`."""
        return self._until(number, "up", other, seconds)

    def until_met(self, number: int, others: set[int], seconds: float = CONNECT_SECONDS) -> None:
        """Wait until home `number` has had links with all `others`, in whatever order they came."""
        deadline = time.monotonic() + seconds
        while not others <= {event["peer"] for event in self.peers[number].seen if event["event"] == "up"}:
            self.peers[number].until("up", max(0.01, deadline - time.monotonic()))

    def until_down(self, number: int, other: int, seconds: float = CONNECT_SECONDS) -> dict[str, Any]:
        """Wait until home `number` lost its link with `other`."""
        return self._until(number, "down", other, seconds)

    def _until(self, number: int, event: str, other: int, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while True:
            found = self.peers[number].until(event, max(0.01, deadline - time.monotonic()))
            if found["peer"] == other:
                return found

    def watch(self, number: int, seconds: float) -> list[dict[str, Any]]:
        """What home `number` tells in so long."""
        began, deadline = len(self.peers[number].seen), time.monotonic() + seconds
        with contextlib.suppress(TimeoutError):
            self.peers[number].until("no such event", max(0.01, deadline - time.monotonic()))
        return self.peers[number].seen[began:]

    def memory_growth(self, numbers: tuple[int, ...] = (0, 1)) -> int:
        """The most that these homes' computers gained since their first link."""
        worst = 0
        for number in numbers:
            self.watch(number, 1.5)
            ticks = [event for event in self.peers[number].seen if event["event"] == "tick"]
            linked = [tick["rss"] for tick in ticks if tick["links"]] or [tick["rss"] for tick in ticks]
            worst = max(worst, max(tick["rss"] for tick in ticks) - linked[0])
        return worst


@contextlib.contextmanager
def a_scene(number: int, nats: tuple[Nat, ...], *, hostile: int | None = None) -> Iterator[Scene]:
    """Homes that have met, all with all; `hostile` is the one that sends rubbish, and need not be met."""
    with Lab(number) as lab, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        homes = [lab.add_home(nat) for nat in nats]
        for home in homes:
            lab.shape(home, LINE_BITS, LINE_BITS)
        with a_public_side(lab, folder) as public:
            peers: list[Process] = []
            try:
                for index, home in enumerate(homes):
                    more = ["rubbish"] if index == hostile else []
                    argv = home.command(sys.executable, "-m", "tests.lab.stayer", str(index), *more)
                    peers.append(Process(argv, folder / f"stayer-{index}.log"))
                    peers[-1].until("start", START_SECONDS)
                scene = Scene(lab, homes, peers, folder, public.hub, public.relay)
                good = [index for index in range(len(homes)) if index != hostile]
                for index in good:
                    scene.until_met(index, {other for other in good if other != index})
                yield scene
            finally:
                for one in peers:
                    one.close()


def cut_for(scene: Scene, seconds: float) -> dict[str, Any]:
    """The cable of home 0 is pulled for so long."""
    began = time.time()
    scene.lab.cut(scene.homes[0], cut=True)
    down = scene.until_down(1, 0, NOTICE_SECONDS) if seconds > SILENCE_SECONDS else None
    scene.watch(0, max(0.0, began + seconds - time.time()))
    mended = time.time()
    scene.lab.cut(scene.homes[0], cut=False)
    if down is None:
        seen = scene.watch(1, 10.0)
        ends = [event for event in seen if event["event"] == "down"]
        return {"links_lost": len(ends), "back_seconds": 0.0 if not ends else None}
    up = scene.until_up(1, 0, BACK_SECONDS)
    return {
        "down_seconds": down["at"] - began,
        "code": down["code"],
        "lost_bytes": down["lost_bytes"],
        "back_seconds": up["at"] - mended,
    }


def cut_for_good(scene: Scene) -> dict[str, Any]:
    """It stays pulled: nothing hangs, nothing grows, nothing spins."""
    began = time.time()
    scene.lab.cut(scene.homes[0], cut=True)
    downs = [scene.until_down(1, 0, NOTICE_SECONDS), scene.until_down(0, 1, NOTICE_SECONDS)]
    ticks = [event for event in scene.watch(0, 30.0) if event["event"] == "tick"]
    cpu = (ticks[-1]["cpu"] - ticks[0]["cpu"]) / (ticks[-1]["at"] - ticks[0]["at"])
    return {
        "down_seconds": max(down["at"] for down in downs) - began,
        "code": downs[0]["code"],
        "lost_bytes": downs[0]["lost_bytes"],
        "cpu_share_while_cut": cpu,
    }


def address_changes(scene: Scene) -> dict[str, Any]:
    """Home 0's computer gets another address, as after a change from cable to wireless."""
    home = scene.homes[0]
    subnet, began = home.address.rpartition(".")[0], time.time()
    run("ip", "-n", home.name, "addr", "del", f"{home.address}/24", "dev", "eth0")
    run("ip", "-n", home.name, "addr", "add", f"{subnet}.77/24", "dev", "eth0")
    run("ip", "-n", home.name, "route", "replace", "default", "via", f"{subnet}.1")
    down = scene.until_down(0, 1, NOTICE_SECONDS)
    up = scene.until_up(0, 1, BACK_SECONDS)
    return {"down_seconds": down["at"] - began, "code": down["code"], "back_seconds": up["at"] - began}


def router_restarts(scene: Scene) -> dict[str, Any]:
    """Home 0's router is away for 20 s and has another public address then, as after a night's forced separation."""
    router, began = scene.homes[0].routers[-1], time.time()
    scene.lab.cut(scene.homes[0], cut=True)
    down = scene.until_down(1, 0, NOTICE_SECONDS)
    scene.watch(0, max(0.0, began + 20.0 - time.time()))
    run("ip", "-n", router, "addr", "flush", "dev", "wan", "scope", "global")
    run("ip", "-n", router, "addr", "add", f"{PUBLIC}.200/24", "dev", "wan")
    mended = time.time()
    scene.lab.cut(scene.homes[0], cut=False)
    up = scene.until_up(1, 0, BACK_SECONDS)
    return {"down_seconds": down["at"] - began, "code": down["code"], "back_seconds": up["at"] - mended}


def hub_is_gone(scene: Scene) -> dict[str, Any]:
    """The hub dies; then homes 0 and 1 lose sight of each other for a while, and find each other through home 2."""
    scene.watch(2, 3.0)  # neighbours have been told of each other
    scene.hub.close()
    quiet = [event for event in scene.watch(0, 5.0) if event["event"] == "down"]
    began = time.time()
    _block(scene, block=True)
    down = scene.until_down(0, 1, NOTICE_SECONDS)
    mended = time.time()
    _block(scene, block=False)
    up = scene.until_up(0, 1, BACK_SECONDS)
    return {
        "links_lost_with_the_hub": len(quiet),
        "down_seconds": down["at"] - began,
        "code": down["code"],
        "back_seconds": up["at"] - mended,
    }


def _block(scene: Scene, *, block: bool) -> None:
    """Whether the public side lets packets pass between the routers of homes 0 and 1."""
    router = scene.homes[0].routers[-1]
    if not block:
        run("ip", "netns", "exec", router, "nft", "delete", "table", "ip", "wall")
        return
    listed = run("ip", "-n", scene.homes[1].routers[-1], "-4", "-o", "addr", "show", "dev", "wan")
    other = listed.split("inet ")[1].split("/")[0]
    chain = "{ type filter hook %s priority -5; policy accept; ip saddr %s drop; ip daddr %s drop; }"
    chains = "\n".join(f"chain {hook} " + chain % (hook, other, other) for hook in ("prerouting", "postrouting"))
    run("ip", "netns", "exec", router, "nft", "-f", "-", text=f"table ip wall {{\n{chains}\n}}\n")


def relay_restarts(scene: Scene) -> dict[str, Any]:
    """coturn dies, and another one comes 5 s later: it knows nothing of the allocations."""
    began = time.time()
    scene.relay.kill()
    scene.relay.wait()
    down = scene.until_down(0, 1, NOTICE_SECONDS + 5.0)
    mended = time.time()
    with a_turn_server(scene.lab, scene.folder):
        up = scene.until_up(0, 1, BACK_SECONDS)
        return {"down_seconds": down["at"] - began, "code": down["code"], "back_seconds": up["at"] - mended}


def five_percent_lost(scene: Scene) -> dict[str, Any]:
    """Of home 0's packets in either direction, for 30 s."""
    router = scene.homes[0].routers[-1]
    rule = "chain lossy { type filter hook forward priority -5; policy accept; numgen random mod 100 < 5 drop; }"
    run("ip", "netns", "exec", router, "nft", "-f", "-", text=f"table ip lossy {{\n{rule}\n}}\n")
    ticks = [event for event in scene.watch(1, 30.0) if event["event"] in ("tick", "down")]
    ends = [event for event in ticks if event["event"] == "down"]
    carried = [tick["received"] for tick in ticks if tick["event"] == "tick"]
    return {"links_lost": len(ends), "received_bytes_per_second": (carried[-1] - carried[0]) / 30.0}


def rubbish(scene: Scene) -> dict[str, Any]:
    """Home 2 sends what is no frame as fast as its line goes; homes 0 and 1 go on with each other."""
    refused = [event for event in scene.watch(0, 20.0) if event["event"] == "down"]
    others = [event for event in refused if event["peer"] == 1]
    return {
        "refusals": len(refused) - len(others),
        "codes": sorted({event["code"] for event in refused if event["peer"] == 2}),
        "links_lost": len(others),
    }


def udp_flood(scene: Scene) -> dict[str, Any]:
    """A stranger floods every UDP port of home 0, which has a public address, with noise at the line's rate."""
    home = scene.homes[0]
    rows = run("ip", "netns", "exec", home.name, "cat", "/proc/net/udp").splitlines()[1:]
    ports = sorted({int(row.split()[1].rpartition(":")[2], 16) for row in rows})
    program = (
        "import os, socket, sys, time\n"
        "address, ports, until = sys.argv[1], sys.argv[2].split(','), time.time() + 15\n"
        "out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "while time.time() < until:\n"
        "    for port in ports:\n"
        "        for first in (0, 20, 64, 128):\n"
        "            out.sendto(bytes([first]) + os.urandom(1100), (address, int(port)))\n"
        "    time.sleep(0.0005 * len(ports))\n"
        'print(\'{"event": "flooded"}\')\n'
    )
    argv = scene.lab.serve(sys.executable, "-c", program, home.address, ",".join(map(str, ports)))
    flood = Process(argv, scene.folder / "flood.log")
    try:
        seen = scene.watch(0, 18.0)
    finally:
        flood.close()
    ends = [event for event in seen if event["event"] == "down"]
    return {"ports": len(ports), "links_lost": len(ends)}


HOMES: Final = (Nat.PRESERVING, Nat.PRESERVING)
CASES: Final[dict[str, tuple[tuple[Nat, ...], int | None, Callable[[Scene], dict[str, Any]]]]] = {
    "cut_3_seconds": (HOMES, None, lambda scene: cut_for(scene, 3.0)),
    "cut_30_seconds": (HOMES, None, lambda scene: cut_for(scene, 30.0)),
    "cut_for_good": (HOMES, None, cut_for_good),
    "address_changes": (HOMES, None, address_changes),
    "router_restarts": (HOMES, None, router_restarts),
    "hub_is_gone": ((*HOMES, Nat.PRESERVING), None, hub_is_gone),
    "relay_restarts": ((Nat.RANDOM, Nat.RANDOM), None, relay_restarts),
    "five_percent_lost": (HOMES, None, five_percent_lost),
    "rubbish_at_line_rate": ((*HOMES, Nat.NONE), 2, rubbish),
    "udp_flood": ((Nat.NONE, Nat.PRESERVING), None, udp_flood),
}


def try_out(name: str, number: int = 0) -> dict[str, Any]:
    """What came of one case; `failed` says why nothing did."""
    nats, hostile, case = CASES[name]
    with a_scene(number, nats, hostile=hostile) as scene:
        try:
            found = case(scene)
        except TimeoutError as error:
            return {"failed": str(error)[:600]}
        growth = scene.memory_growth()
        return {**found, "memory_growth_bytes": growth}


def survived(found: dict[str, Any]) -> bool:
    """Nothing hung, no link was lost that need not be, what was lost came back, and memory stayed within its bound."""
    if "failed" in found or found["memory_growth_bytes"] > MEMORY_BOUND_BYTES:
        return False
    return not found.get("links_lost") and not found.get("links_lost_with_the_hub")


def main(names: list[str]) -> int:
    """All cases, or those named."""
    why = why_unavailable()
    if why:
        sys.stderr.write(f"the lab cannot be built here: {why}\n")
        return 1
    figures: dict[str, Any] = {"memory_bound_bytes": MEMORY_BOUND_BYTES}
    for name in names or CASES:
        found = figures[name] = {
            key: rounded(value) if isinstance(value, float) else value for key, value in try_out(name).items()
        }
        sys.stdout.write(f"{name:22} {'ok' if survived(found) else 'NOT OK'}  {found}\n")
        sys.stdout.flush()
    goals = {
        name: goal(1.0 if survived(found) else 0.0, 0.5, "at_least")
        for name, found in figures.items()
        if isinstance(found, dict)
    }
    sys.stdout.write(line("lab-faults", figures, goals) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
