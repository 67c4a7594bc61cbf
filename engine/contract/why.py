"""PURE. Why it does what it does: the same sentences for the window, the tray and the command line.

The first is the sentence of state (`words.status_sentence`); after it come the causes that it had no room for, what an
override sets aside, and how the time before was spent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from engine.contract.reasons import Reason, ReasonCode
from engine.contract.snapshot import GovernorState, PeriodInfo, SessionState, Status
from engine.contract.words import (
    FROM_TO,
    HOURS,
    KEPT_AWAKE,
    LEVEL_LABELS,
    MAX_SHOWN_REASONS,
    MINUTES,
    NOT_KEPT_AWAKE,
    NOT_RUNNING,
    OVERRIDDEN,
    SECONDS,
    STOPPED_FOR,
    TRAINED,
    UNTIL_NOW,
    USES,
    USES_ONE,
    Translate,
    cause_sentence,
    reason_sentence,
    status_sentence,
)

COMPUTING: Final = frozenset({"full", "reduced"})


@dataclass(frozen=True, slots=True)
class Spent:
    """How a span of time was spent; every second of it is in exactly one of the levels, or unknown."""

    by_level: dict[str, float]  # seconds
    by_reason: tuple[tuple[Reason, float], ...]  # seconds without computing by first reason, the longest first
    unknown_seconds: float  # the engine was not running

    @property
    def ran_seconds(self) -> float:
        """How long the engine ran."""
        return sum(self.by_level.values())

    @property
    def worked_seconds(self) -> float:
        """How long it computed."""
        return sum(seconds for level, seconds in self.by_level.items() if level in COMPUTING)


def spent(periods: Sequence[PeriodInfo], from_at: float, to_at: float) -> Spent:
    """Add up `periods` (in order) between two moments. Where two overlap (the clock was set back), the later counts."""
    by_level: dict[str, float] = {}
    by_code: dict[ReasonCode, tuple[Reason, float]] = {}
    known, end = 0.0, to_at
    for period in reversed(periods):
        begin, stop = max(from_at, period.from_at), min(end, period.to_at)
        seconds = stop - begin
        if seconds <= 0:
            continue
        end = begin
        known += seconds
        by_level[period.level] = by_level.get(period.level, 0.0) + seconds
        if period.level not in COMPUTING and period.reasons:
            first = period.reasons[0]
            kept, before = by_code.get(first.code, (first, 0.0))
            by_code[first.code] = (kept, before + seconds)
    longest = tuple(sorted(by_code.values(), key=lambda item: -item[1]))
    return Spent(by_level, longest, max(0.0, to_at - from_at - known))


def why_sentences(
    status: Status,
    session: SessionState | None,
    governor: GovernorState,
    translate: Translate | None = None,
    time_text: Callable[[float], str] | None = None,
) -> tuple[str, ...]:
    """What it does and all that holds now, most pressing first; the first sentence is the tray's and the window's."""
    sentences = [status_sentence(status, session, translate, time_text)]
    shown = {reason.code for reason in status.reasons[:MAX_SHOWN_REASONS]}
    sentences += [reason_sentence(reason, translate) for reason in governor.reasons if reason.code not in shown]
    if governor.override_until is not None and time_text is not None:
        until = time_text(governor.override_until)
        template = _translated(OVERRIDDEN, translate)
        sentences += [
            _filled(template, time=until, cause=cause_sentence(reason, translate)) for reason in governor.overridden
        ]
    if governor.threads:
        use = {"threads": str(governor.threads), "percent": f"{100 * governor.duty:.0f}"}
        sentences.append(_filled(_translated(USES_ONE if governor.threads == 1 else USES, translate), **use))
    if governor.keep_awake == "granted":
        sentences.append(_translated(KEPT_AWAKE, translate))
    elif governor.keep_awake:
        detail = governor.keep_awake.rstrip(".")
        sentences.append(_filled(_translated(NOT_KEPT_AWAKE, translate), detail=detail))
    return tuple(dict.fromkeys(sentences))


def period_sentence(period: PeriodInfo, time_text: Callable[[float], str], translate: Translate | None = None) -> str:
    """One line of the record: from when to when, what was done, and all its causes."""
    label = _translated(LEVEL_LABELS[period.level], translate) if period.level in LEVEL_LABELS else period.level
    begin, end = time_text(period.from_at), time_text(period.to_at)
    first = _filled(_translated(UNTIL_NOW if period.open else FROM_TO, translate), begin=begin, end=end, label=label)
    return " ".join((first, *(cause_sentence(reason, translate) for reason in period.reasons)))


def spent_sentences(
    spent: Spent, from_at: float, time_text: Callable[[float], str], translate: Translate | None = None
) -> tuple[str, ...]:
    """How the time since `from_at` was spent: what it trained, then each cause with its time, the longest first."""
    first = _filled(
        _translated(TRAINED, translate),
        time=time_text(from_at),
        worked=duration_text(spent.worked_seconds, translate),
        ran=duration_text(spent.ran_seconds + spent.unknown_seconds, translate),
    )
    stopped = _translated(STOPPED_FOR, translate)
    rest = [
        _filled(stopped, duration=duration_text(seconds, translate), cause=cause_sentence(reason, translate))
        for reason, seconds in spent.by_reason
        if seconds >= 1
    ]
    if spent.unknown_seconds >= 1:
        unknown = duration_text(spent.unknown_seconds, translate)
        rest.append(_filled(_translated(NOT_RUNNING, translate), duration=unknown))
    return (first, *rest)


def duration_text(seconds: float, translate: Translate | None = None) -> str:
    """A time as people say it: "2 h 5 min", "12 min", "40 s"."""
    if seconds < 60:
        return _filled(_translated(SECONDS, translate), seconds=f"{seconds:.0f}")
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours == 0:
        return _filled(_translated(MINUTES, translate), minutes=str(minutes))
    return _filled(_translated(HOURS, translate), hours=str(hours), minutes=str(minutes))


def _translated(template: str, translate: Translate | None) -> str:
    return translate(template) if translate is not None else template


def _filled(template: str, **values: str) -> str:
    for name, value in values.items():
        template = template.replace("{" + name + "}", value)
    return template
