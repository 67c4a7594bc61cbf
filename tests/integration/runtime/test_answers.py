"""Questions about the record, on a real store."""

import datetime
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from engine.contract import commands as c
from engine.contract.errors import ControlError, ErrorCode
from engine.contract.reasons import Reason, ReasonCode, RunState
from engine.contract.snapshot import EngineInfo, EngineState, HubStatus, ReadingInfo, Settings, Status
from engine.contract.words import status_sentence
from engine.core.clock import ManualClock
from engine.runtime.answers import Answers
from engine.runtime.history import History
from engine.runtime.status_text import clock_time
from engine.store.service import Store, open_store

pytestmark = pytest.mark.integration

NOON = datetime.datetime(2026, 3, 4, 12, 0).astimezone().timestamp()
PAUSED = Reason(code=ReasonCode.USER_PAUSED)
DAY = 24 * 3600.0


def state(**settings: object) -> EngineState:
    info = EngineInfo(version="0", pid=1, started_at=0.0, peer_id="p", identity_store="file", data_dir="/")
    return EngineState(
        engine=info,
        status=Status(state=RunState.PAUSED, reasons=(PAUSED,)),
        hub=HubStatus(url="", connected=True),
        settings=msgspec.convert({"preset": "custom", **settings}, Settings),
    )


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(tmp_path / "potluck.db", NOON)
    async with opened.store as store:
        yield store


async def test_why_begins_with_the_windows_sentence_and_ends_with_the_last_day(store: Store) -> None:
    await store.note_period("full", (), NOON - 7200)
    await store.note_period("stopped", (PAUSED,), NOON - 3600)
    now = state()
    lines = await Answers(store, ManualClock(NOON)).answer(c.Why(), now, None)
    assert lines[0] == status_sentence(now.status, None, time_text=lambda at: clock_time(at, NOON))
    assert "11:00" in lines[-2]
    assert "10:00" in lines[-1]


async def test_periods_and_readings_come_as_the_contract_has_them(store: Store) -> None:
    answers = Answers(store, ManualClock(NOON))
    await store.note_period("full", (), NOON - 100)
    await store.note_period("stopped", (PAUSED,), NOON)
    rows = await answers.answer(c.GetPeriods(from_at=NOON - 200, to_at=NOON + 1), state(), None)
    assert [(row.level, row.reasons, row.open) for row in rows] == [("full", (), False), ("stopped", (PAUSED,), True)]
    await store.add_reading(ReadingInfo(at=NOON, level="full", duty=0.5))
    (reading,) = await answers.answer(c.GetReadings(from_at=NOON - 1, to_at=NOON + 1), state(), None)
    assert (reading.level, reading.duty) == ("full", 0.5)


async def test_other_settings_would_have_meant_other_hours(store: Store) -> None:
    """Yesterday the user was there in the first half of each hour."""
    begin = datetime.datetime(2026, 3, 3).astimezone().timestamp()
    for minute in range(24 * 60):
        idle = 1.0 if minute % 60 < 30 else (minute % 60 - 29) * 60.0
        await store.add_reading(ReadingInfo(at=begin + 60 * minute, idle_seconds=idle))
    answers = Answers(store, ManualClock(NOON))
    polite = await answers.answer(c.PreviewSettings(changes={"away_after_seconds": 300}), state(), None)
    always = await answers.answer(c.PreviewSettings(changes={"pause_while_in_use": False}), state(), None)
    assert polite.known_seconds == pytest.approx(DAY, abs=200)
    assert polite.worked_seconds == pytest.approx(DAY / 2 - 24 * 300, abs=24 * 120)
    assert always.worked_seconds == pytest.approx(DAY, abs=200)
    assert (polite.from_at, polite.to_at) == (begin, begin + DAY)


async def test_settings_that_can_never_work_are_refused_with_a_sentence(store: Store) -> None:
    answers = Answers(store, ManualClock(NOON))
    never = await answers.answer(c.PreviewSettings(changes={"compute_schedule": [0] * 7}), state(), None)
    assert never.refused == ("No hour of the week is left for training.",)
    wrong = await answers.answer(c.PreviewSettings(changes={"cpu_share_percent": 0}), state(), None)
    assert wrong.refused == ("Must be a whole number from 5 to 100.",)


async def test_no_other_question_is_answered(store: Store) -> None:
    answers = Answers(store, ManualClock(NOON))
    with pytest.raises(ControlError) as refused:
        await answers.answer(c.Ping(), state(), None)
    assert refused.value.code is ErrorCode.UNKNOWN_METHOD
    with pytest.raises(ControlError) as without:
        await answers.answer(c.GetRounds(), state(), None)
    assert without.value.code is ErrorCode.NO_PROJECT


async def test_yesterdays_work_is_added_up_from_the_periods(store: Store) -> None:
    midnight = datetime.datetime(2026, 3, 4).astimezone().timestamp()
    await store.note_period("full", (), midnight - 5 * 3600)
    await store.note_period("stopped", (PAUSED,), midnight - 2 * 3600)
    await store.note_period("reduced", (PAUSED,), midnight - 1800)
    await store.note_period("reduced", (PAUSED,), midnight + 1800)
    kept: list[str] = []
    history = History(store, ManualClock(NOON), lambda name, write: kept.append(name))
    await history.refresh(Settings())
    assert history.worked_yesterday == pytest.approx(3.5 * 3600)
    assert history.data_use is not None
    assert history.data_use.used_bytes == 0
    assert kept == []
