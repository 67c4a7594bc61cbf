"""A governor with everything around it that a test can move: the computer's readings, a hand on the mouse."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import msgspec

from engine.contract.reasons import ProblemAction, ProblemCode, Reason, RunState, Scalar
from engine.contract.snapshot import EngineInfo, EngineState, HubStatus, Machine, ReadingInfo, Settings, Status
from engine.control.publisher import StatePublisher
from engine.hardware.idle_watch import IdleWatcher
from engine.hardware.probe import Prober
from engine.runtime.guest import Guest, GuestParts
from engine.runtime.power.keep_awake import GRANTED, KeepAwake
from engine.runtime.session import Session
from engine.runtime.session_events import Limits
from engine.store.rows import Period
from engine.store.service import Store
from tests.helpers.virtual_time import LoopClock

CALM = Machine(
    cores_logical=4, idle_seconds=10_000.0, temperature_celsius=50.0, memory_total_bytes=16 * 2**30, memory_used_bytes=0
)


class Clock(LoopClock):
    """May be told that the computer slept."""

    slept = 0.0

    def now(self) -> float:
        return super().now() + self.slept

    def monotonic(self) -> float:
        return super().monotonic() + self.slept


class Watcher:
    """An `IdleWatcher` whose mouse is moved by the test."""

    def __init__(self, on_input: Callable[[], None]) -> None:
        self._on_input = on_input
        self.armed = self.closed = False

    def arm(self) -> None:
        self.armed = True

    def disarm(self) -> None:
        self.armed = False

    def close(self) -> None:
        self.closed, self.armed = True, False

    def touch(self) -> None:
        """As the real one: told once, and disarmed by that."""
        if self.armed:
            self.armed = False
            self._on_input()


class Computer:
    """A `Prober` of readings that the test sets; idle time passes by itself."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.machine = CALM
        self.last_input_at = clock.now() - 10_000.0
        self.reads = 0
        self.apps: tuple[str, ...] = ()
        self.uses: list[tuple[str, bool]] = []
        self.watchers: list[Watcher] = []

    def read(self, now: float) -> Machine:
        self.reads += 1
        if self.machine.idle_seconds is None:
            return msgspec.structs.replace(self.machine, read_at=now)
        return msgspec.structs.replace(self.machine, idle_seconds=now - self.last_input_at, read_at=now)

    def watcher(self, on_input: Callable[[], None]) -> Watcher:
        self.watchers.append(Watcher(on_input))
        return self.watchers[-1]

    def computes_on(self, device: str, *, working: bool = True) -> None:
        self.uses.append((device, working))

    def owns(self, pids: Any) -> None:
        return None

    def looks_for(self, names: Any) -> None:
        self.apps = tuple(names)

    def touch(self) -> None:
        """Somebody moves the mouse."""
        self.last_input_at = self._clock.now()
        for watcher in self.watchers:
            watcher.touch()


class Records:
    """A `Store` of what the governor keeps."""

    def __init__(self) -> None:
        self.periods: list[tuple[str, tuple[str, ...], float]] = []
        self.readings: list[ReadingInfo] = []
        self.bytes: dict[str, int] = {}
        self.old: tuple[Period, ...] = ()

    async def note_period(self, level: str, reasons: tuple[Reason, ...], at: float) -> None:
        self.periods.append((level, tuple(reason.code.value for reason in reasons), at))

    async def add_reading(self, reading: ReadingInfo) -> None:
        self.readings.append(reading)

    async def bytes_by_day(self, from_date: str) -> dict[str, int]:
        return {date: count for date, count in self.bytes.items() if date >= from_date}

    async def periods_between(self, from_at: float, to_at: float) -> tuple[Period, ...]:
        return self.old


class ToySession:
    """Takes what is posted."""

    def __init__(self) -> None:
        self.posted: list[Any] = []
        self.gpu: bool | None = False

    def post(self, event: Any) -> None:
        self.posted.append(event)

    def has_gpu(self) -> bool | None:
        return self.gpu

    @property
    def limits(self) -> Limits:
        """The last that it was told."""
        return [event for event in self.posted if isinstance(event, Limits)][-1]


class Lock:
    """Keeps no computer awake, and says that it does."""

    def __init__(self) -> None:
        self.held = 0
        self.asked = 0
        self.answer = GRANTED

    def hold(self) -> str:
        self.asked += 1
        self.held += self.answer == GRANTED
        return self.answer

    def release(self) -> None:
        self.held = 0


class Home:
    """A `GuestHost`."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.computer = Computer(self.clock)
        self.records = Records()
        self.lock = Lock()
        now = self.clock.now()
        self.publisher = StatePublisher(
            EngineState(
                engine=EngineInfo(
                    version="0", pid=1, started_at=now, peer_id="p", identity_store="file", data_dir="/", memory_bytes=1
                ),
                status=Status(state=RunState.TRAINING, since=now),
                hub=HubStatus(url="", connected=True),
            )
        )
        self.settings = Settings(**settings)
        self.toy = ToySession()
        self.joined: ToySession | None = self.toy
        self.done: list[str] = []
        self.saved = asyncio.Event()
        self.saved.set()
        self._tasks: set[asyncio.Task[None]] = set()
        parts = GuestParts(
            self.clock,
            cast("Store", self.records),
            self.publisher,
            cast("Prober", self.computer),
            KeepAwake(self.lock),
        )
        self.guest = Guest(self, parts)

    @property
    def session(self) -> Session | None:
        return cast("Session | None", self.joined)

    def engine_info(self) -> EngineInfo:
        return self.publisher.state.engine

    def on_decision(self) -> None:
        self.guest.note()

    def keep_soon(self, name: str, write: Any) -> None:
        task = asyncio.ensure_future(write)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def hold_session(self, when: str) -> None:
        self.done.append(f"held {when}")
        self.joined = None

    def let_session(self) -> None:
        self.done.append("let")
        self.joined = self.toy

    async def save_all(self) -> None:
        await self.saved.wait()
        self.done.append("saved")

    def stop(self) -> None:
        self.done.append("stopped")

    def on_problem(self, code: ProblemCode, action: ProblemAction, params: dict[str, Scalar]) -> None:
        self.done.append(f"told {code.value}")

    def on_mended(self, code: ProblemCode) -> None:
        self.done.append(f"mended {code.value}")

    def change(self, **settings: Any) -> None:
        self.settings = msgspec.structs.replace(self.settings, **settings)
        self.guest.look_again()

    async def pass_time(self, seconds: float) -> None:
        """Let the loop's time go on."""
        over = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, over.set)
        await over.wait()

    @property
    def watcher(self) -> IdleWatcher:
        return cast("IdleWatcher", self.computer.watchers[-1])


@contextlib.asynccontextmanager
async def at_home(**settings: Any) -> AsyncIterator[Home]:
    """A governor that runs, after its first look."""
    home = Home(**{"preset": "custom", **settings})
    running = asyncio.create_task(home.guest.run(), name="governor")
    try:
        await home.pass_time(0.1)
        yield home
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
