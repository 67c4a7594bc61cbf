"""`make bench-governor`: how good a guest the engine is on this computer.

A real engine, worker and window on an X server without a screen, with real mouse movements (xdotool); all times are
taken from outside. Only one thing is not as users have it: the shortest time until a computer counts as away is lifted,
since fifty trials of a minute each would take an hour. Run it on a computer that does nothing else: the load is told.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from engine.contract import commands as c
from engine.manifest.schema import Manifest
from engine.runtime.bundled import bundled_manifests
from engine.runtime.lifetime import stop_event
from tests.benchmarks.children import BenchmarkFailed, Children, Engine, Patience
from tests.benchmarks.cpu_clock import tree_cpu_seconds
from tests.benchmarks.guest_trials import AWAY_SECONDS, Touched
from tests.benchmarks.held_duty import Held, lone_worker
from tests.benchmarks.loads import LONE_NAME, lone_project
from tests.benchmarks.report import Goal, goal, line, quantile, rounded, spread
from tests.benchmarks.simulated_heat import TARGET_CELSIUS, heat_up

DUTIES: Final = (0.10, 0.25, 0.50, 0.75)
DUTY_SECONDS: Final = 20.0
DUTY_POINTS_GOAL: Final = 3.0
STOP_GOAL_SECONDS: Final = 1.0
RESUME_LATE_GOAL_SECONDS: Final = 1.0
HEAT_GOAL_CELSIUS: Final = 3.0
IDLE_GOAL: Final = 0.005
"""Of one core."""

IDLE_SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 15.0
STEP_SECONDS: Final = 30.0
SAMPLES_PER_SECOND: Final = 100.0
HEAT_SEEDS: Final = 5


@dataclass(slots=True)
class Governor:
    """One run of the benchmark."""

    children: Children
    patience: Patience
    base: Path
    trials: int
    figures: dict[str, Any] = field(default_factory=dict)
    goals: dict[str, Goal] = field(default_factory=dict)

    async def measure(self) -> str:
        """All of it; the last line."""
        begun = time.perf_counter()
        self.figures |= {"cores": os.cpu_count(), "load_before": _load()}
        bundled = bundled_manifests()[0]
        self._heat()
        await self._duty(bundled)
        project = lone_project(bundled, SAMPLES_PER_SECOND, STEP_SECONDS)
        hub = await self.children.start_hub(self._write(project))
        display = await self.children.start_screen()
        engine = await self.children.start_engine(
            "guest", ["--hub", hub, "--join", LONE_NAME], "tests.benchmarks.impatient", _environment(display)
        )
        await self._trials(engine, display)
        await self._paused(engine, display)
        self.figures |= {"load_after": _load(), "bench_seconds": rounded(time.perf_counter() - begun)}
        return line("governor", self.figures, self.goals)

    def _write(self, project: Manifest) -> Path:
        path = self.base / f"{project.name}.json"
        path.write_bytes(msgspec.json.encode(project))
        return path

    def _heat(self) -> None:
        _say("the controller of heat on simulated computers")
        heated = heat_up(HEAT_SEEDS)
        self.figures |= {
            "heat_target_celsius": TARGET_CELSIUS,
            "heat_worst_mean_error_celsius": rounded(heated.worst_mean_error_celsius),
            "heat_worst_celsius": rounded(heated.worst_celsius),
            "heat_hard_stop_celsius": heated.hard_stop_celsius,
        }
        self.goals["heat_error_celsius"] = goal(heated.worst_mean_error_celsius, HEAT_GOAL_CELSIUS, "below")
        self.goals["heat_below_hard_stop"] = goal(heated.worst_celsius, heated.hard_stop_celsius, "below")

    async def _duty(self, manifest: Manifest) -> None:
        held: list[Held] = []
        async with lone_worker(manifest, self.base / "lone-worker") as worker:
            _say("how much of a processor a worker gets here without a limit")
            free = await worker.hold(1.0, DUTY_SECONDS / 4, self.patience)
            for duty in DUTIES:
                _say(f"a worker at {100 * duty:.0f} %")
                held.append(await worker.hold(duty, DUTY_SECONDS, self.patience))
        self.figures |= {
            "duty_without_limit": rounded(free.measured),
            "duty_held": {f"{row.wanted:.2f}": rounded(row.measured) for row in held},
            "micro_batch_seconds": rounded(held[-1].micro_batch_seconds),
        }
        self.goals["duty_points_off"] = goal(max(row.points_off for row in held), DUTY_POINTS_GOAL, "below")

    async def _trials(self, engine: Engine, display: str) -> None:
        touched = Touched(engine, self.patience, display)
        worker = await touched.prepare()
        results = []
        for number in range(self.trials):
            if number % 10 == 0:
                _say(f"touch {number + 1} of {self.trials}")
            results.append(await touched.trial(worker))
        stops, resumes = [row.stop_seconds for row in results], [row.resume_seconds for row in results]
        late = [seconds - AWAY_SECONDS for seconds in resumes]
        self.figures |= {
            "trials": len(results),
            "input_to_stop_seconds": spread(stops),
            "input_to_stop_seconds_p95": rounded(quantile(stops, 0.95)),
            "away_after_seconds": AWAY_SECONDS,
            "input_to_resume_seconds": spread(resumes),
            "resume_earliest_against_setting_seconds": rounded(min(late)),
            "resume_late_seconds_p95": rounded(quantile(late, 0.95)),
        }
        self.goals["input_to_stop_seconds_p95"] = goal(quantile(stops, 0.95), STOP_GOAL_SECONDS, "below")
        self.goals["resume_late_seconds_p95"] = goal(quantile(late, 0.95), RESUME_LATE_GOAL_SECONDS, "below")
        self.goals["resume_never_early_seconds"] = goal(min(late), -0.1, "at_least")

    async def _paused(self, engine: Engine, display: str) -> None:
        """The user pressed Pause; engine and window have nothing to do."""
        _say("engine and window while paused")
        window = await self.children.start_window(engine, {**_environment(display), "QT_QPA_PLATFORM": "xcb"})
        await engine.client.request(c.Pause())
        await self.patience.rest(SETTLE_SECONDS)
        before = tree_cpu_seconds(engine.process.pid), tree_cpu_seconds(window.pid)
        begun = time.perf_counter()
        await self.patience.rest(IDLE_SECONDS)
        elapsed = time.perf_counter() - begun
        after = tree_cpu_seconds(engine.process.pid), tree_cpu_seconds(window.pid)
        engine_own = (after[0][engine.process.pid] - before[0][engine.process.pid]) / elapsed
        shares = [(sum(now.values()) - sum(then.values())) / elapsed for now, then in zip(after, before, strict=True)]
        await self.children.stop_window(window)
        self.figures |= {
            "paused_engine_cpu": rounded(engine_own),
            "paused_engine_and_children_cpu": rounded(shares[0]),
            "paused_window_cpu": rounded(shares[1]),
        }
        self.goals["paused_engine_cpu"] = goal(shares[0], IDLE_GOAL, "below")
        self.goals["paused_window_cpu"] = goal(shares[1], IDLE_GOAL, "below")


def _environment(display: str) -> dict[str, str]:
    return {"DISPLAY": display, "WAYLAND_DISPLAY": "", "XDG_SESSION_TYPE": "x11"}


async def run(trials: int) -> str:
    """Measure in a temporary folder, and leave nothing behind; the JSON line.

    Raises:
        asyncio.CancelledError: Ctrl-C or a polite kill came.
    """
    stop = stop_event()
    base = Path(tempfile.mkdtemp(prefix="potluck-bench-"))
    try:
        bench = asyncio.create_task(_measure(base, stop, trials))
        asked = asyncio.create_task(stop.wait())
        await asyncio.wait({bench, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not bench.done():
            bench.cancel()
        asked.cancel()
        return await bench
    finally:
        shutil.rmtree(base, ignore_errors=True)


async def _measure(base: Path, stop: asyncio.Event, trials: int) -> str:
    patience = Patience(stop)
    async with Children(base, patience) as children:
        return await Governor(children, patience, base, trials).measure()


def _load() -> float | None:
    return rounded(os.getloadavg()[0]) if hasattr(os, "getloadavg") else None


def _say(text: str) -> None:
    sys.stderr.write(f"bench-governor: {text}\n")
    sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the JSON line last."""
    parser = argparse.ArgumentParser(prog="make bench-governor", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=50, choices=range(1, 501), metavar="N", help="default 50")
    options = parser.parse_args(arguments)
    missing = [name for name in ("Xvfb", "xdotool") if shutil.which(name) is None]
    if missing:
        sys.stderr.write(f"bench-governor: {' and '.join(missing)} must be installed\n")
        return 1
    try:
        result = asyncio.run(run(options.trials))
    except asyncio.CancelledError:
        return 130
    except BenchmarkFailed as error:
        sys.stderr.write(f"bench-governor: {error}\n")
        return 1
    sys.stdout.write(result + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
