import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.averaging.planner import MAX_PARTITION_ELEMENTS, MIN_PARTITION_ELEMENTS, shares

rates = st.lists(
    st.one_of(st.just(0.0), st.floats(0.0, 1e15), st.just(math.nan), st.just(math.inf)), min_size=1, max_size=64
)


@given(rates, st.integers(1, 10**9))
def test_shares_sum_exactly_and_fit_one_message(lines: list[float], length: int) -> None:
    if length > len(lines) * MAX_PARTITION_ELEMENTS:
        with pytest.raises(ValueError, match="too many"):
            shares(length, lines)
        return
    plan = shares(length, lines)
    assert len(plan) == len(lines)
    assert sum(plan) == length
    assert all(0 <= share <= MAX_PARTITION_ELEMENTS for share in plan)
    assert plan == shares(length, list(lines))


def test_unknown_lines_share_alike() -> None:
    assert shares(400_003, [0.0, 0.0, 0.0]) == (133_335, 133_334, 133_334)


def test_shares_follow_the_lines() -> None:
    assert shares(100_000, [1e6, 3e6]) == (25_000, 75_000)


def test_an_unmeasured_line_counts_as_the_slowest_measured_one() -> None:
    assert shares(100_000, [3e6, 0.0, 1e6]) == (60_000, 20_000, 20_000)


def test_a_very_slow_line_aggregates_nothing() -> None:
    assert shares(100_000, [1e6, 1e3, 1e6]) == (50_000, 0, 50_000)


def test_a_tiny_vector_goes_to_the_fastest_alone() -> None:
    assert shares(MIN_PARTITION_ELEMENTS, [1e6, 2e6, 1e6]) == (0, MIN_PARTITION_ELEMENTS, 0)
    assert shares(1, [0.0, 0.0]) == (1, 0)


def test_a_share_beyond_one_message_spills_over() -> None:
    assert shares(MAX_PARTITION_ELEMENTS + 9, [1e9, 1.0]) == (MAX_PARTITION_ELEMENTS, 9)


@pytest.mark.parametrize(("length", "lines"), [(0, [1.0]), (5, [])])
def test_nothing_to_share_is_refused(length: int, lines: list[float]) -> None:
    with pytest.raises(ValueError, match="at least"):
        shares(length, lines)
