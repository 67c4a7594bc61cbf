"""PURE. "Why does it do that": the window's sentence, then everything that limits it, then the last day."""

from collections.abc import Callable, Sequence
from typing import Final

from engine.contract.snapshot import EngineState, PeriodInfo
from engine.contract.words import LEVEL_LABELS, cause_sentence, reason_sentence, status_sentence

MAX_LATELY: Final = 12
SHORTEST_SECONDS: Final = 1.0
"""A shorter period is left out of the list; the store has it."""


def why_sentences(
    state: EngineState, periods: Sequence[PeriodInfo], time_text: Callable[[float], str], now: float
) -> list[str]:
    """One sentence or row a string. The first is the one that the window and the tray show."""
    lines = [status_sentence(state.status, state.session, time_text=time_text)]
    governor = state.governor
    shown = {reason.code for reason in state.status.reasons}
    lines += [reason_sentence(reason) for reason in governor.reasons if reason.code not in shown]
    if governor.override_until is not None:
        lines.append(f"You asked it to work until {time_text(governor.override_until)} in spite of your limits.")
        lines += [f"Set aside until then: {cause_sentence(reason)}" for reason in governor.overridden]
    if governor.duty > 0.0:
        share = f"{governor.threads} {'thread' if governor.threads == 1 else 'threads'}"
        lines.append(f"It may use {share}, each for {100 * governor.duty:.0f} % of the time.")
    if governor.keep_awake == "granted":
        lines.append("This computer is kept awake while it trains, as you asked.")
    elif governor.keep_awake:
        lines.append(f"The system does not keep this computer awake: {governor.keep_awake}.")
    rows = [row for row in periods if row.open or row.to_at - row.from_at >= SHORTEST_SECONDS]
    lines += [_row(row, time_text, now) for row in reversed(rows[-MAX_LATELY:])]
    return lines


def _row(period: PeriodInfo, time_text: Callable[[float], str], now: float) -> str:
    until = "now" if period.open else time_text(period.to_at)
    causes = " ".join(cause_sentence(reason) for reason in period.reasons[:2])
    label = LEVEL_LABELS.get(period.level, period.level)
    return f"{time_text(period.from_at)} to {until}  {label}. {causes}".rstrip()
