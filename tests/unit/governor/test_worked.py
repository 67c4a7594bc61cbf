import datetime

from hypothesis import given
from hypothesis import strategies as st

from engine.contract.snapshot import ReadingInfo, Settings
from engine.contract.week import NIGHTS
from engine.governor.model import LocalTime
from engine.governor.worked import Worked, would_have_worked

MIDNIGHT = 1_699_920_000.0  # Tuesday, UTC
HOUR = 3600.0


def local(at: float) -> LocalTime:
    then = datetime.datetime.fromtimestamp(at, datetime.UTC)
    return LocalTime(then.weekday(), then.hour, then.minute, then.second)


def day(**by_hour: list[int]) -> list[ReadingInfo]:
    """A reading a minute; each field is true, or the computer in use, in the hours named."""
    found = []
    for minute in range(24 * 60):
        hour = minute // 60
        values = {name: hour in named for name, named in by_hour.items() if name != "in_use"}
        idle = 5.0 if hour in by_hour.get("in_use", []) else 1e5
        found.append(ReadingInfo(at=MIDNIGHT + 60 * minute, idle_seconds=idle, **values))  # type: ignore[arg-type]
    return found


def hours_worked(readings: list[ReadingInfo], settings: Settings) -> float:
    return would_have_worked(readings, settings, local).worked_seconds / HOUR


def test_a_quiet_day_is_worked_through():
    worked = would_have_worked(day(), Settings(), local)
    assert worked.known_seconds == worked.worked_seconds
    assert abs(worked.known_seconds - 24 * HOUR) < 60


def test_other_settings_would_have_worked_longer():
    readings = day(in_use=[9, 10, 11, 14], on_battery=[20, 21])
    assert round(hours_worked(readings, Settings()), 1) == 24 - 4 - 2 - round(2 * 4 / 60 + 1 / 60, 1)
    assert hours_worked(readings, Settings(pause_while_in_use=False)) > 21.9
    assert hours_worked(readings, Settings(pause_while_in_use=False, pause_on_battery=False)) > 23.9
    assert abs(hours_worked(readings, Settings(compute_schedule=NIGHTS)) - 9) < 0.1


def test_time_without_readings_is_not_claimed():
    readings = day()
    del readings[60:120]
    worked = would_have_worked(readings, Settings(), local)
    assert abs(worked.known_seconds - 23 * HOUR) < 180
    assert would_have_worked([], Settings(), local) == Worked(0.0, 0.0)


@given(st.lists(st.integers(0, 23)), st.lists(st.integers(0, 23)), st.booleans(), st.integers(60, 7200), st.booleans())
def test_never_more_than_is_known_and_fewer_rules_never_work_less(used, battery, pauses, away, on_battery):
    readings = day(in_use=used, on_battery=battery)[::7]
    chosen = Settings(pause_while_in_use=pauses, away_after_seconds=away, pause_on_battery=on_battery)
    worked = would_have_worked(readings, chosen, local)
    free = Settings(pause_while_in_use=False, pause_on_battery=False)
    assert 0 <= worked.worked_seconds <= would_have_worked(readings, free, local).worked_seconds
    assert worked.worked_seconds <= worked.known_seconds
