import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.week import (
    ALL_DAY,
    ALWAYS,
    NIGHTS,
    OUTSIDE_OFFICE_HOURS,
    WEEK_PRESETS,
    WEEKENDS,
    allows,
    common,
    hours,
    hours_until_allowed,
    is_week,
)

weeks = st.just(()) | st.tuples(*[st.integers(0, ALL_DAY)] * 7)
moments = st.tuples(st.integers(0, 6), st.integers(0, 23))


@pytest.mark.parametrize(
    ("first", "end", "count", "inside", "outside"),
    [(8, 18, 10, 8, 18), (22, 7, 9, 0, 7), (0, 24, 24, 23, None), (23, 0, 1, 23, 0)],
)
def test_hours(first, end, count, inside, outside):
    mask = hours(first, end)
    assert mask.bit_count() == count
    assert mask >> inside & 1
    assert outside is None or not mask >> outside & 1


def test_presets_are_weeks_and_mean_what_they_are_called():
    assert all(is_week(week) for week in WEEK_PRESETS.values())
    assert allows(NIGHTS, 0, 23)
    assert not allows(NIGHTS, 0, 12)
    assert allows(OUTSIDE_OFFICE_HOURS, 5, 12)
    assert not allows(OUTSIDE_OFFICE_HOURS, 4, 12)
    assert [allows(WEEKENDS, day, 12) for day in range(7)] == [False] * 5 + [True] * 2


@given(weeks, moments)
def test_the_next_allowed_hour_is_the_next(week, moment):
    ahead = hours_until_allowed(week, *moment)
    later = [allows(week, moment[0] + (moment[1] + step) // 24, (moment[1] + step) % 24) for step in range(168)]
    assert ahead == (later.index(True) if True in later else None)


@given(weeks, weeks, moments)
def test_common_hours_are_those_of_both(one, other, moment):
    assert allows(common(one, other), *moment) == (allows(one, *moment) and allows(other, *moment))


@pytest.mark.parametrize("week", [(0,) * 6, (0,) * 8, (-1,) * 7, (ALL_DAY + 1,) * 7])
def test_what_is_no_week(week):
    assert not is_week(week)
    assert is_week(ALWAYS)
