"""The governor at work: reads the machine, decides, acts, and keeps the record of every second.

The supervisor starts it and forwards commands; what it does to the engine goes through `GuestHost`.
"""

import asyncio
import contextlib
import datetime
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import msgspec

from engine.contract import commands as c
from engine.contract.reasons import ProblemAction, ProblemCode, Reason, ReasonCode, Scalar
from engine.contract.snapshot import EngineInfo, GovernorState, Machine, Settings
from engine.control.publisher import StatePublisher
from engine.core.clock import Clock
from engine.governor.data_use import DataUse
from engine.governor.policy import (
    FIRST_DECISION,
    Decision,
    GovernorMemory,
    Inputs,
    LocalTime,
    Override,
    Profile,
    SystemEvent,
    UserPause,
    decide,
)
from engine.runtime import guest_memory
from engine.runtime.account import accounted
from engine.runtime.guest_memory import GuestMemory
from engine.runtime.history import History
from engine.runtime.power.clocks import asleep_seconds
from engine.runtime.power.gap import GapWatch
from engine.runtime.power.keep_awake import KeepAwake
from engine.runtime.power.news import PowerNews
from engine.runtime.session import Session
from engine.runtime.session_events import LeaveRequest, Limits
from engine.runtime.tools import EngineTimes, InputWatcher, MachineReader
from engine.store.service import Store

log = logging.getLogger(__name__)

LINGER_SECONDS: Final = 60.0
"""A stop that is not about the network keeps the links for so long: most stops are short."""

DUTY_STEPS: Final = 100
"""The heat controller moves the duty a little with every reading; the worker hears of whole hundredths."""

_ABOUT_THE_LINE: Final = frozenset(
    {
        ReasonCode.SYSTEM_SLEEPS,
        ReasonCode.SYSTEM_ENDS,
        ReasonCode.METERED,
        ReasonCode.DATA_CAP,
        ReasonCode.NETWORK_SCHEDULE,
        ReasonCode.CAPTIVE_PORTAL,
    }
)
_IN_A_HURRY: Final = frozenset({ReasonCode.SYSTEM_SLEEPS, ReasonCode.SYSTEM_ENDS})


class GuestHost(Protocol):
    """The supervisor, as its guest sees it."""

    @property
    def settings(self) -> Settings: ...

    @property
    def session(self) -> Session | None: ...

    def engine_info(self) -> EngineInfo:
        """With the memory in use now."""

    def on_decision(self) -> None:
        """Another decision: what is shown follows from it."""

    def keep_soon(self, name: str, write: Any) -> None:
        """Write to the store; it is held when that fails."""

    async def hold_session(self, when: Literal["after_round", "now"]) -> None:
        """Leave the project in order ("after_round" or "now") and save; it stays joined."""

    def let_session(self) -> None:
        """Take part again, if a project is joined and nothing runs."""

    async def save_all(self) -> None:
        """Write what would be lost."""

    def on_problem(self, code: ProblemCode, action: ProblemAction, params: dict[str, Scalar]) -> None:
        """The user should know."""

    def on_mended(self, code: ProblemCode) -> None:
        """It is over."""

    def stop(self) -> None:
        """End the engine."""


@dataclass(frozen=True, slots=True)
class GuestParts:
    """What the governor works with; it closes `keep_awake`."""

    clock: Clock
    store: Store
    publisher: StatePublisher
    prober: MachineReader
    keep_awake: KeepAwake
    device: str = "auto"  # where the worker may compute, as the user started the engine
    times: EngineTimes = field(default_factory=EngineTimes)
    data_dir: Path | None = None  # where the user's word is kept over restarts; None: nowhere


class Guest:
    """One engine's governor, from `run`'s start to its end."""

    def __init__(self, host: GuestHost, parts: GuestParts) -> None:
        self._host = host
        self._parts = parts
        self._clock = parts.clock
        self._machine = Machine()
        kept = GuestMemory() if parts.data_dir is None else guest_memory.load(parts.data_dir)
        self._kept = kept
        self._pause: UserPause | None = kept.pause(parts.clock.now())
        self._override: Override | None = kept.override(parts.clock.now())
        self._system = SystemEvent.NONE
        self._measuring = False
        self._memory = GovernorMemory()
        self.decision: Decision = FIRST_DECISION
        self._faces: frozenset[int] = frozenset()
        self._warned = False
        self._since = self._stopped_at = self._clock.now()
        self._started_at = self._clock.now()
        self._limits: Limits | None = None
        self._limited: Session | None = None
        self._look_now = asyncio.Event()
        self._act_now = asyncio.Event()
        self._links_lock = asyncio.Lock()
        self._links_up = True
        self._links_stale = False
        self._gap = GapWatch()
        self._history = History(parts.store, parts.clock, host.keep_soon)
        self._watcher: InputWatcher | None = None

    # Life.

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()

        def heard() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._on_input)

        self._watcher = self._parts.prober.watcher(heard)
        self._parts.prober.looks_for(self._host.settings.exclusive_apps)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._look_regularly(), name="governor: looks")
                group.create_task(self._act_regularly(), name="governor: acts")
                group.create_task(self._record_regularly(), name="governor: records")
        finally:
            await asyncio.to_thread(self._watcher.close)
            self._watcher = None
            await self._parts.keep_awake.close()

    async def _look_regularly(self) -> None:
        expected = 0.0
        while True:
            self._notice_gap(expected)
            machine = await asyncio.to_thread(self._parts.prober.read, self._clock.now())
            self._machine = machine
            self._parts.publisher.update(machine=machine, engine=self._host.engine_info())
            self.consider()
            expected = self._pace()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(expected):
                    await self._look_now.wait()
            self._look_now.clear()

    def _pace(self) -> float:
        if self.decision.computes:
            return self._parts.times.governor_seconds
        left = self._parts.times.paused_seconds
        if self.decision.resumes_at is not None:
            left = min(left, self.decision.resumes_at - self._clock.now())
        return max(min(0.1, self._parts.times.paused_seconds), left)

    # What others ask.

    def obey(self, command: c.Pause | c.Resume | c.Override | c.CancelOverride) -> None:
        """The user's word: an override ends a pause, and a pause an override."""
        now = self._clock.now()
        match command:
            case c.Pause(seconds=seconds):
                self._pause, self._override = UserPause(None if seconds is None else now + seconds), None
            case c.Resume():
                self._pause = None
            case c.Override(seconds=seconds):
                self._pause, self._override = None, Override(now + seconds)
            case c.CancelOverride():
                self._override = None
        self.consider()
        self._keep()

    def shown_by(self, pids: frozenset[int]) -> None:
        """The processes of windows that are connected: what they use is not another program's load."""
        self._faces = pids

    def measuring(self, runs: bool) -> None:
        """The benchmark of this computer begins or has ended: it wants the computer for itself."""
        self._measuring = runs
        self.consider()

    def look_again(self) -> None:
        """Settings changed, or something else that counts."""
        self._parts.prober.looks_for(self._host.settings.exclusive_apps)
        self.consider()
        self._look_now.set()

    async def on_news(self, news: PowerNews) -> None:
        """The system sleeps, ends or is awake again. Saved when this returns."""
        log.info("the system says: %s", news)
        events = {PowerNews.SLEEP: SystemEvent.SLEEP, PowerNews.END: SystemEvent.END}
        self._system = events.get(news, SystemEvent.NONE)
        self.consider()
        if self._system is not SystemEvent.NONE and self._host.session is not None:
            self._host.session.post(LeaveRequest("now"))  # also one that is leaving after its round
        await self._settle_links()
        if news is PowerNews.AWAKE:
            self._look_now.set()
            return
        await self._host.save_all()
        if news is PowerNews.END:
            self._host.stop()

    def note(self) -> None:
        """Keep the record: call it when the status may have changed."""
        state = self._parts.publisher.state
        level, reasons = accounted(self.decision, state.status, state.session)
        self._history.note(level, reasons)

    @property
    def limits(self) -> Limits:
        """For a session, now."""
        decision = self.decision
        return Limits(
            duty=_stepped(decision.duty),
            threads=max(1, decision.threads),
            upload_bytes_per_second=self._host.settings.upload_limit_bytes_per_second,
            download_bytes_per_second=self._host.settings.download_limit_bytes_per_second,
            gpu_duty=_stepped(decision.gpu_duty),
            relay_only=self._host.settings.relay_only,
            gentle=decision.profile is Profile.IN_USE,
        )

    # Deciding.

    def consider(self) -> None:
        """Decide now, and act on it."""
        now = self._clock.now()
        if self._pause is not None and self._pause.until is not None and self._pause.until <= now:
            self._pause = None
        if self._override is not None and self._override.until <= now:
            self._override = None
        before = self.decision
        self.decision, self._memory = decide(
            self._with_usable_gpus(), self._host.settings, self._inputs(now), now, self._memory
        )
        if (before.level, _codes(before.reasons)) != (self.decision.level, _codes(self.decision.reasons)):
            self._since = now
            log.info("%s: %s", self.decision.level, ", ".join(_codes(self.decision.reasons)) or "nothing in the way")
        if self.decision.connects or before.connects:
            self._stopped_at = now
        self._limit()
        self._watch_for_input()
        self._tell()
        self._host.on_decision()
        self._act_now.set()

    def _inputs(self, now: float) -> Inputs:
        session, use = self._host.session, self._history.data_use
        own = self._parts.publisher.state.engine
        memory = None if own.memory_bytes is None else own.memory_bytes + (own.worker_memory_bytes or 0)
        return Inputs(
            pause=self._pause,
            override=self._override,
            data_used_bytes=use.used_bytes if use is not None else None,
            data_frees_at=_midnight(use),
            local_time=local_time(now),
            started_at=self._started_at,
            memory_used_bytes=memory,
            device=self._device(session),
            system=self._system,
            measuring=self._measuring,
        )

    def _device(self, session: Session | None) -> str:
        if self._parts.device == "cpu" or (session is not None and session.has_gpu() is False):
            return "cpu"
        return "" if self._parts.device == "auto" else "gpu"

    def _with_usable_gpus(self) -> Machine:
        """A worker that could move to a graphics processor must know whether it may, before it is there."""
        if self._parts.device == "cpu" or not self._machine.gpus:
            return self._machine
        gpus = tuple(msgspec.structs.replace(gpu, usable=True) for gpu in self._machine.gpus)
        return msgspec.structs.replace(self._machine, gpus=gpus)

    # Acting.

    def _limit(self) -> None:
        session, limits = self._host.session, self.limits
        if session is not None and (session is not self._limited or limits != self._limits):
            session.post(limits)
        self._limited, self._limits = session, limits
        state = self._parts.publisher.state.session
        device = state.device if state is not None else ""
        self._parts.prober.computes_on(device, working=self.decision.watch_gpus)
        worker = {state.worker_pid} if state is not None and state.worker_pid is not None else set()
        self._parts.prober.owns(worker | self._faces)

    def _watch_for_input(self) -> None:
        """A return must be noticed at once only where it would change anything."""
        if self._watcher is None:
            return
        decision = self.decision
        away = decision.profile is Profile.AWAY and decision.override_until is None
        if decision.computes and away and self._host.session is not None:
            self._watcher.arm()
        else:
            self._watcher.disarm()

    def _on_input(self) -> None:
        now = self._clock.now()
        self._machine = msgspec.structs.replace(self._machine, idle_seconds=0.0, idle_read_at=now)
        self.consider()

    def _tell(self) -> None:
        decision, use = self.decision, self._history.data_use
        self._parts.publisher.update(
            governor=GovernorState(
                level=decision.level.value,
                profile=decision.profile.value,
                duty=round(decision.duty, 3),
                gpu_duty=round(decision.gpu_duty, 3),
                threads=decision.threads,
                devices=decision.devices,
                reasons=decision.reasons,
                overridden=decision.overridden,
                since=self._since,
                resumes_at=decision.resumes_at,
                pause_until=self._pause.until if self._pause is not None else None,
                override_until=decision.override_until,
                data_used_bytes=use.used_bytes if use is not None else None,
                keep_awake=self._parts.keep_awake.answer,
                worked_seconds_yesterday=self._history.worked_yesterday,
            )
        )

    async def _act_regularly(self) -> None:
        """What takes time: links, staying awake."""
        while True:
            await self._act_now.wait()
            self._act_now.clear()
            wanted = self._host.settings.keep_awake and self.decision.computes and self._host.session is not None
            before = self._parts.keep_awake.answer
            if await self._parts.keep_awake.want(wanted) != before:
                self._tell()
            await self._settle_links()

    def _links_wanted(self) -> bool:
        if self.decision.connects:
            return True
        at_once = any(reason.code in _ABOUT_THE_LINE for reason in self.decision.reasons)
        return not at_once and self._clock.now() - self._stopped_at < LINGER_SECONDS

    async def _settle_links(self) -> None:
        async with self._links_lock:
            wanted = self._links_wanted()
            if self._links_stale and self._links_up:
                self._links_up = False
                await self._host.hold_session("now")
            self._links_stale = False
            if wanted and not self._links_up:
                self._links_up = True
                self._host.let_session()
            elif not wanted and self._links_up:
                self._links_up = False
                hurry = any(reason.code in _IN_A_HURRY for reason in self.decision.reasons)
                await self._host.hold_session("now" if hurry else "after_round")

    @property
    def lets_sessions(self) -> bool:
        """Whether a project may be taken part in now; else it begins later, by `let_session`."""
        return self._links_up

    def _notice_gap(self, expected: float) -> None:
        slept = self._gap.look(self._clock.monotonic(), asleep_seconds(), self._clock.now(), expected)
        if slept is None:
            return
        log.info("this computer slept for %.0f s", slept[1] - slept[0])
        self._history.note_sleep(*slept)
        if self._system is SystemEvent.SLEEP:  # its waking was not announced
            self._system = SystemEvent.NONE
        else:
            self._links_stale = True  # whatever links there were, the others gave them up
            self._act_now.set()

    async def _record_regularly(self) -> None:
        while True:
            await self._history.refresh(self._host.settings)
            self._warn_of_data()
            self.note()
            await asyncio.sleep(self._parts.times.record_seconds)
            self._history.record(self._machine, self.decision)
            self._keep()

    def _warn_of_data(self) -> None:
        """Once, when most of the data limit is used up; the limit itself stops the work, and says so then."""
        use, cap = self._history.data_use, self._host.settings.data_cap_bytes
        near = use is not None and use.near and cap is not None
        if near and not self._warned and use is not None and cap is not None:
            params: dict[str, Scalar] = {
                "used_gigabytes": round(use.used_bytes / 1e9, 1),
                "limit_gigabytes": round(cap / 1e9, 1),
                "days": self._host.settings.data_cap_days,
            }
            self._host.on_problem(ProblemCode.DATA_CAP_NEAR, ProblemAction.DISMISS, params)
        elif self._warned and not near:
            self._host.on_mended(ProblemCode.DATA_CAP_NEAR)
        self._warned = near

    def _keep(self) -> None:
        now, folder = self._clock.now(), self._parts.data_dir
        today = datetime.datetime.fromtimestamp(now).astimezone().date().isoformat()
        memory = GuestMemory(
            paused=self._pause is not None,
            paused_until=self._pause.until if self._pause is not None else None,
            override_until=self._override.until if self._override is not None else None,
            energy_date=today,
            energy_kilowatt_hours=min(999.0, self._machine.energy_kilowatt_hours_today or 0.0),
        )
        if folder is not None and memory != self._kept:
            self._host.keep_soon("guest", self._save(folder, memory))

    async def _save(self, folder: Path, memory: GuestMemory) -> None:
        """What could not be written counts as not kept, so the next minute tries again."""
        if await asyncio.to_thread(guest_memory.save, folder, memory):
            self._kept = memory


def local_time(now: float) -> LocalTime:
    """The clock on the wall at `now`, seconds since the epoch."""
    local = datetime.datetime.fromtimestamp(now).astimezone()
    return LocalTime(local.weekday(), local.hour, local.minute, local.second)


def _midnight(use: DataUse | None) -> float | None:
    if use is None or use.frees_on is None:
        return None
    return datetime.datetime.combine(use.frees_on, datetime.time()).astimezone().timestamp()


def _stepped(duty: float) -> float:
    """Whole hundredths, never 0 for what is not."""
    return 0.0 if duty <= 0.0 else max(1, round(duty * DUTY_STEPS)) / DUTY_STEPS


def _codes(reasons: tuple[Reason, ...]) -> tuple[str, ...]:
    return tuple(reason.code.value for reason in reasons)
