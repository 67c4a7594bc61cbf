"""What the store gives and takes. All times are seconds since the epoch; losses are nats per token."""

from dataclasses import dataclass

from engine.contract.reasons import Reason
from engine.ledger.receipts import SignedReceipt
from engine.manifest.schema import SignedManifest


@dataclass(frozen=True, slots=True)
class JoinedProject:
    """A project that this computer takes or took part in. The manifest is as it came: verify it before use."""

    project_id: str
    hub_url: str
    signed: SignedManifest
    joined_at: float
    left_at: float | None = None


@dataclass(frozen=True, slots=True)
class RoundRow:
    """A round that ended here."""

    project_id: str
    round_id: str
    global_step: int
    committed: bool
    members: int
    tokens: int
    my_tokens: int
    seconds: float
    at: float
    train_loss: float | None = None
    held_out_loss: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class DayCounters:
    """Sums of one local day, or what to add to them."""

    tokens_trained: int = 0
    tokens_accepted: int = 0
    rounds: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0


@dataclass(frozen=True, slots=True)
class QueuedReceipt:
    """A receipt that waits for its hub."""

    receipt_id: int
    receipt: SignedReceipt
    created_at: float
    attempts: int  # including the one it was taken for


@dataclass(frozen=True, slots=True)
class OutboxCounts:
    """How many receipts wait, and how many the hub refused."""

    waiting: int
    rejected: int


@dataclass(frozen=True, slots=True)
class Period:
    """A time during which the engine ran at one level for the same reasons."""

    level: str
    reasons: tuple[Reason, ...]
    from_at: float
    to_at: float
    open: bool  # still going on; `to_at` is the last moment known
