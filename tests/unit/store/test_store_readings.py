import math
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.snapshot import ReadingInfo
from engine.store import database, readings
from engine.store.rows import DayCounters
from engine.store.service import open_store

SAVED = Path(__file__).parent / "saved"
AT = 1_700_000_000.0


@pytest.fixture
async def store(tmp_path):
    opened = await open_store(tmp_path / "potluck.db", AT)
    async with opened.store as store:
        yield store


def fresh() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    for upgrade in database.known_upgrades():
        database.transact(db, upgrade.sql)
    return db


async def test_a_reading_comes_back_as_it_was(store):
    full = ReadingInfo(
        at=AT,
        level="reduced",
        duty=0.25,
        in_use=True,
        idle_seconds=12.5,
        session_locked=False,
        on_battery=False,
        temperature_celsius=61.0,
        gpu_temperature_celsius=55.5,
        cpu_load_percent=40.0,
        foreign_cpu_percent=10.0,
        gpu_load_percent=90.0,
        foreign_gpu_percent=3.0,
        memory_free_bytes=8_000_000_000,
        full_screen=True,
        energy_saver=False,
        metered=False,
        power_watts=45.0,
    )
    unknown = ReadingInfo(at=AT + 60, level="full", duty=1.0)
    for reading in (unknown, full):
        await store.add_reading(reading)
    assert await store.readings_between(0, 2e9) == (full, unknown)
    assert await store.readings_between(AT + 1, AT + 61) == (unknown,)


async def test_two_readings_of_one_second_are_one(store):
    await store.add_reading(ReadingInfo(at=AT + 0.2, level="full"))
    await store.add_reading(ReadingInfo(at=AT + 0.9, level="stopped"))
    assert await store.readings_between(0, 2e9) == (ReadingInfo(at=AT, level="stopped"),)


async def test_what_is_no_number_is_not_known(store):
    await store.add_reading(ReadingInfo(at=AT, temperature_celsius=math.nan, power_watts=math.inf))
    assert await store.readings_between(0, 2e9) == (ReadingInfo(at=AT),)


async def test_old_readings_go(store, monkeypatch):
    await store.add_reading(ReadingInfo(at=AT - readings.KEPT_SECONDS - 1))
    await store.add_reading(ReadingInfo(at=AT - readings.KEPT_SECONDS))
    await store.add_reading(ReadingInfo(at=AT))
    assert [reading.at for reading in await store.readings_between(0, 2e9)] == [AT - readings.KEPT_SECONDS, AT]
    monkeypatch.setattr(readings, "MAX_READINGS", 3)
    for number in range(5):
        await store.add_reading(ReadingInfo(at=AT + number))
    assert [reading.at for reading in await store.readings_between(0, 2e9)] == [AT + 2, AT + 3, AT + 4]


@given(count=st.integers(0, 60), limit=st.integers(2, 20))
def test_thinning_keeps_the_ends_and_the_order(count, limit):
    with closing(fresh()) as db:
        for number in range(count):
            readings.add_reading(db, ReadingInfo(at=AT + 60 * number))
        found = [reading.at for reading in readings.readings_between(db, 0, 2e9, limit)]
    assert len(found) == min(count, limit)
    assert found == sorted(set(found))
    assert not found or (found[0], found[-1]) == (AT, AT + 60 * (count - 1))


async def test_bytes_of_days_are_those_sent_and_received(store):
    for date, sent, received in [("2023-11-13", 1, 2), ("2023-11-14", 10, 20), ("2023-11-15", 100, 200)]:
        await store.add_to_day(date, DayCounters(bytes_sent=sent, bytes_received=received))
    assert await store.bytes_by_day("2023-11-14") == {"2023-11-14": 30, "2023-11-15": 300}


async def test_a_database_of_version_1_gets_readings_and_keeps_its_periods_and_settings(tmp_path):
    path = tmp_path / "potluck.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript((SAVED / "version_1.sql").read_text("utf-8"))
    opened = await open_store(path, AT)
    async with opened.store as store:
        settings = await store.load_settings()
        assert (settings.cpu_share_percent, settings.preset) == (35, "custom")
        assert (settings.cpu_share_in_use_percent, settings.data_cap_days) == (25, 30)
        assert await store.readings_between(0, 2e9) == ()
        await store.add_reading(ReadingInfo(at=AT, level="full"))
        assert len(await store.readings_between(0, 2e9)) == 1
        assert len(await store.periods_between(0, 2e9)) == 2
        assert await store.bytes_by_day("2023-11-01") == {"2023-11-14": 30_000}
    assert path.with_name("potluck.db.backup-v1").exists()


async def test_a_saved_database_of_version_2_still_has_its_readings(tmp_path):
    path = tmp_path / "potluck.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript((SAVED / "version_2.sql").read_text("utf-8"))
    opened = await open_store(path, AT)
    async with opened.store as store:
        (reading,) = await store.readings_between(0, 2e9)
        assert (reading.level, reading.in_use, reading.temperature_celsius) == ("reduced", True, 61.0)
