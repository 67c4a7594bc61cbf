"""What is written down of a round: its row, its point on the curve, the receipts that this computer signs."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import msgspec

from engine.averaging.config import Exchange, RoundConfig, deadlines_for
from engine.averaging.effects import RoundResult
from engine.averaging.packing import Packer
from engine.contract.snapshot import CurvePoint, RoundInfo
from engine.core.clock import Clock
from engine.identity.keys import Identity
from engine.ledger.receipts import Receipt, SignedReceipt
from engine.ledger.signing import members_hash, sign_receipt
from engine.manifest.parse import parameter_count
from engine.manifest.verify import VerifiedManifest
from engine.runtime.model import ModelState
from engine.runtime.round_driver import RoundDriver

KEPT_POINTS: Final = 16
"""A held-out loss that comes later than this many steps has no point to join."""


@dataclass(frozen=True, slots=True)
class CommittedRound:
    """Everything that follows from a commit, to be told to the session's owner."""

    info: RoundInfo
    point: CurvePoint
    receipts: list[SignedReceipt]


class RoundBook:
    """Makes the records of one session."""

    def __init__(self, identity: Identity, project: VerifiedManifest, model: ModelState, clock: Clock) -> None:
        manifest = project.manifest
        parameters = parameter_count(manifest)
        self.config = RoundConfig(
            vector_length=parameters,
            minimum_peers=manifest.training.minimum_peers,
            max_gradient_norm=manifest.training.max_gradient_norm,
            max_tokens_per_sample=manifest.data.sequence_length,
            exchange=Exchange(manifest.training.exchange),
            deadlines=deadlines_for(parameters),
        )
        self.packer = Packer(identity.peer_id, self.config)
        self._identity = identity
        self._project = project
        self._model = model
        self._clock = clock
        self._tokens_total = 0
        self._points: OrderedDict[int, CurvePoint] = OrderedDict()
        self._early_losses: dict[int, float] = {}

    def committed(self, result: RoundResult, driver: RoundDriver, now: float) -> CommittedRound:
        """The records of a round whose result was applied just now."""
        me = self._identity.peer_id
        mine = sum(result.roll[index].tokens for index in result.accepted if result.roll[index].peer_id == me)
        self._tokens_total += result.tokens
        step = self._model.global_step
        info = RoundInfo(
            round_id=result.round_id.hex(),
            global_step=step,
            committed=True,
            members=len(result.roll),
            tokens=result.tokens,
            my_tokens=mine,
            seconds=now - driver.started_at,
            at=self._clock.now(),
            weights_hash=self._model.weights_hash.hex(),
        )
        point = CurvePoint(
            global_step=step,
            at=info.at,
            train_loss=result.train_loss,
            held_out_loss=self._early_losses.pop(step, None),
            tokens_total=self._tokens_total,
            mine=mine > 0,
        )
        self._points[step] = point
        while len(self._points) > KEPT_POINTS:
            self._points.popitem(last=False)
        return CommittedRound(info, point, self._receipts(result, info.at))

    def discarded(self, driver: RoundDriver, reason: str, now: float) -> RoundInfo:
        """The row of a round that came to nothing."""
        return RoundInfo(
            round_id=driver.setup.round_id.hex(),
            global_step=driver.setup.global_step,
            committed=False,
            members=driver.members,
            tokens=0,
            my_tokens=0,
            seconds=now - driver.started_at,
            at=self._clock.now(),
            detail=reason,
        )

    def note_held_out(self, step: int, loss: float) -> CurvePoint | None:
        """The point of `step` with its held-out loss, if that is news."""
        point = self._points.get(step)
        if point is None:
            self._early_losses = {step: loss}  # measured by a quicker peer before this one committed
            return None
        if point.held_out_loss is not None:
            return None
        self._points[step] = msgspec.structs.replace(point, held_out_loss=loss)
        return self._points[step]

    def _receipts(self, result: RoundResult, at: float) -> list[SignedReceipt]:
        """This computer vouches for everybody else whose work it saw committed.

        Every member does, whatever its share: few aggregate a small vector, and half of the others must sign.
        """
        me = self._identity.peer_id
        members = members_hash([member.peer_id for member in result.roll])
        accepted = [result.roll[index] for index in result.accepted]
        return [
            sign_receipt(
                Receipt(
                    manifest_hash=self._project.manifest_hash,
                    round_id=result.round_id,
                    global_step=result.global_step,
                    aggregator=me,
                    contributor=member.peer_id,
                    tokens=member.tokens,
                    samples=member.samples,
                    member_count=len(result.roll),
                    members_hash=members,
                    committed_at=at,
                ),
                self._identity,
            )
            for member in accepted
            if member.peer_id != me and member.samples
        ]
