"""What the history of the last day shows, worked out without drawing: stretches, sums, words."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QDateTime

from app.format import DASH, celsius, decimal, duration
from app.language import say
from app.words import level_label

DAY_SECONDS: Final = 24 * 3600.0
HEIGHTS: Final = {"full": 1.0, "reduced": 0.62, "network_only": 0.28, "stopped": 0.0}
"""How high each level stands in the strip; what is not known has no height and no ground."""
LEAST_SECONDS: Final = 60.0
"""Shorter sums are not worth a word."""
SILENCE_SECONDS: Final = 300.0
"""Two temperatures further apart than this are not joined by a line."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time at one level for the same reasons; seconds since the epoch."""

    level: str
    reasons: tuple[str, ...]  # sentences
    from_at: float
    to_at: float

    @property
    def seconds(self) -> float:
        """How long."""
        return max(self.to_at - self.from_at, 0.0)


@dataclass(frozen=True, slots=True)
class Warmth:
    """A temperature at a moment."""

    at: float
    celsius: float


@dataclass(frozen=True, slots=True)
class DayView:
    """The last day, both lists in order of time."""

    from_at: float
    to_at: float
    stretches: tuple[Stretch, ...] = ()
    warmths: tuple[Warmth, ...] = ()
    worked_seconds: float = 0.0

    def at(self, moment: float) -> int | None:
        """Index of the stretch at a moment; None where nothing was recorded."""
        index = bisect_right([stretch.from_at for stretch in self.stretches], moment) - 1
        return index if index >= 0 and moment <= self.stretches[index].to_at else None

    def warmth_at(self, moment: float) -> float | None:
        """The temperature nearest to a moment, when one was read about then."""
        near = min(self.warmths, key=lambda warmth: abs(warmth.at - moment), default=None)
        return near.celsius if near is not None and abs(near.at - moment) <= SILENCE_SECONDS else None


def clipped(stretches: Sequence[Stretch], from_at: float, to_at: float) -> tuple[Stretch, ...]:
    """The parts of `stretches` between two moments, in order."""
    found = [
        Stretch(stretch.level, stretch.reasons, max(stretch.from_at, from_at), min(stretch.to_at, to_at))
        for stretch in stretches
        if stretch.to_at > from_at and stretch.from_at < to_at
    ]
    return tuple(sorted(found, key=lambda stretch: stretch.from_at))


def time_of_day(at: float) -> str:
    """A moment of the last day; its date goes without saying."""
    return QDateTime.fromSecsSinceEpoch(int(at)).toString("HH:mm")


def hours_text(seconds: float) -> str:
    """A length of time in hours with one digit, or in minutes below one hour."""
    return duration(seconds) if seconds < 3600 else f"{decimal(seconds / 3600, 1)} h"


def describe(view: DayView, moment: float) -> str:
    """A moment in words, one fact a line."""
    index = view.at(moment)
    if index is None:
        return f"{time_of_day(moment)}\n{say('history', 'Potluck was not running.')}"
    stretch = view.stretches[index]
    span = f"{time_of_day(stretch.from_at)}{DASH}{time_of_day(stretch.to_at)}"
    head = say("history", "{span}, {length}").format(span=span, length=duration(stretch.seconds))
    warmth = view.warmth_at(moment)
    lines = [head, level_label(stretch.level), *stretch.reasons]
    if warmth is not None:
        text = say("history", "{temperature} at {time}")
        lines.append(text.format(temperature=celsius(warmth), time=time_of_day(moment)))
    return "\n".join(lines)


def summary(view: DayView) -> str:
    """The day in a sentence."""
    if not view.stretches:
        return say("history", "Nothing was recorded in the last 24 hours.")
    if view.worked_seconds < LEAST_SECONDS:
        return say("history", "Nothing was trained in the last 24 hours.")
    return say("history", "Trained for about {time} in the last 24 hours.").format(time=hours_text(view.worked_seconds))
