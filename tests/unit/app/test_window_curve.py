import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from app.widgets.curve import MAX_DRAWN_POINTS, describe, nearest, summary, thinned, view_of
from engine.contract.snapshot import CurvePoint
from tests.helpers import toy_states


def point(step: int, train: float | None = 2.0, held_out: float | None = None, *, mine: bool = False) -> CurvePoint:
    return CurvePoint(
        global_step=step, at=1e9, train_loss=train, held_out_loss=held_out, tokens_total=step * 1000, mine=mine
    )


def test_own_rounds_and_held_out_points_are_series_of_their_own() -> None:
    view = view_of([point(1), point(2, 1.9, 2.1, mine=True), point(3, None, 2.0)])
    assert view.training.steps == [1.0, 2.0]
    assert view.mine.steps == [2.0]
    assert (view.held_out.steps, view.held_out.losses) == ([2.0, 3.0], [2.1, 2.0])


def test_losses_that_are_no_numbers_are_not_drawn() -> None:
    view = view_of([point(1, math.nan), point(2, math.inf, -math.inf), point(3, None)])
    assert view.empty
    assert describe(point(1, math.nan)).count("loss") == 0
    assert summary(view.points) == "Learning curve, no rounds yet"


def test_a_long_run_is_thinned_but_keeps_its_end_and_its_held_out_points() -> None:
    points = [point(step, held_out=2.0 if step % 1000 == 7 else None) for step in range(20_000)]
    kept = thinned(points)
    assert len(kept) <= MAX_DRAWN_POINTS + 30
    assert kept[-1] == points[-1]
    assert {p.global_step for p in points if p.held_out_loss} <= {p.global_step for p in kept}
    assert thinned(points[:50]) == tuple(points[:50])


@given(st.lists(st.integers(0, 1000), max_size=40, unique=True), st.floats(-50, 1100))
def test_the_nearest_point_is_the_nearest(steps: list[int], wanted: float) -> None:
    points = [point(step) for step in sorted(steps)]
    index = nearest(points, wanted)
    if not points:
        assert index is None
        return
    assert index is not None
    assert abs(points[index].global_step - wanted) == min(abs(p.global_step - wanted) for p in points)


def test_a_point_is_told_with_its_exact_values_and_time() -> None:
    text = describe(msgspec.structs.replace(point(42, 1.9104, 2.0341, mine=True), tokens_total=4_128_768))
    assert text.splitlines()[0].startswith("Round 42, ")
    assert text.splitlines()[1:] == [
        "Training loss 1.910",
        "Held-out loss 2.034",
        "4.13 million tokens so far",
        "Your work is in it",
    ]


def test_the_curve_in_words() -> None:
    points = toy_states.curve()
    mine = sum(p.mine for p in points)
    assert f"Your work is in {mine} of {len(points)} rounds." in summary(points)
