"""The record of what this computer did: periods with their reasons, a reading a minute, and what follows from them."""

import contextlib
import datetime
from collections.abc import Callable
from typing import Any, Final

from engine.contract.reasons import Reason, ReasonCode
from engine.contract.snapshot import Machine, ReadingInfo, Settings
from engine.core.clock import Clock
from engine.governor.data_use import DataUse, data_use
from engine.governor.policy import Decision, Profile, RunLevel
from engine.runtime.account import worked_seconds
from engine.store.errors import StoreError
from engine.store.service import Store

AGAIN_SECONDS: Final = 55.0
"""A period that goes on is noted again so often: a crash loses the time since."""


class History:
    """Writes through `keep_soon(name, write)`, which holds what cannot be written."""

    def __init__(self, store: Store, clock: Clock, keep_soon: Callable[[str, Any], None]) -> None:
        self._store = store
        self._clock = clock
        self._keep_soon = keep_soon
        self._noted: tuple[str, tuple[ReasonCode, ...]] | None = None
        self._noted_at = 0.0
        self.data_use: DataUse | None = None
        self.worked_yesterday: float | None = None
        self._yesterday: datetime.date | None = None

    def note(self, level: str, reasons: tuple[Reason, ...]) -> None:
        """This is what is done from now on, and why not more."""
        now, key = self._clock.now(), (level, tuple(reason.code for reason in reasons))
        if key != self._noted or now - self._noted_at >= AGAIN_SECONDS or now < self._noted_at:
            self._noted, self._noted_at = key, now
            self._keep_soon("note period", self._store.note_period(level, reasons, now))

    def note_sleep(self, from_at: float, to_at: float) -> None:
        """Nothing was done, though it was not noted then."""
        reasons = (Reason(code=ReasonCode.SYSTEM_SLEEPS),)
        self._keep_soon("note sleep", self._note_sleep(reasons, from_at, to_at))
        self._noted = None

    async def _note_sleep(self, reasons: tuple[Reason, ...], from_at: float, to_at: float) -> None:
        await self._store.note_period(RunLevel.STOPPED.value, reasons, from_at)
        await self._store.note_period(RunLevel.STOPPED.value, reasons, to_at)

    def record(self, machine: Machine, decision: Decision) -> None:
        """Keep a reading."""
        free = None
        if machine.memory_total_bytes is not None and machine.memory_used_bytes is not None:
            free = machine.memory_total_bytes - machine.memory_used_bytes
        gpus = machine.gpus
        reading = ReadingInfo(
            at=self._clock.now(),
            level=decision.level.value,
            duty=decision.duty,
            in_use=decision.profile is Profile.IN_USE,
            idle_seconds=machine.idle_seconds,
            session_locked=machine.session_locked,
            on_battery=machine.on_battery,
            temperature_celsius=machine.temperature_celsius,
            gpu_temperature_celsius=_most(gpu.temperature_celsius for gpu in gpus),
            cpu_load_percent=machine.cpu_load_percent,
            foreign_cpu_percent=machine.foreign_cpu_percent,
            gpu_load_percent=_most(gpu.load_percent for gpu in gpus),
            foreign_gpu_percent=_most(gpu.foreign_load_percent for gpu in gpus),
            memory_free_bytes=free,
            full_screen=machine.full_screen,
            energy_saver=machine.energy_saver,
            metered=machine.metered,
            power_watts=machine.power_watts,
        )
        self._keep_soon("reading", self._store.add_reading(reading))

    async def refresh(self, settings: Settings) -> None:
        """Learn from the store: the data used, and what was worked yesterday. What cannot be read stays as it was."""
        today = datetime.datetime.fromtimestamp(self._clock.now()).astimezone().date()
        first = today - datetime.timedelta(settings.data_cap_days)
        with contextlib.suppress(StoreError):
            self.data_use = data_use(await self._store.bytes_by_day(first.isoformat()), today, settings)
            if self._yesterday != (yesterday := today - datetime.timedelta(1)):
                from_at, to_at = _midnight(yesterday), _midnight(today)
                periods = await self._store.periods_between(from_at, to_at)
                known = bool(periods)
                self.worked_yesterday = worked_seconds(periods, from_at, to_at) if known else None
                self._yesterday = yesterday


def _most(values: Any) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _midnight(date: datetime.date) -> float:
    return datetime.datetime.combine(date, datetime.time()).astimezone().timestamp()
