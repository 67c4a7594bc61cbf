"""What reaches a session's one queue, and what a session tells its owner."""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from engine.contract.reasons import ProblemAction, ProblemCode, Scalar
from engine.contract.snapshot import CurvePoint, RoundInfo, SessionState
from engine.ledger.receipts import SignedReceipt
from engine.runtime.trainer import TrainerEvent
from engine.transport.base import NetworkEvent


@dataclass(frozen=True, slots=True)
class Limits:
    """How much this computer may do now."""

    duty: float  # share of the time that each thread computes, 0 stops computing
    threads: int
    upload_bytes_per_second: int | None = None
    download_bytes_per_second: int | None = None
    gpu_duty: float | None = None  # share of the time on a graphics processor, 0 leaves it; None: as `duty`
    relay_only: bool = False  # no other computer may see this one's address
    gentle: bool = False  # leave the fast cores to the user


def work_of(limits: Limits) -> tuple[float, int, float | None, bool]:
    """The part that is the worker's."""
    return limits.duty, limits.threads, limits.gpu_duty, limits.gentle


@dataclass(frozen=True, slots=True)
class LeaveRequest:
    """Stop taking part."""

    when: Literal["after_round", "now"]


@dataclass(frozen=True, slots=True)
class WatcherChange:
    """Whether a window shows what the model writes."""

    wants_samples: bool


@dataclass(frozen=True, slots=True)
class NameChange:
    """The volunteer's name on progress records."""

    name: str


@dataclass(frozen=True, slots=True)
class WorkerRestart:
    """The user asks for another try."""


SessionCommand: TypeAlias = Limits | LeaveRequest | WatcherChange | NameChange | WorkerRestart
SessionEvent: TypeAlias = NetworkEvent | TrainerEvent | SessionCommand


class SessionListener(Protocol):
    """The supervisor's side. Called from the session's task; must return at once."""

    def on_session_changed(self, state: SessionState) -> None:
        """The whole of it, after any change."""

    def on_round(self, info: RoundInfo, train_loss: float | None) -> None:
        """A round ended here."""

    def on_curve_point(self, point: CurvePoint) -> None:
        """A committed round, or a later measurement for the last one."""

    def on_receipts(self, receipts: list[SignedReceipt]) -> None:
        """Signed here, for the hub."""

    def on_tokens_trained(self, tokens: int) -> None:
        """Processed here since the last call."""

    def on_problem(self, code: ProblemCode, action: ProblemAction, params: dict[str, Scalar]) -> None:
        """The user should know."""

    def on_mended(self, code: ProblemCode) -> None:
        """What was told before is over."""
