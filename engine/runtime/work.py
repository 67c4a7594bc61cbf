"""What this computer's worker has accumulated towards the step in progress, and whether it can go on from there."""

from typing import Final

from engine.checkpoints.state import Vector
from engine.runtime.model import ModelState
from engine.runtime.trainer import Trainer
from engine.training.protocol import Accumulated, Frozen

NOTHING: Final = Accumulated(global_step=-1, samples=0, tokens=0, loss_sum=0.0, busy_seconds=0.0)


class Work:
    """Keeps the books between one session and its trainer."""

    def __init__(self, trainer: Trainer, model: ModelState, freeze_patience_seconds: float) -> None:
        self._trainer = trainer
        self._model = model
        self._patience_seconds = freeze_patience_seconds
        self.ready = False
        """A worker stands."""
        self.totals = NOTHING
        self._can_keep = False  # the worker still holds the gradients of its last freeze
        self._unanswered = 0  # freezes
        self._asked_at = 0.0  # the oldest of them
        self._duty, self._threads = 1.0, 1
        self.resting = False
        """Not computing, since enough is accumulated and nobody is there to share it with."""

    def responds(self, now: float) -> bool:
        """Whether a freeze can be expected to be answered: a worker that hangs is as good as none."""
        return self.ready and (self._unanswered == 0 or now < self._asked_at + self._patience_seconds)

    def next_deadline(self) -> float | None:
        """When a freeze that is not answered yet is overdue."""
        return self._asked_at + self._patience_seconds if self.ready and self._unanswered else None

    def gradients(self) -> Vector:
        """The sum of the last freeze, shape [parameter_count]."""
        return self._trainer.gradients()

    def spend(self) -> None:
        """What was accumulated is used up, or worth nothing."""
        self.totals = NOTHING

    @property
    def computing(self) -> bool:
        """A worker stands and is let compute."""
        return self.ready and self._duty > 0.0 and not self.resting

    async def limit(self, duty: float, threads: int) -> None:
        """Share of wall time and threads, when it does not rest."""
        self._duty, self._threads = duty, threads
        await self._trainer.throttle(0.0 if self.resting else duty, threads)

    async def rest(self, resting: bool) -> bool:
        """Let the worker rest, or go on within its limits; whether that is a change."""
        if resting == self.resting:
            return False
        self.resting = resting
        await self.limit(self._duty, self._threads)
        return True

    async def freeze(self, now: float) -> None:
        """Ask for the accumulated gradients; `on_frozen` tells which answer counts."""
        if self.ready:
            self._asked_at = self._asked_at if self._unanswered else now
            self._unanswered += 1
        await self._trainer.freeze()

    async def resume(self, *, keep: bool) -> None:
        """Accumulate at the model's step; with `keep` go on from the frozen gradients, if the worker has them."""
        kept = keep and self._can_keep and self.ready
        if not kept:
            self.spend()
        if self.ready:
            await self._trainer.train(self._model.global_step, self._model.state.weights, keep=kept)

    def on_ready(self) -> None:
        """A new worker stands, and holds nothing."""
        self.ready, self._can_keep, self._unanswered = True, False, 0

    def on_lost(self, *, frozen: bool) -> None:
        """The worker is gone; gradients that it handed over (`frozen`) outlive it in the shared buffer."""
        self.ready, self._unanswered = False, 0
        if not frozen:
            self.spend()

    def on_accumulated(self, event: Accumulated) -> int | None:
        """Tokens processed since the last report; None for a report about another step."""
        if event.global_step != self._model.global_step:
            return None
        more = max(0, event.tokens - self.totals.tokens)
        self.totals = event
        return more

    def on_frozen(self, event: Frozen) -> bool:
        """Whether this answers the latest freeze: with another still out, the gradients may be written again."""
        self._can_keep = self.ready
        self._unanswered = max(0, self._unanswered - 1)
        return self._unanswered == 0
