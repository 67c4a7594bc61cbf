import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.averaging.optimum import seconds
from engine.averaging.planner import (
    MAX_PARTITION_ELEMENTS,
    MIN_PARTITION_ELEMENTS,
    Claim,
    lines_of,
    shares,
    shares_fault,
)

rates = st.one_of(st.just(0.0), st.floats(0.0, 1e15), st.just(math.nan), st.just(math.inf))
claims = st.lists(st.builds(Claim, rates, rates, st.booleans()), min_size=1, max_size=24)


def up(*uploads: float) -> list[Claim]:
    return [Claim(upload) for upload in uploads]


@given(claims, st.integers(1, 10**9))
def test_shares_sum_exactly_and_fit_one_message(members: list[Claim], length: int) -> None:
    if length > len(members) * MAX_PARTITION_ELEMENTS:
        with pytest.raises(ValueError, match="too many"):
            shares(length, members)
        return
    if len(members) == 1 and length > MAX_PARTITION_ELEMENTS:
        return
    plan = shares(length, members)
    assert len(plan) == len(members)
    assert sum(plan) == length
    assert all(0 <= share <= MAX_PARTITION_ELEMENTS for share in plan)
    assert plan == shares(length, list(members))
    assert shares_fault(length, members, plan) == ""


@given(st.lists(st.floats(1e3, 1e9), min_size=2, max_size=12), st.integers(10**6, 10**8))
def test_no_equal_split_is_faster(uploads: list[float], length: int) -> None:
    if length > len(uploads) * MAX_PARTITION_ELEMENTS:
        return
    members = up(*uploads)
    plan, lines = shares(length, members), lines_of(members)
    equal = [length / len(uploads)] * len(uploads)
    assert seconds(lines, plan) <= seconds(lines, equal) * 1.02 + 1e-9


def test_unknown_lines_share_alike() -> None:
    assert shares(400_003, up(0.0, 0.0, 0.0)) == (133_335, 133_334, 133_334)


def test_two_members_share_by_their_lines() -> None:
    assert shares(100_000, up(1e6, 3e6)) == (25_000, 75_000)


def test_who_can_hardly_send_its_own_gradient_aggregates_nothing() -> None:
    """The slowest line is full with its own gradient; what it would aggregate goes to those with room."""
    assert shares(100_000, up(3e6, 0.0, 1e6)) == (100_000, 0, 0)
    assert shares(100_000, up(1e6, 1e3, 1e6)) == (50_000, 0, 50_000)


def test_a_tiny_vector_goes_to_the_fastest_alone() -> None:
    assert shares(MIN_PARTITION_ELEMENTS, up(1e6, 2e6, 1e6)) == (0, MIN_PARTITION_ELEMENTS, 0)
    assert shares(1, up(0.0, 0.0)) == (1, 0)


def test_a_share_too_small_to_be_worth_it_goes_to_others() -> None:
    plan = shares(100_000, up(1e6, 1e6, 1.2e4 + 1e6 / 2.0, 1e6))
    assert all(share == 0 or share >= MIN_PARTITION_ELEMENTS for share in plan)


def test_a_share_beyond_one_message_spills_over() -> None:
    assert shares(MAX_PARTITION_ELEMENTS + 9, up(1e9, 1.0)) == (MAX_PARTITION_ELEMENTS, 9)


def test_a_slow_download_counts_too() -> None:
    """Its upload would carry the half, its download cannot take it."""
    plan = shares(300_000, [Claim(1e6, 1e6), Claim(1e6, 1e6), Claim(1e6, 0.7e6)])
    assert abs(plan[0] - plan[1]) <= 1
    assert plan[2] < plan[1] / 5


@pytest.mark.parametrize(("length", "members"), [(0, up(1.0)), (5, [])])
def test_nothing_to_share_is_refused(length: int, members: list[Claim]) -> None:
    with pytest.raises(ValueError, match="at least"):
        shares(length, members)


def test_lines_that_are_not_measured() -> None:
    lines = lines_of([Claim(2e6, 5e6), Claim(0.0, 0.0), Claim(math.nan, 3e6), Claim(9e6, math.inf)])
    assert [line.upload_bytes_per_second for line in lines] == [2e6, 2e6, 2e6, 9e6]
    assert [line.download_bytes_per_second for line in lines] == [5e6, 3e6, 3e6, 9e6]


def test_a_leader_cannot_load_a_victim() -> None:
    members = up(1e6, 1e6, 1e5)
    fault = shares_fault(90_000, members, (0, 0, 90_000))
    assert "times as slow" in fault
    assert shares_fault(90_000, members, shares(90_000, members)) == ""


def test_another_plan_that_is_as_good_is_taken() -> None:
    members = up(3e6, 3e6, 1e6)  # the third line's own gradient limits the round, whoever aggregates
    assert shares_fault(100_000, members, (50_100, 49_900, 0)) == ""


def test_a_vector_that_no_plan_fits_is_refused() -> None:
    assert "too many" in shares_fault(3 * MAX_PARTITION_ELEMENTS, up(1.0, 1.0), (1, 1))
