"""What the loss chart shows, worked out without drawing: points, marks, nearest point, words."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.format import clock, count, loss, whole
from app.language import say
from engine.contract.snapshot import CurvePoint

MAX_DRAWN_POINTS: Final = 2000
"""More rounds than pixels tell nothing more: a long run is thinned, its newest and its own rounds evenly."""


@dataclass(frozen=True, slots=True)
class Series:
    """One set of points, both lists of one length."""

    steps: list[float]
    losses: list[float]


@dataclass(frozen=True, slots=True)
class CurveView:
    """All that is drawn. `points` is what hovering goes through."""

    points: tuple[CurvePoint, ...]
    training: Series
    mine: Series
    held_out: Series

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw yet."""
        return not self.training.steps and not self.held_out.steps


def thinned(points: Sequence[CurvePoint], limit: int = MAX_DRAWN_POINTS) -> tuple[CurvePoint, ...]:
    """At most about `limit` of the points, evenly; points with a held-out loss and the last one always stay."""
    if len(points) <= limit:
        return tuple(points)
    stride = math.ceil(len(points) / limit)
    last = len(points) - 1
    return tuple(
        point
        for index, point in enumerate(points)
        if index % stride == 0 or index == last or point.held_out_loss is not None
    )


def view_of(points: Sequence[CurvePoint]) -> CurveView:
    """Points as series; losses that are no numbers are left out."""
    drawn = thinned(points)
    training = [(p.global_step, p.train_loss) for p in drawn if _finite(p.train_loss)]
    mine = [(p.global_step, p.train_loss) for p in drawn if p.mine and _finite(p.train_loss)]
    held_out = [(p.global_step, p.held_out_loss) for p in drawn if _finite(p.held_out_loss)]
    return CurveView(drawn, _series(training), _series(mine), _series(held_out))


def nearest(points: Sequence[CurvePoint], step: float) -> int | None:
    """Index of the point whose step is closest; None when there are no points. Points are in order of their steps."""
    if not points:
        return None
    right = min(bisect_left([p.global_step for p in points], step), len(points) - 1)
    left = max(right - 1, 0)
    return min((left, right), key=lambda index: abs(points[index].global_step - step))


def describe(point: CurvePoint) -> str:
    """A point in words, one fact a line."""
    lines = [
        say("curve", "Round {step}, {time}").format(
            step=whole(point.global_step), time=clock(point.at, with_seconds=True)
        )
    ]
    if _finite(point.train_loss):
        lines.append(say("curve", "Training loss {loss}").format(loss=loss(point.train_loss)))
    if _finite(point.held_out_loss):
        lines.append(say("curve", "Held-out loss {loss}").format(loss=loss(point.held_out_loss)))
    lines.append(say("curve", "{tokens} tokens so far").format(tokens=count(point.tokens_total)))
    if point.mine:
        lines.append(say("curve", "Your work is in it"))
    return "\n".join(lines)


def summary(points: Sequence[CurvePoint]) -> str:
    """The curve for those who cannot see it."""
    losses = [p for p in points if _finite(p.train_loss)]
    if not losses:
        return say("curve", "Learning curve, no rounds yet")
    first, last = losses[0], losses[-1]
    mine = sum(p.mine for p in points)
    return say(
        "curve",
        "Learning curve: training loss {first} at round {start}, {last} at round {end}. "
        "Your work is in {mine} of {all} rounds.",
    ).format(
        first=loss(first.train_loss),
        start=first.global_step,
        last=loss(last.train_loss),
        end=last.global_step,
        mine=mine,
        all=len(points),
    )


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _series(pairs: list[tuple[int, float | None]]) -> Series:
    return Series([float(step) for step, _ in pairs], [value for _, value in pairs if value is not None])
