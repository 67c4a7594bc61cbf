"""The learning curve as it is shown, and a round as it is stored. PURE."""

from typing import Final

from engine.contract.snapshot import CurvePoint, RoundInfo
from engine.store.rows import RoundRow

MAX_CURVE_POINTS: Final = 600


def extended(curve: tuple[CurvePoint, ...], point: CurvePoint) -> tuple[CurvePoint, ...]:
    """With `point` at its step; of too many, every second of the older half goes, and never the first."""
    if curve and curve[-1].global_step >= point.global_step:
        curve = tuple(point if old.global_step == point.global_step else old for old in curve)
    else:
        curve = (*curve, point)
    if len(curve) > MAX_CURVE_POINTS:
        curve = (curve[0], *curve[1 : -MAX_CURVE_POINTS // 2 : 2], *curve[-MAX_CURVE_POINTS // 2 :])
    return curve


def round_row(project_id: str, info: RoundInfo, train_loss: float | None) -> RoundRow:
    """What the store keeps of a round that ended here."""
    return RoundRow(
        project_id=project_id,
        round_id=info.round_id,
        global_step=info.global_step,
        committed=info.committed,
        members=info.members,
        tokens=info.tokens,
        my_tokens=info.my_tokens,
        seconds=info.seconds,
        at=info.at,
        train_loss=train_loss,
        detail=info.detail,
    )
