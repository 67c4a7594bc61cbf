"""PURE. Hysteresis: a cause counts after it was seen for a while, and on until it was gone for a while."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, TypeAlias

from engine.contract.reasons import Scalar
from engine.governor.model import Latch

MIN_LEAVE_SECONDS: Final = 10.0
"""No cause that a reading brings is given up sooner, so no level comes back sooner."""


class Nothing(Enum):
    """Why nothing was seen."""

    GONE = "gone"  # it is not there
    UNREAD = "unread"  # a sensor did not say
    OFF = "off"  # the user does not want the rule


GONE: Final = Nothing.GONE
UNREAD: Final = Nothing.UNREAD
OFF: Final = Nothing.OFF


@dataclass(frozen=True, slots=True)
class Seen:
    """A cause is there now."""

    params: Mapping[str, Scalar]
    until: float | None = None  # when it ends, where that is known
    mark: float | None = None  # kept from the moment it begins to hold


Finding: TypeAlias = Seen | Nothing


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a cause must be seen before it holds, and gone before it ends, seconds."""

    enter_seconds: float = 0.0
    leave_seconds: float = MIN_LEAVE_SECONDS
    silent_seconds: float = MIN_LEAVE_SECONDS  # how long it holds when nothing is known any more


def clamped(latch: Latch, now: float) -> Latch:
    """No moment of it lies in the future: the system's clock may have been set back."""
    if latch.seen_at <= now:
        return latch
    return replace(
        latch,
        since=None if latch.since is None else min(latch.since, now),
        entered_at=None if latch.entered_at is None else min(latch.entered_at, now),
        seen_at=min(latch.seen_at, now),
    )


def follow(latch: Latch, finding: Finding, timing: Timing, now: float) -> Latch | None:
    """The latch after `finding`, None when there is nothing to remember; `latch` must be clamped to `now`."""
    if isinstance(finding, Seen):
        since = now if latch.since is None else latch.since
        if latch.holds:
            return replace(latch, seen_at=now, params=finding.params)
        if now - since >= timing.enter_seconds:
            return Latch(None, now, now, finding.mark, finding.params)
        return Latch(since, None, now)
    if not latch.holds or finding is OFF:
        return None
    kept = max(timing.leave_seconds, timing.silent_seconds) if finding is UNREAD else timing.leave_seconds
    return None if now - latch.seen_at >= kept else latch


def ends_at(latch: Latch, finding: Finding, timing: Timing) -> float | None:
    """When a cause that holds will end, if nothing changes; None when that is not known."""
    if isinstance(finding, Seen):
        return finding.until
    if finding is UNREAD:
        return None
    return latch.seen_at + timing.leave_seconds
