import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.report import Goal, goal, line, paired_ratios, quantile, rounded, spread

numbers = st.floats(min_value=-1e9, max_value=1e9, allow_nan=False)


def test_a_spread_tells_median_and_ends() -> None:
    row = spread([3.0, 1.0, 10.0, 2.0])
    assert (row.median, row.min, row.max, row.count) == (2.5, 1.0, 10.0, 4)


@given(st.lists(numbers, min_size=1, max_size=40))
def test_the_median_lies_between_the_ends(values: list[float]) -> None:
    row = spread(values)
    assert row.min <= row.median <= row.max


@given(st.lists(numbers, min_size=1, max_size=200), st.floats(min_value=0.01, max_value=1.0))
def test_a_quantile_is_the_least_value_that_enough_do_not_exceed(values: list[float], fraction: float) -> None:
    found = quantile(values, fraction)
    needed = fraction * len(values) - 1e-9
    assert found in values
    assert sum(value <= found for value in values) >= needed
    assert all(sum(other <= value for other in values) < needed for value in values if value < found)


def test_quantiles_of_a_hundred() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert quantile(values, 0.5) == 50.0
    assert quantile(values, 0.99) == 99.0
    assert quantile(values, 1.0) == 100.0


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf]])
def test_what_is_no_measurement_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="measure"):
        spread(values)
    with pytest.raises(ValueError, match="measure"):
        quantile(values, 0.5)


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.01])
def test_a_fraction_outside_is_refused(fraction: float) -> None:
    with pytest.raises(ValueError, match="fraction"):
        quantile([1.0], fraction)


def test_ratios_are_of_neighbours() -> None:
    assert paired_ratios([1.0, 9.0], [2.0, 3.0]) == [0.5, 3.0]
    with pytest.raises(ValueError, match="2 numerators and 1"):
        paired_ratios([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="positive"):
        paired_ratios([1.0], [0.0])


@pytest.mark.parametrize(
    ("got", "bound", "met_at_least", "met_below"),
    [(0.98, 0.97, True, False), (0.97, 0.97, True, False), (0.96, 0.97, False, True), (math.nan, 1.0, False, False)],
)
def test_goals(got: float, bound: float, met_at_least: bool, met_below: bool) -> None:
    assert goal(got, bound, "at_least").met is met_at_least
    assert goal(got, bound, "below").met is met_below


def test_rounding_never_decides_over_a_goal() -> None:
    missed = goal(0.9699999999, 0.97, "at_least")
    assert missed == Goal(goal=0.97, got=0.97, met=False)


def test_rounding_keeps_five_digits() -> None:
    assert rounded(12345678.0) == 12346000.0
    assert rounded(0.000123456) == 0.00012346


def test_the_line_is_one_json_object() -> None:
    text = line("overhead", {"a": spread([1.0]), "b": None}, {"fast": goal(2.0, 1.0, "at_least")})
    assert "\n" not in text
    assert msgspec.json.decode(text) == {
        "bench": "overhead",
        "figures": {"a": {"median": 1.0, "min": 1.0, "max": 1.0, "count": 1}, "b": None},
        "goals": {"fast": {"goal": 1.0, "got": 2.0, "met": True}},
    }
