"""PURE. The answer to `potluck why`: the window's and the tray's sentence, all that limits it, and the time before.

The sentences are those of `engine.contract.why`, which the window uses too.
"""

from collections.abc import Callable, Sequence
from typing import Final

from engine.contract.snapshot import EngineState, PeriodInfo
from engine.contract.why import period_sentence, spent, spent_sentences, why_sentences

MAX_LATELY: Final = 12
SHORTEST_SECONDS: Final = 1.0
"""A shorter period is left out of the list; the store has it."""


def why(
    state: EngineState, periods: Sequence[PeriodInfo], from_at: float, now: float, time_text: Callable[[float], str]
) -> tuple[str, ...]:
    """Now; how the time since `from_at` was spent; and the latest periods, the newest first.

    `periods` are in order and overlap that time; `time_text` turns seconds since the epoch into a local time of day.
    """
    shown = [period for period in periods if period.open or period.to_at - period.from_at >= SHORTEST_SECONDS]
    return (
        *why_sentences(state.status, state.session, state.governor, time_text=time_text),
        *spent_sentences(spent(periods, from_at, now), from_at, time_text),
        *(period_sentence(period, time_text) for period in reversed(shown[-MAX_LATELY:])),
    )
