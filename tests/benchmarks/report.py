"""From measurements to the one JSON line that ends every benchmark. Pure."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

Direction: TypeAlias = Literal["at_least", "below"]

SIGNIFICANT_DIGITS: Final = 5


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """A bound, what was measured, and whether it holds."""

    goal: float
    got: float
    met: bool


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Several measurements of one thing."""

    median: float
    min: float
    max: float
    count: int


def spread(values: Sequence[float]) -> Spread:
    """Median, least, greatest and number of `values`.

    Raises:
        ValueError: there are none, or one is not finite.
    """
    _check(values)
    return Spread(
        median=rounded(statistics.median(values)),
        min=rounded(min(values)),
        max=rounded(max(values)),
        count=len(values),
    )


def quantile(values: Sequence[float], fraction: float) -> float:
    """The least value that at least `fraction` of `values` do not exceed (nearest rank).

    Raises:
        ValueError: there are none, one is not finite, or `fraction` is not in (0, 1].
    """
    _check(values)
    if not 0.0 < fraction <= 1.0:
        raise ValueError("fraction must be in (0, 1]")
    return sorted(values)[math.ceil(fraction * len(values) - 1e-9) - 1]


def paired_ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Each numerator over the denominator that was measured beside it.

    Raises:
        ValueError: the lengths differ, or a denominator is not positive.
    """
    if len(numerators) != len(denominators):
        raise ValueError(f"{len(numerators)} numerators and {len(denominators)} denominators")
    if any(value <= 0.0 for value in denominators):
        raise ValueError("every denominator must be positive")
    return [top / bottom for top, bottom in zip(numerators, denominators, strict=True)]


def goal(got: float, bound: float, direction: Direction) -> Goal:
    """Whether `got` is at least `bound`, or below it. What is not a number meets nothing."""
    met = got >= bound if direction == "at_least" else got < bound
    return Goal(goal=bound, got=rounded(got), met=met)


def rounded(value: float) -> float:
    """`value` with as many digits as a measurement deserves."""
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def line(bench: str, figures: Mapping[str, Any], goals: Mapping[str, Goal]) -> str:
    """The JSON object, on one line without a line end.

    Raises:
        TypeError: a figure is not plain data.
    """
    return msgspec.json.encode({"bench": bench, "figures": dict(figures), "goals": dict(goals)}).decode()


def _check(values: Sequence[float]) -> None:
    if not values:
        raise ValueError("nothing was measured")
    if not all(math.isfinite(value) for value in values):
        raise ValueError("a measurement is not a finite number")
