"""DeDLOC's program: what it gives for the swarms of the paper, and that nothing better is found by searching."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.averaging.optimum import Line, bound_seconds, fastest, seconds, who_computes

GIGABIT = 1e9 / 8
VECTOR_BYTES = 35.4e6  # ALBERT-large in float16


def line(up: float, down: float | None = None, *, computes: bool = True, aggregates: bool = True) -> Line:
    """Gigabits a second."""
    return Line(up * GIGABIT, (up if down is None else down) * GIGABIT, computes, aggregates)


def shares(lines: list[Line]) -> list[float]:
    optimum = fastest(lines)
    return [rate / sum(optimum.rates) for rate in optimum.rates]


def time_of(lines: list[Line]) -> float:
    return seconds(lines, [VECTOR_BYTES * share for share in shares(lines)])


def test_equal_lines_make_all_reduce() -> None:
    assert shares([line(1.0)] * 8) == pytest.approx([1 / 8] * 8)
    assert time_of([line(1.0)] * 8) == pytest.approx(0.4956, rel=1e-3)


def test_one_fat_line_makes_a_parameter_server() -> None:
    assert shares([line(2.5)] + [line(0.2)] * 7) == pytest.approx([1.0] + [0.0] * 7, abs=1e-9)


def test_helpers_without_gradients_make_byteps() -> None:
    found = shares([line(0.2)] * 4 + [line(1.0, computes=False)] * 4)
    assert found == pytest.approx([0.0] * 4 + [0.25] * 4, abs=1e-9)


def test_fast_and_slow_lines_make_a_hybrid() -> None:
    lines = [line(1.0)] * 8 + [line(0.2)] * 16
    assert shares(lines) == pytest.approx([1 / 8] * 8 + [0.0] * 16, abs=1e-9)
    equal = seconds(lines, [VECTOR_BYTES / 24] * 24)
    assert equal / time_of(lines) == pytest.approx(1.92, abs=0.01)  # the paper's 1.9


def test_homes_and_a_hub() -> None:
    lines = [line(0.02, 0.1)] * 15 + [line(1.0)]
    assert shares(lines)[-1] == pytest.approx(1.0)
    assert time_of(lines) == pytest.approx(VECTOR_BYTES / (0.02 * GIGABIT))  # nobody sends its own gradient faster


def test_who_takes_no_connections_gets_no_share() -> None:
    found = shares([line(1.0, aggregates=False), line(1.0), line(1.0)])
    assert found == pytest.approx([0.0, 0.5, 0.5])


def test_among_many_optima_nobody_gets_everything() -> None:
    """One slow line limits the round: any split among the fast ones is optimal, the even one is taken."""
    assert shares([line(1.0)] * 4 + [line(0.01)]) == pytest.approx([0.25] * 4 + [0.0], abs=1e-6)


def test_a_share_may_be_bounded() -> None:
    found = fastest([line(2.5)] + [line(0.2)] * 7, largest_share=0.5)
    assert max(found.rates) / sum(found.rates) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("lines", "largest", "match"),
    [
        ([line(1.0)], 1.0, "two members"),
        ([line(1.0, aggregates=False)] * 3, 1.0, "nobody aggregates"),
        ([line(1.0, computes=False)] * 3, 1.0, "nobody"),
        ([line(1.0)] * 3, 0.2, "not the whole"),
    ],
)
def test_what_cannot_be_planned(lines: list[Line], largest: float, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        fastest(lines, largest)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_a_line_has_a_rate(rate: float) -> None:
    with pytest.raises(ValueError, match="bytes a second"):
        Line(1.0, rate)
    with pytest.raises(ValueError, match="bytes a second"):
        Line(rate, 1.0)


some_lines = st.lists(
    st.builds(Line, st.floats(1e4, 1e9), st.floats(1e4, 1e9), st.booleans(), st.booleans()), min_size=2, max_size=7
).filter(lambda lines: any(one.aggregates for one in lines) and any(one.computes for one in lines))


@given(some_lines)
def test_the_optimum_is_what_it_says(lines: list[Line]) -> None:
    found = fastest(lines)
    assert sum(found.rates) == pytest.approx(found.bytes_per_second, rel=1e-6)
    assert all(rate == 0.0 for rate, one in zip(found.rates, lines, strict=True) if not one.aggregates)
    share_bytes = [1e6 * rate / sum(found.rates) for rate in found.rates]
    assert seconds(lines, share_bytes) == pytest.approx(1e6 / found.bytes_per_second, rel=1e-5)


@given(st.lists(st.builds(Line, st.floats(1e4, 1e7), st.floats(1e4, 1e7), st.booleans()), min_size=3, max_size=3))
def test_no_other_split_of_three_is_faster(lines: list[Line]) -> None:
    if not any(one.computes for one in lines):
        return
    best = 1e6 / fastest(lines).bytes_per_second
    steps = 24
    for first, second in itertools.product(range(steps + 1), repeat=2):
        if first + second <= steps:
            split = [1e6 * part / steps for part in (first, second, steps - first - second)]
            assert seconds(lines, split) >= best * (1.0 - 1e-6)


@given(some_lines, st.randoms(use_true_random=False))
def test_the_order_of_members_does_not_matter(lines: list[Line], dice: object) -> None:
    order = list(range(len(lines)))
    dice.shuffle(order)  # type: ignore[attr-defined]
    straight, shuffled = fastest(lines), fastest([lines[index] for index in order])
    assert shuffled.bytes_per_second == pytest.approx(straight.bytes_per_second, rel=1e-9)
    total = straight.bytes_per_second
    for place, index in enumerate(order):
        assert shuffled.rates[place] == pytest.approx(straight.rates[index], abs=1e-6 * total)


@given(st.lists(st.floats(1e4, 1e9), min_size=2, max_size=30))
def test_the_closed_form_where_downloads_are_no_limit(uploads: list[float]) -> None:
    lines = [Line(up, 1e15) for up in uploads]
    assert 1e6 / fastest(lines).bytes_per_second == pytest.approx(bound_seconds(1e6, uploads), rel=1e-6)


def test_alone_there_is_nothing_to_average() -> None:
    assert bound_seconds(1e6, [1e6]) == 0.0


def test_a_slow_uploader_sits_out_where_it_costs_more_than_it_gives() -> None:
    lines = [line(1.0)] * 4 + [line(0.005, 1.0)]
    assert who_computes(lines, [10.0] * 5, 100.0, VECTOR_BYTES) == (True, True, True, True, False)
    assert who_computes(lines, [10.0] * 5, 100_000.0, VECTOR_BYTES) == (True,) * 5


def test_who_only_aggregates_is_not_made_to_compute() -> None:
    lines = [line(1.0), line(1.0), line(5.0, computes=False)]
    assert who_computes(lines, [10.0, 10.0, 0.0], 1e4, VECTOR_BYTES) == (True, True, False)
