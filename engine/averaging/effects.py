"""What a round machine is given and what it asks its host to do. Plain data; spec: docs/specs/averaging.md."""

from dataclasses import dataclass
from typing import TypeAlias

from engine.transport.base import PeerId
from engine.wire.messages import (
    Abstain,
    Accept,
    AveragedPart,
    Begin,
    Commit,
    Decline,
    Discard,
    Member,
    Part,
    Propose,
    Vote,
)

RoundMessage: TypeAlias = Propose | Accept | Decline | Begin | Part | AveragedPart | Vote | Abstain | Commit | Discard


@dataclass(frozen=True, slots=True)
class RoundSetup:
    """Which round this is. `candidates` are those the leader asks; members leave it empty."""

    round_id: bytes
    leader: PeerId
    global_step: int
    weights_hash: bytes
    candidates: tuple[PeerId, ...] = ()
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Contribution:
    """What this peer's frozen accumulators hold, and its measured line (0: not measured)."""

    samples: int
    tokens: int
    loss_sum: float  # nats, summed over `tokens`
    upload_bytes_per_second: float = 0.0
    download_bytes_per_second: float = 0.0


@dataclass(frozen=True, slots=True)
class RoundResult:
    """A committed round. `mean` are the partitions as `codecs` write them; `kernels.mean_of` gives the vector."""

    round_id: bytes
    leader: PeerId
    global_step: int  # the step that the round started from
    mean: tuple[bytes, ...]
    digests: tuple[bytes, ...]
    roll: tuple[Member, ...]
    contributors: tuple[tuple[int, ...], ...]  # for each partition, indexes into the roll
    slices: tuple[tuple[int, int], ...]  # [start, stop) of each partition
    accepted: tuple[int, ...]  # indexes into the roll whose gradient is in every partition
    samples: int  # of the accepted
    tokens: int  # of the accepted
    train_loss: float | None  # nats per token over the accepted; None when there are none
    codecs: tuple[int, ...] = ()  # of each partition; none named: float32


# Effects, in the order in which the host must carry them out.


@dataclass(frozen=True, slots=True)
class Send:
    """Send to a peer; a failure is told with `on_peer_lost`."""

    peer: PeerId
    message: RoundMessage


@dataclass(frozen=True, slots=True)
class Freeze:
    """Freeze the worker's accumulators; answer with `on_frozen` or `on_freeze_failed`."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The roll is known; for every member without a link the host calls `on_peer_lost`."""

    roll: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class NeedParts:
    """Cut these runs [start, stop) of the frozen gradient sum; answer with `on_parts`. Mine, if any, stays float32."""

    slices: tuple[tuple[int, int], ...]
    mine: frozenset[int] = frozenset()  # which of them this peer aggregates
    shares: tuple[int, ...] = ()  # elements that each one's aggregator aggregates in all; none named: the slice's
    receivers: int = 1  # of this peer's own averages


@dataclass(frozen=True, slots=True)
class ReduceRow:
    """One member's part."""

    index: int  # in the roll
    samples: int
    payload: bytes
    codec: int = 0


@dataclass(frozen=True, slots=True)
class Reduce:
    """Check and average these parts, in this order; answer with `on_reduced`. See `kernels.perform`."""

    rows: tuple[ReduceRow, ...]
    length: int  # elements of each part
    max_gradient_norm: float
    partition: int = 0
    start: int = 0  # where the partition begins in the vector
    share: int = 0  # elements that this peer aggregates in all


@dataclass(frozen=True, slots=True)
class Reduced:
    """Answer to `Reduce`. With no contributors `payload` and `digest` are empty."""

    contributors: tuple[int, ...]
    payload: bytes
    digest: bytes
    faults: tuple[tuple[int, str], ...]  # index in the roll, what was wrong with its part
    codec: int = 0
    partition: int = 0


@dataclass(frozen=True, slots=True)
class Inspect:
    """Check and hash an averaged partition; answer with `on_inspected`. See `kernels.perform`."""

    partition: int
    contributors: tuple[int, ...]
    payload: bytes
    length: int
    max_gradient_norm: float
    codec: int = 0


@dataclass(frozen=True, slots=True)
class Inspected:
    """Answer to `Inspect`."""

    partition: int
    digest: bytes
    fault: str  # "" when there is none


@dataclass(frozen=True, slots=True)
class Committed:
    """Last effect: apply `result`; the accumulated gradients are spent."""

    result: RoundResult


@dataclass(frozen=True, slots=True)
class Discarded:
    """Last effect: nothing happened; the accumulated gradients count towards the next round."""

    reason: str
    blame: PeerId | None


@dataclass(frozen=True, slots=True)
class Missed:
    """Last effect: the others committed, this peer cannot; it must catch up and drop its gradients."""

    reason: str


@dataclass(frozen=True, slots=True)
class PeerFault:
    """A peer did what no correct peer does; the machine went on without it."""

    peer: PeerId
    what: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """A message that came too late, twice, or for another round: ordinary, not worth a log line."""

    peer: PeerId
    what: str


Outcome: TypeAlias = Committed | Discarded | Missed
Job: TypeAlias = Reduce | Inspect
Effect: TypeAlias = (
    Send | Freeze | Begun | NeedParts | Reduce | Inspect | Committed | Discarded | Missed | PeerFault | Ignored
)
