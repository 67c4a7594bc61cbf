"""A real engine with a real worker, and somebody who touches the mouse.

Everything is seen from outside: the worker's CPU time says when it computes, xdotool is the hand on the mouse, and the
X server's idle counter is what the engine reads.
"""

import asyncio
import random
import time
from asyncio.subprocess import DEVNULL
from dataclasses import dataclass
from typing import Final

import msgspec

from engine.contract import commands as c
from engine.contract.settings import SettingValue
from engine.contract.snapshot import EngineState
from tests.benchmarks.children import BenchmarkFailed, Engine, Patience
from tests.benchmarks.cpu_clock import LastWork

AWAY_SECONDS: Final = 3
STILL_SECONDS: Final = 0.7
"""A worker that has not computed for so long has stopped: at the duty of the trials its rests are far shorter."""

SAMPLE_SECONDS: Final = 0.01
POLL_SECONDS: Final = 0.05
PATIENCE_SECONDS: Final = 60.0
SETTINGS: Final[dict[str, SettingValue]] = {
    "preset": "custom",
    "pause_while_in_use": True,
    "away_after_seconds": AWAY_SECONDS,
    "foreign_cpu_percent": 0,
    "foreign_gpu_percent": 0,
    "memory_free_bytes": 512 * 1024**2,
    "memory_away_percent": 100,
    "disk_free_bytes": 1_000_000_000,
    "pause_on_battery": False,
    "pause_on_energy_saver": False,
    "pause_on_metered": False,
}


@dataclass(frozen=True, slots=True)
class Trial:
    """One touch of the mouse."""

    stop_seconds: float  # from before xdotool starts to the last moment at which the worker computed
    resume_seconds: float  # from the touch to the first moment at which it computed again


class Touched:
    """An engine whose user comes and goes."""

    def __init__(self, engine: Engine, patience: Patience, display: str) -> None:
        self._engine = engine
        self._patience = patience
        self._display = display
        self._dice = random.Random(7)

    async def prepare(self) -> int:
        """Set it up and wait until it trains; the worker's process id."""
        await self._engine.client.request(c.ChangeSettings(changes=dict(SETTINGS)))
        begun = time.perf_counter()
        while time.perf_counter() - begun < PATIENCE_SECONDS:
            state = await self.state()
            session = state.session
            if session is not None and session.worker_pid is not None and session.my_samples > 0:
                return session.worker_pid
            await self._patience.rest(POLL_SECONDS)
        raise BenchmarkFailed(f"the engine does not train: {(await self.state()).status}")

    async def state(self) -> EngineState:
        """The engine's, now."""
        return msgspec.convert(await self._engine.client.request(c.GetState()), EngineState)

    async def trial(self, worker: int) -> Trial:
        """Let it train for a while, touch the mouse, and see how long both take."""
        work = LastWork(worker)
        await self._patience.rest(self._dice.uniform(0.5, 1.5))
        touched = time.perf_counter()
        await self._touch()
        await self._sample_until(work, still=True)
        stopped = work.at
        await self._sample_until(work, still=False)
        return Trial(max(0.0, stopped - touched), work.at - touched)

    async def _sample_until(self, work: LastWork, *, still: bool) -> None:
        begun = time.perf_counter()
        while time.perf_counter() - begun < PATIENCE_SECONDS:
            quiet = work.sample()
            if (quiet >= STILL_SECONDS) if still else (quiet == 0.0):
                return
            await self._patience.rest(SAMPLE_SECONDS)
        raise BenchmarkFailed(f"the worker did not {'stop' if still else 'go on'}: {(await self.state()).governor}")

    async def _touch(self) -> None:
        x, y = self._dice.randrange(1000), self._dice.randrange(800)
        process = await asyncio.create_subprocess_exec(
            "xdotool", "mousemove", str(x), str(y), env={"DISPLAY": self._display}, stdout=DEVNULL, stderr=DEVNULL
        )
        if await process.wait():
            raise BenchmarkFailed("xdotool cannot move the mouse")
