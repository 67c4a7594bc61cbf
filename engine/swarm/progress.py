"""What one peer concludes from everybody's progress: train, wait, lead a round, or catch up. PURE.

The estimate is DeDLOC's (arXiv 2106.10207, section 3.1): samples extrapolated by each peer's rate, and from them when
the target batch is full. Progress is pushed, never polled; what a peer claims of itself is bounded before it counts.
"""

import hashlib
import math
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from engine.swarm.membership import Membership, Record
from engine.transport.base import PeerId
from engine.wire.messages import MAX_MEMBERS, Progress, Propose

MIN_CHECK_SECONDS: Final = 0.05
MAX_CHECK_SECONDS: Final = 2.0
NEARLY_READY_FRACTION: Final = 0.9
"""A leader that proposes this early, by the member's own estimate, is within the two estimates' difference."""


@dataclass(frozen=True, slots=True)
class SwarmConfig:
    """Patience and bounds, alike for all peers of a project.

    Raises:
        ValueError: a value that would let leaders overlap or make the view blind.
    """

    leader_grace_seconds: float = 3.0  # the next in line leads when the one before has not for so long
    tolerance_seconds: float = 1.5  # by how much two peers' views of readiness may differ
    stale_seconds: float = 30.0  # a peer that says nothing for so long is not counted
    horizon_seconds: float = 5.0  # progress is extrapolated this far, and no farther
    max_batches_per_second: float = 10.0  # no peer is believed to be faster, in target batches
    retry_seconds: float = 0.5  # after the first discarded round of a step; doubles
    max_retry_seconds: float = 10.0
    left_out_seconds: float = 20.0  # for each round of a step that a peer broke, at most
    distrust_seconds: float = 10.0  # after the first failed catch-up from a peer; doubles
    max_distrust_seconds: float = 600.0

    def __post_init__(self) -> None:
        if not 0.0 < self.tolerance_seconds < self.leader_grace_seconds:
            raise ValueError("tolerance_seconds must be positive and below leader_grace_seconds, or leaders overlap")
        if not 0.0 < self.horizon_seconds < self.stale_seconds:
            raise ValueError("horizon_seconds must be positive and below stale_seconds")


@dataclass(frozen=True, slots=True)
class SwarmEstimate:
    """The step in progress on my branch, now."""

    samples_now: float  # extrapolated
    samples_per_second: float
    eta_seconds: float | None  # until the target batch is full; None when nobody trains
    ready: bool
    agreeing: int  # other peers on my branch (same step and weights' hash)


class WaitReason(Enum):
    """Why nothing can be led."""

    NO_STATE = "no_state"  # this peer has none yet, and nobody to take it from
    TOO_FEW_PEERS = "too_few_peers"


@dataclass(frozen=True, slots=True)
class Train:
    """Go on accumulating."""


@dataclass(frozen=True, slots=True)
class Wait:
    """No round is possible now. What is accumulated stays good."""

    reason: WaitReason


@dataclass(frozen=True, slots=True)
class Lead:
    """Propose a round to these peers."""

    attempt: int
    candidates: tuple[PeerId, ...]


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Others hold what this peer must fetch; try the donors in order."""

    donors: tuple[PeerId, ...]
    global_step: int
    weights_hash: bytes


SwarmDecision: TypeAlias = Train | Wait | Lead | CatchUp


class SwarmView:
    """One peer's view of its project's swarm. `decide` is asked between rounds, not during one."""

    def __init__(
        self, me: PeerId, target_batch_samples: int, minimum_peers: int = 1, config: SwarmConfig | None = None
    ) -> None:
        self.me = me
        self._target = target_batch_samples
        self._minimum_peers = minimum_peers
        self._config = config or SwarmConfig()
        self._members = Membership(
            self._config.stale_seconds, self._config.distrust_seconds, self._config.max_distrust_seconds
        )
        self._mine: Record | None = None
        self._attempt = 0
        self._ready_at: float | None = None
        self._not_before = -math.inf
        self._offences: dict[PeerId, int] = {}  # rounds of this step that a peer broke
        self._left_out_until: dict[PeerId, tuple[int, float]] = {}  # attempt or time from which it may take part again

    # Inputs.

    def on_peer_up(self, peer: PeerId, now: float) -> None:
        """A link is up."""
        if peer != self.me:
            self._members.up(peer)

    def on_peer_lost(self, peer: PeerId) -> None:
        """A link is down."""
        self._members.lost(peer)

    def on_progress(self, peer: PeerId, progress: Progress, now: float) -> None:
        """What a connected peer says of itself. An older sequence than the last is ignored."""
        self._members.progress(peer, progress, now)

    def set_mine(self, progress: Progress, now: float) -> None:
        """What this peer says of itself. A new step forgets the failed rounds of the one before."""
        changed = self._mine is None or self._mine.branch != (progress.global_step, progress.weights_hash)
        self._mine = Record(progress, now)
        if changed:
            self._attempt = 0
            self._ready_at = None
            self._not_before = -math.inf
            self._offences.clear()
            self._left_out_until.clear()

    def on_round_discarded(self, blame: PeerId | None, now: float) -> None:
        """A round of this step came to nothing; `blame` sits out the next one, longer if it does it again."""
        self._attempt += 1
        span = self._config.retry_seconds * 2.0 ** min(self._attempt - 1, 20)
        self._not_before = now + min(span, self._config.max_retry_seconds)
        self._ready_at = None
        if blame is not None and blame != self.me:
            self._offences[blame] = self._offences.get(blame, 0) + 1
            offences = self._offences[blame]
            self._left_out_until[blame] = (self._attempt + offences, now + offences * self._config.left_out_seconds)

    def on_catch_up_failed(self, peer: PeerId, now: float) -> None:
        """A donor did not deliver the state that it claims to have; for a while it does not count as ahead."""
        self._members.distrust(peer, now)

    def on_caught_up(self, peer: PeerId) -> None:
        """A donor delivered."""
        self._members.trust_again(peer)

    # Conclusions.

    def estimate(self, now: float) -> SwarmEstimate:
        """The step in progress, from the latest claims, bounded and extrapolated."""
        mine = self._mine
        if mine is None:
            return SwarmEstimate(0.0, 0.0, None, False, 0)
        others = self._on_my_branch(now)
        records = [mine, *others.values()]
        samples = sum(self._samples(record, now) for record in records)
        rate = sum(self._rate(record) for record in records)
        missing = max(0.0, self._target - samples)
        eta = 0.0 if not missing else (missing / rate if rate > 0.0 else None)
        return SwarmEstimate(samples, rate, eta, samples >= self._target, len(others))

    def decide(self, now: float) -> SwarmDecision:
        """What to do between rounds. Asking twice changes nothing."""
        if behind := self._behind(now):
            return behind
        mine = self._mine
        if mine is None:
            return Wait(WaitReason.NO_STATE)
        self._note_ready(now)
        if self._members.connected_count() + 1 < self._minimum_peers:
            return Wait(WaitReason.TOO_FEW_PEERS)
        candidates = self._candidates(now)
        if len(candidates) + 1 >= self._minimum_peers and self._may_lead_at(self.me, now) <= now:
            return Lead(self._attempt, candidates)
        return Train()

    def may_lead(self, peer: PeerId, now: float) -> bool:
        """Whether a peer's proposal is due, within the tolerance for two peers' different views."""
        order = self._order(now)
        if peer not in order:
            return False
        self._note_ready(now)
        tolerance = self._config.tolerance_seconds
        if order.index(peer) > 0:
            return self._may_lead_at(peer, now) - tolerance <= now
        estimate = self.estimate(now)
        nearly = estimate.samples_now >= self._target * NEARLY_READY_FRACTION
        return nearly or (estimate.eta_seconds is not None and estimate.eta_seconds <= tolerance)

    def judge(self, peer: PeerId, propose: Propose, now: float) -> str:
        """Why a proposal is declined, or "" when this peer should take part."""
        mine = self._mine
        if mine is None:
            return "no state yet"
        if propose.global_step != mine.progress.global_step:
            return f"at step {mine.progress.global_step}"
        if propose.weights_hash != mine.progress.weights_hash:
            return "the weights differ"
        return "" if self.may_lead(peer, now) else "not this computer's turn to lead"

    def outranks(self, peer: PeerId, now: float) -> bool:
        """Whether a peer comes before me: a leader that has not begun yields to such a one's proposal."""
        order = self._order(now)
        return peer in order and (self.me not in order or order.index(peer) < order.index(self.me))

    def next_check_seconds(self, now: float) -> float:
        """After how long `decide` should be asked again, if nothing else happens."""
        estimate = self.estimate(now)
        spans = [MAX_CHECK_SECONDS]
        if estimate.eta_seconds is not None and not estimate.ready:
            spans.append(estimate.eta_seconds)
        if self._not_before > now:
            spans.append(self._not_before - now)
        elif estimate.ready and self._ready_at is not None:
            due = self._may_lead_at(self.me, now)
            if due > now:
                spans.append(due - now)
        return max(MIN_CHECK_SECONDS, min(spans))

    # How.

    def _samples(self, record: Record, now: float) -> float:
        claimed = min(record.progress.samples, self._target)
        age = min(max(0.0, now - record.at), self._config.horizon_seconds)
        return claimed + age * self._rate(record)

    def _rate(self, record: Record) -> float:
        if not record.progress.training:
            return 0.0
        return min(record.progress.samples_per_second, self._target * self._config.max_batches_per_second)

    def _on_my_branch(self, now: float) -> dict[PeerId, Record]:
        if self._mine is None:
            return {}
        branch = self._mine.branch
        return {peer: record for peer, record in self._members.live(now).items() if record.branch == branch}

    def _behind(self, now: float) -> CatchUp | None:
        """Highest step first; at one step the hash that more hold, then the lower one. None: I am on it."""
        mine = self._mine
        live = {peer: r for peer, r in self._members.live(now).items() if self._is_believed(peer, r, now)}
        branches: dict[tuple[int, bytes], int] = {mine.branch: 1} if mine else {}
        for record in live.values():
            branches[record.branch] = branches.get(record.branch, 0) + 1
        if not branches:
            return None
        best = min(branches, key=lambda branch: (-branch[0], -branches[branch], branch[1]))
        if mine and best == mine.branch:
            return None
        donors = [peer for peer, record in live.items() if record.branch == best]
        donors.sort(key=lambda peer: _lot(best[0], peer + self.me))  # spreads many joiners over the donors
        return CatchUp(tuple(donors), *best)

    def _is_believed(self, peer: PeerId, record: Record, now: float) -> bool:
        same = self._mine is not None and record.branch == self._mine.branch
        return same or self._members.is_trusted(peer, now)

    def _order(self, now: float) -> list[PeerId]:
        """Who may lead this step, first to last: by lot over step and peer id, alike in every peer's view."""
        mine = self._mine
        if mine is None:
            return []
        step = mine.progress.global_step
        eligible = [peer for peer, record in self._on_my_branch(now).items() if record.progress.training]
        eligible = [peer for peer in eligible if not self._is_left_out(peer, now)]
        if mine.progress.training:
            eligible.append(self.me)
        return sorted(eligible, key=lambda peer: _lot(step, peer))

    def _may_lead_at(self, peer: PeerId, now: float) -> float:
        """When a peer's turn comes; infinity while the batch is not ready or it is not in line."""
        order = self._order(now)
        if self._ready_at is None or peer not in order:
            return math.inf
        return self._ready_at + order.index(peer) * self._config.leader_grace_seconds

    def _note_ready(self, now: float) -> None:
        if now < self._not_before or not self.estimate(now).ready:
            self._ready_at = None
        elif self._ready_at is None:
            self._ready_at = now

    def _candidates(self, now: float) -> tuple[PeerId, ...]:
        # Who is paused would only decline; a round of too few willing ones would be discarded again and again.
        everyone = [peer for peer, record in self._on_my_branch(now).items() if record.progress.training]
        chosen = [peer for peer in everyone if not self._is_left_out(peer, now)]
        if len(chosen) + 1 < self._minimum_peers:  # better with the one that failed than not at all
            chosen = everyone
        return tuple(chosen[: MAX_MEMBERS - 1])

    def _is_left_out(self, peer: PeerId, now: float) -> bool:
        attempt, at = self._left_out_until.get(peer, (0, now))
        return attempt > self._attempt and at > now


def _lot(step: int, text: str) -> bytes:
    return hashlib.sha256(step.to_bytes(8, "little") + text.encode()).digest()
