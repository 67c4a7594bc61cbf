"""Questions about the record: why, from when to when, what other settings would have meant."""

import datetime
from collections.abc import Awaitable
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from engine.contract import commands as c
from engine.contract.errors import ControlError, ErrorCode
from engine.contract.settings import changed, check_settings
from engine.contract.snapshot import EngineState, PeriodInfo, SettingsPreview
from engine.core.clock import Clock
from engine.governor.why import why
from engine.governor.worked import would_have_worked
from engine.runtime.guest import local_time
from engine.runtime.status_text import clock_time
from engine.store.errors import StoreError
from engine.store.rows import JoinedProject
from engine.store.service import Store

Value = TypeVar("Value")

LATELY_SECONDS: Final = 24 * 3600.0


class Answers:
    """Reads the store and the state; changes nothing."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def answer(self, question: c.Command, state: EngineState, joined: JoinedProject | None) -> Any:
        """To any of these questions.

        Raises:
            ControlError: it is none of them, or the store cannot be read.
        """
        match question:
            case c.GetRounds(limit=limit):
                return await self.rounds(limit, joined)
            case c.Why():
                return await self.why(state)
            case c.GetPeriods():
                return await self.periods(question)
            case c.GetReadings():
                return await self.readings(question)
            case c.PreviewSettings():
                return await self.preview(question, state)
            case _:
                raise ControlError(ErrorCode.UNKNOWN_METHOD, method=question.method)

    async def why(self, state: EngineState) -> list[str]:
        """What the engine does and why, now and in the last day."""
        now = self._clock.now()
        periods = await _read(self._store.periods_between(now - LATELY_SECONDS, now))
        return list(
            why(state, [_info(row) for row in periods], now - LATELY_SECONDS, now, partial(clock_time, now=now))
        )

    async def periods(self, question: c.GetPeriods) -> list[PeriodInfo]:
        """In order, at most the latest MAX_PERIODS_SENT."""
        periods = await _read(self._store.periods_between(question.from_at, question.to_at))
        return [_info(row) for row in periods[-c.MAX_PERIODS_SENT :]]

    async def readings(self, question: c.GetReadings) -> list[Any]:
        """In order, evenly thinned to MAX_READINGS_SENT."""
        return list(await _read(self._store.readings_between(question.from_at, question.to_at, c.MAX_READINGS_SENT)))

    async def rounds(self, limit: int, joined: JoinedProject | None) -> list[Any]:
        """The joined project's latest, newest first.

        Raises:
            ControlError: no project is joined, or the store cannot be read.
        """
        if joined is None:
            raise ControlError(ErrorCode.NO_PROJECT)
        rows = await _read(self._store.recent_rounds(joined.project_id, limit))
        return [msgspec.to_builtins(row) for row in rows]

    async def preview(self, question: c.PreviewSettings, state: EngineState) -> SettingsPreview:
        """What the changed settings would have meant yesterday, or why they are refused."""
        try:
            wanted = changed(state.settings, question.changes)
        except ControlError as error:
            detail = str(error.params.get("detail", ""))
            return SettingsPreview(refused=(f"{detail[:1].upper()}{detail[1:]}.",))
        refused = check_settings(wanted, state.machine)
        if refused:
            return SettingsPreview(refused=refused)
        today = datetime.datetime.fromtimestamp(self._clock.now()).astimezone()
        to_at = today.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
        from_at = to_at - 24 * 3600.0
        readings = await _read(self._store.readings_between(from_at, to_at))
        worked = would_have_worked(readings, wanted, local_time)
        return SettingsPreview(
            from_at=from_at, to_at=to_at, known_seconds=worked.known_seconds, worked_seconds=worked.worked_seconds
        )


def _info(period: Any) -> PeriodInfo:
    return PeriodInfo(
        level=period.level, from_at=period.from_at, to_at=period.to_at, reasons=period.reasons, open=period.open
    )


async def _read(question: Awaitable[Value]) -> Value:
    try:
        return await question
    except StoreError as error:
        raise ControlError(ErrorCode.BAD_REQUEST, detail=f"the store cannot be read: {error.detail}") from error
