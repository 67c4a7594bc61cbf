"""`make bench-overhead`: what the engine costs over plain PyTorch, how soon it trains, how soon the window is usable.

Everything is measured here and now, from outside, on real processes: a hub on loopback, `potluck run`, its worker, the
window. The training is the bundled project with two numbers changed: one volunteer may step alone, and the target
batch is such that it does so about every six seconds. Plain loop and engine take turns and never run at once; the
modules `throughput`, `starts`, `probes` and `windows` say how each figure is taken. Run it on a computer that does
nothing else: the spreads tell how much else went on.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from engine.contract import commands as c
from engine.manifest.schema import Manifest
from engine.runtime.bundled import bundled_manifests
from engine.runtime.lifetime import stop_event
from tests.benchmarks.children import BenchmarkFailed, Children, Engine, Patience, PlainTrainer
from tests.benchmarks.loads import LONE_NAME, lone_project, whole_threads
from tests.benchmarks.plain_protocol import Answer
from tests.benchmarks.probes import memory_of, round_trips
from tests.benchmarks.report import Goal, goal, line, paired_ratios, rounded, spread
from tests.benchmarks.starts import StartTimes, forget_code, timed_start
from tests.benchmarks.throughput import STEP_SECONDS, EngineTrainer, EngineTurn, take_turns, worker_pid
from tests.benchmarks.windows import screen, start_windows

RATIO_GOAL: Final = 0.97
USABLE_SECONDS_GOAL: Final = 1.5
WARM_UP_SECONDS: Final = 1.5
CALIBRATION_SECONDS: Final = 2.0
AT_REST_SECONDS: Final = 6.0
"""An engine that was just started has fetched the catalogue and read the machine a few times by then."""
PINGS: Final = 2000
WARM_STARTS: Final = 3
WINDOW_STARTS: Final = 5
WINDOW_STARTS_WHILE_TRAINING: Final = 3


@dataclass(slots=True)
class Overhead:
    """One run of the benchmark."""

    children: Children
    patience: Patience
    base: Path
    turns: int
    figures: dict[str, Any] = field(default_factory=dict)
    goals: dict[str, Goal] = field(default_factory=dict)

    async def measure(self) -> str:
        """All of it; the last line."""
        begun = time.perf_counter()
        threads, share = whole_threads(os.cpu_count() or 1)
        self.figures |= {"cores": os.cpu_count(), "threads": threads, "load_before": _load()}
        bundled = bundled_manifests()[0]
        project = await self._lone_project(bundled, threads)
        hub = await self.children.start_hub(self._write(project))
        environment = await screen(self.children)
        self.figures["window_platform"] = environment["QT_QPA_PLATFORM"]
        engine = await self._starts(hub)
        await engine.client.request(c.ChangeSettings(changes={"cpu_share_percent": share, "pause_on_battery": False}))
        await self._throughput(EngineTrainer(engine, self.patience, project.data.sequence_length), project, threads)
        await self._while_training(engine, environment)
        await self.children.stop_engine(engine)
        await self._at_rest(hub, environment)
        self.figures |= {"load_after": _load(), "bench_seconds": rounded(time.perf_counter() - begun)}
        return line("overhead", self.figures, self.goals)

    async def _start_plain(self, manifest: Manifest, threads: int) -> PlainTrainer:
        plain = await self.children.start_plain(self._write(manifest), threads)
        await plain.train(WARM_UP_SECONDS)  # the first micro-batches are slow
        return plain

    async def _lone_project(self, bundled: Manifest, threads: int) -> Manifest:
        """A project that fits this computer's speed. The loop ends here, since it would keep torch's files in memory
        for the cold start.
        """
        _say("the plain loop finds out how fast this computer is")
        plain = await self._start_plain(bundled, threads)
        pace = await plain.train(CALIBRATION_SECONDS)
        await self.children.stop_plain(plain)
        samples_per_second = pace.tokens / bundled.data.sequence_length / pace.seconds
        project = lone_project(bundled, samples_per_second, STEP_SECONDS)
        self.figures["target_batch_samples"] = project.training.target_batch_samples
        return project

    def _write(self, manifest: Manifest) -> Path:
        path = self.base / f"{manifest.name}.json"
        path.write_bytes(msgspec.json.encode(manifest))
        return path

    async def _starts(self, hub: str) -> Engine:
        """Measure starts; the last engine goes on."""
        arguments = ["--hub", hub, "--join", LONE_NAME]
        cold = forget_code()
        _say("one cold start and some warm ones, from the command to the first micro-batch")
        engine, first = await timed_start(self.children, self.patience, "first", arguments)
        warm: list[StartTimes] = []
        for number in range(1, WARM_STARTS + 1):
            await self.children.stop_engine(engine)
            engine, times = await timed_start(self.children, self.patience, f"warm-{number}", arguments)
            warm.append(times)
        parts = {name: [asdict(times)[name] for times in warm] for name in asdict(first)}
        self.figures |= {
            "first_step_seconds_cold": rounded(first.total),
            "first_step_seconds_cold_parts": {name: rounded(value) for name, value in asdict(first).items()},
            "first_step_files_were_dropped_from_cache": cold,
            "first_step_seconds_warm": spread(parts["total"]),
            "first_step_seconds_warm_parts": {name: rounded(statistics.median(row)) for name, row in parts.items()},
        }
        return engine

    async def _throughput(self, engine: EngineTrainer, project: Manifest, threads: int) -> None:
        _say(f"plain loop and engine in {self.turns} turns")
        await engine.finish_step()
        plain = await self._start_plain(project, threads)
        answers, turns = await take_turns(plain, engine, self.turns)
        await self.children.stop_plain(plain)
        batch_tokens = project.training.target_batch_samples * project.data.sequence_length
        self.figures |= throughput_figures(answers, turns, batch_tokens)
        self.goals["tokens_per_second_ratio"] = goal(
            self.figures["tokens_per_second_ratio"].median, RATIO_GOAL, "at_least"
        )

    async def _while_training(self, engine: Engine, environment: dict[str, str]) -> None:
        _say("memory, control link and window while it trains")
        trips = await round_trips(engine, PINGS)
        memory, worker = memory_of(engine.process.pid), memory_of(await worker_pid(engine))
        starts = await start_windows(self.children, engine, environment, WINDOW_STARTS_WHILE_TRAINING)
        self.figures |= {
            "engine_memory_bytes_while_training": memory.resident_bytes,
            "engine_memory_pss_bytes_while_training": memory.shared_fairly_bytes,
            "engine_has_torch": memory.has_torch,
            "worker_memory_bytes": worker.resident_bytes,
            "worker_memory_pss_bytes": worker.shared_fairly_bytes,
            "control_round_trip_seconds_while_training": trips,
            "window_usable_seconds_while_training": spread([start.usable_seconds for start in starts]),
        }

    async def _at_rest(self, hub: str, environment: dict[str, str]) -> None:
        _say("memory, control link and window of an engine at rest")
        engine = await self.children.start_engine("rest", ["--hub", hub])
        await self.patience.rest(AT_REST_SECONDS)
        memory = memory_of(engine.process.pid)
        trips = await round_trips(engine, PINGS)
        starts = await start_windows(self.children, engine, environment, WINDOW_STARTS)
        self.figures |= {
            "engine_memory_bytes_without_torch": memory.resident_bytes,
            "engine_memory_pss_bytes_without_torch": memory.shared_fairly_bytes,
            "control_round_trip_seconds": trips,
            "window_painted_seconds": spread([start.painted_seconds for start in starts]),
            "window_usable_seconds": spread([start.usable_seconds for start in starts]),
        }
        usable = self.figures["window_usable_seconds"].median
        self.goals["window_usable_seconds"] = goal(usable, USABLE_SECONDS_GOAL, "below")


def throughput_figures(answers: Sequence[Answer], turns: Sequence[EngineTurn], batch_tokens: int) -> dict[str, Any]:
    """Spreads over the turns. Ratios are of neighbours, so that a slow moment slows both sides of one.

    The ratio per processor second leaves out what waiting costs: on a computer where others run too, it tells how much
    of a bad ratio is theirs.
    """
    plain = [answer.tokens / answer.seconds for answer in answers]
    engine = [turn.tokens / turn.seconds for turn in turns]
    plain_stepping = [
        batch_tokens / (batch_tokens / rate + answer.step_seconds) for rate, answer in zip(plain, answers, strict=True)
    ]
    engine_stepping = [turn.tokens_with_round / turn.seconds_with_round for turn in turns]
    pauses = [turn.seconds_with_round - turn.tokens_with_round / rate for rate, turn in zip(engine, turns, strict=True)]
    return {
        "tokens_per_second_plain": spread(plain),
        "tokens_per_second_engine": spread(engine),
        "tokens_per_second_ratio": spread(paired_ratios(engine, plain)),
        "tokens_per_cpu_second_ratio": spread(
            paired_ratios(
                [turn.tokens / turn.seconds / turn.worker_cpu for turn in turns],
                [answer.tokens / answer.cpu_seconds for answer in answers],
            )
        ),
        "tokens_per_second_plain_with_steps": spread(plain_stepping),
        "tokens_per_second_engine_with_rounds": spread(engine_stepping),
        "tokens_per_second_ratio_with_rounds": spread(paired_ratios(engine_stepping, plain_stepping)),
        "plain_step_seconds": spread([answer.step_seconds for answer in answers]),
        "round_pause_seconds": spread(pauses),
        "round_seconds": spread([turn.round_seconds for turn in turns]),
        "engine_busy_processors_while_training": spread([turn.engine_cpu for turn in turns]),
        "worker_busy_processors_while_training": spread([turn.worker_cpu for turn in turns]),
        "plain_busy_processors": spread([answer.cpu_seconds / answer.seconds for answer in answers]),
        "others_busy_processors_beside_engine": spread([turn.others_cpu for turn in turns]),
        "others_busy_processors_beside_plain": spread(
            [answer.others_cpu_seconds / answer.seconds for answer in answers]
        ),
    }


async def run(turns: int) -> str:
    """Measure in a temporary folder, and leave nothing behind; the JSON line.

    Raises:
        asyncio.CancelledError: Ctrl-C or a polite kill came.
    """
    stop = stop_event()
    base = Path(tempfile.mkdtemp(prefix="potluck-bench-"))
    try:
        bench = asyncio.create_task(_measure(base, stop, turns))
        asked = asyncio.create_task(stop.wait())
        await asyncio.wait({bench, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not bench.done():
            bench.cancel()
        asked.cancel()
        return await bench
    finally:
        shutil.rmtree(base, ignore_errors=True)


async def _measure(base: Path, stop: asyncio.Event, turns: int) -> str:
    patience = Patience(stop)
    async with Children(base, patience) as children:
        return await Overhead(children, patience, base, turns).measure()


def _load() -> float | None:
    """How many processes wanted to run, over the last minute."""
    return rounded(os.getloadavg()[0]) if hasattr(os, "getloadavg") else None


def _say(text: str) -> None:
    sys.stderr.write(f"bench-overhead: {text}\n")
    sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the JSON line last."""
    parser = argparse.ArgumentParser(prog="make bench-overhead", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=7, choices=range(1, 101), metavar="N", help="1 to 100 (default 7)")
    options = parser.parse_args(arguments)
    try:
        result = asyncio.run(run(options.turns))
    except asyncio.CancelledError:
        return 130
    except BenchmarkFailed as error:
        sys.stderr.write(f"bench-overhead: {error}\n")
        return 1
    sys.stdout.write(result + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
