from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QDateTime, Qt

from app.models.week import WeekModel, describe, hour_text, hours_a_week, shortest, spans, whole
from app.widgets.snooze import morning_after, snoozes
from engine.contract.week import ALL_DAY, ALWAYS, NIGHTS, OUTSIDE_OFFICE_HOURS, WEEKENDS, hours

masks = st.integers(0, ALL_DAY)
weeks = st.tuples(*[masks] * 7)


@pytest.mark.parametrize(
    ("week", "text"),
    [
        ((), "At any time."),
        (ALWAYS, "At any time."),
        ((0,) * 7, "Never."),
        (NIGHTS, "Every day until 07:00 and from 22:00."),
        (OUTSIDE_OFFICE_HOURS, "Mon\N{EN DASH}Fri until 08:00 and from 18:00; Sat, Sun all day."),
        (WEEKENDS, "Sat, Sun all day."),
        ((hours(9, 12) | hours(13, 24), *(0,) * 6), "Mon 09:00\N{EN DASH}12:00, 13:00\N{EN DASH}24:00."),
    ],
)
def test_a_week_in_words(week: tuple[int, ...], text: str) -> None:
    assert describe(week) == text


@given(masks)
def test_spans_are_exactly_the_allowed_hours_and_never_touch(mask: int) -> None:
    found = spans(mask)
    assert sum(hours(first, end) for first, end in found) == mask
    assert all(end < first for (_, end), (first, _) in pairwise(found))


@given(weeks)
def test_always_is_the_empty_setting_and_all_others_are_kept(week: tuple[int, ...]) -> None:
    assert whole(shortest(week)) == week
    assert (shortest(week) == ()) == (week == ALWAYS)
    assert hours_a_week(week) == sum(bin(mask).count("1") for mask in week)


def test_the_model_switches_cells_and_names_them() -> None:
    model = WeekModel()
    model.show(())
    model.put([(0, 3), (6, 23)], False)
    assert model.masks == (ALL_DAY & ~(1 << 3), *(ALL_DAY,) * 5, ALL_DAY & ~(1 << 23))
    off, on = model.index(0, 3), model.index(0, 4)
    assert off.data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Unchecked
    assert off.data(Qt.ItemDataRole.AccessibleTextRole) == "Monday, 03:00 to 04:00: not allowed"
    assert on.data(Qt.ItemDataRole.AccessibleTextRole) == "Monday, 04:00 to 05:00: allowed"
    model.put([(0, 3), (6, 23)], True)
    assert model.masks == ALWAYS


def test_the_end_of_a_day_is_not_its_beginning() -> None:
    assert (hour_text(0), hour_text(24)) == ("00:00", "24:00")


@pytest.mark.parametrize(
    ("now", "until", "text"),
    [
        ("2026-03-02T13:30:00", "2026-03-03T08:00:00", "Until tomorrow 08:00"),
        ("2026-03-02T23:59:59", "2026-03-03T08:00:00", "Until tomorrow 08:00"),
        ("2026-03-03T01:15:00", "2026-03-03T08:00:00", "Until 08:00"),
        ("2026-03-03T07:00:00", "2026-03-04T08:00:00", "Until tomorrow 08:00"),
        ("2026-12-31T20:00:00", "2027-01-01T08:00:00", "Until tomorrow 08:00"),
    ],
)
def test_until_tomorrow_is_the_morning_that_people_mean(now: str, until: str, text: str) -> None:
    moment = QDateTime.fromString(now, Qt.DateFormat.ISODate)
    morning = QDateTime.fromString(until, Qt.DateFormat.ISODate)
    assert morning_after(moment) == morning
    half_hour, hour, entry, for_good = snoozes(moment)
    assert entry.text == text
    assert entry.seconds == moment.secsTo(morning)
    assert (half_hour.seconds, hour.seconds, for_good.seconds) == (1800.0, 3600.0, None)
