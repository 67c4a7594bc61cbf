"""The training worker as a session sees it: one that comes back after a death, and says when it gave up."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from engine.checkpoints.state import Vector
from engine.training.protocol import Accumulated, Carried, Evaluated, Frozen, Written


@dataclass(frozen=True, slots=True)
class TrainerReady:
    """A worker stands, with the model built; it has accumulated nothing yet."""

    device: str


@dataclass(frozen=True, slots=True)
class TrainerLost:
    """The worker died or hung; what it had accumulated is gone. A new one starts by itself."""

    detail: str
    restarts: int


@dataclass(frozen=True, slots=True)
class TrainerRests(TrainerLost):
    """The worker ended because it was asked to; another starts when there is something to compute."""


@dataclass(frozen=True, slots=True)
class TrainerWantsRest:
    """The worker holds memory that it should give back: after a long pause, or on a device that it must leave.
    Answer with `freeze`, then `rest`, when no round is on; it asks again.
    """


@dataclass(frozen=True, slots=True)
class TrainerGivenUp:
    """No new worker starts until `start_again`."""

    kind: str  # as in `protocol.Failed`, or "keeps_failing"
    detail: str
    restarts: int


TrainerEvent: TypeAlias = (
    TrainerReady | TrainerLost | TrainerWantsRest | TrainerGivenUp | Accumulated | Frozen | Evaluated | Written
)


class Trainer(Protocol):
    """Computes gradients for one project. Requests to a worker that is not ready are dropped."""

    @property
    def state(self) -> str:
        """ "stopped", "starting", "training", "frozen", "paused" or "resting"."""

    @property
    def pid(self) -> int | None:
        """The worker process, if there is one."""

    @property
    def restarts(self) -> int:
        """How often a worker was started again."""

    @property
    def device(self) -> str:
        """Where it computes, or "" before it is ready."""

    @property
    def has_gpu(self) -> bool | None:
        """Whether a worker found a graphics processor that it can use; None before one looked."""

    def memory_bytes(self) -> int | None:
        """Resident memory of the worker process."""

    async def start(self) -> None:
        """Begin to start a worker; `events` tells when it is ready."""

    async def start_again(self) -> None:
        """After giving up: try once more."""

    def events(self) -> AsyncIterator[TrainerEvent]:
        """In order; ends when the trainer is closed. One consumer."""

    def gradients(self) -> Vector:
        """The gradient sum of the last `Frozen`, shape [parameter_count]; stays untouched until `train`."""

    async def train(self, global_step: int, weights: Vector, *, keep: bool, carried: Carried | None = None) -> None:
        """Compute on `weights`, shape [parameter_count]; with `keep` go on from the frozen gradients, with `carried`
        from those that an earlier worker left in `gradients()`."""

    async def freeze(self) -> None:
        """Finish the micro-batch in hand; answered by `Frozen`."""

    async def throttle(self, duty: float, threads: int, *, gpu_duty: float | None = None, gentle: bool = False) -> None:
        """As in `Limits`; kept for the next worker too."""

    async def rest(self) -> None:
        """End the worker, after a freeze; answered by `TrainerRests`. Another starts when it may compute."""

    async def evaluate(self, global_step: int) -> None:
        """Measure the held-out loss; answered by `Evaluated`."""

    async def write(self, global_step: int, prompt: str, max_tokens: int) -> None:
        """Let the model write; answered by `Written`."""

    async def close(self) -> None:
        """End the worker. Safe to repeat."""
