"""PURE. What each second is accounted to: what was really done, not only what was allowed."""

from collections.abc import Iterable

from engine.contract.reasons import Reason, RunState
from engine.contract.snapshot import SessionState, Status
from engine.governor.model import Decision, RunLevel
from engine.store.rows import Period

WORKING = frozenset({RunState.TRAINING, RunState.AVERAGING})


def accounted(decision: Decision, status: Status, session: SessionState | None) -> tuple[str, tuple[Reason, ...]]:
    """The level and the reasons of this moment. Never stopped or idle without a reason.

    A computer that may compute but waits (for a project, for its worker, for the model) did not compute; one that waits
    for others may compute meanwhile.
    """
    if not decision.computes or status.state in WORKING:
        return decision.level.value, decision.reasons
    if session is not None and session.worker_state == "training":
        return decision.level.value, (*status.reasons, *(row for row in decision.reasons if row not in status.reasons))
    level = RunLevel.STOPPED if status.state is RunState.IDLE else RunLevel.NETWORK_ONLY
    return level.value, status.reasons or decision.reasons


def worked_seconds(periods: Iterable[Period], from_at: float, to_at: float) -> float:
    """How much of a span was worked."""
    return sum(
        max(0.0, min(period.to_at, to_at) - max(period.from_at, from_at))
        for period in periods
        if period.level in (RunLevel.FULL.value, RunLevel.REDUCED.value)
    )
