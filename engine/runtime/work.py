"""What this computer's worker has accumulated towards the step in progress, and whether it can go on from there."""

from dataclasses import replace
from typing import Final

from engine.checkpoints.state import Vector
from engine.runtime.model import ModelState
from engine.runtime.session_events import Limits
from engine.runtime.trainer import Trainer
from engine.training.protocol import Accumulated, Carried, Frozen

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
        self.carried: Frozen | None = None
        """Gradients in the shared buffer of a worker that rests: a round may have them, or the next worker."""
        self._wants_rest = False
        self._can_keep = False  # the worker still holds the gradients of its last freeze
        self._unanswered = 0  # freezes
        self._asked_at = 0.0  # the oldest of them
        self._limits = Limits(duty=1.0, threads=1)
        self.halted = False
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
        self.totals, self.carried = NOTHING, None

    @property
    def computing(self) -> bool:
        """A worker stands and is let compute."""
        limits = self._limits
        on_processor = limits.gpu_duty is None or self._trainer.device.startswith("cpu")
        duty = limits.duty if on_processor else limits.gpu_duty
        return self.ready and bool(duty) and not self.halted

    async def limit(self, limits: Limits) -> None:
        """How much the worker may do, when it is not halted."""
        self._limits = limits
        if self.halted:
            limits = replace(limits, duty=0.0, gpu_duty=0.0)
        await self._trainer.throttle(limits.duty, limits.threads, gpu_duty=limits.gpu_duty, gentle=limits.gentle)

    async def halt(self, halted: bool) -> bool:
        """Let the worker compute nothing, or go on within its limits; whether that is a change."""
        if halted == self.halted:
            return False
        self.halted = halted
        await self.limit(self._limits)
        return True

    async def freeze(self, now: float) -> None:
        """Ask for the accumulated gradients; `on_frozen` tells which answer counts."""
        if self.ready:
            self._asked_at = self._asked_at if self._unanswered else now
            self._unanswered += 1
        await self._trainer.freeze()

    async def resume(self, *, keep: bool) -> None:
        """Accumulate at the model's step; with `keep` go on from the frozen gradients, if they are still there."""
        self._wants_rest = False
        carried = self._usable() if keep else None
        if carried is not None and not self.ready:
            return
        kept = keep and self._can_keep and self.ready and carried is None
        if not kept and carried is None:
            self.spend()
        if self.ready:
            self.carried = None
            await self._trainer.train(self._model.global_step, self._model.state.weights, keep=kept, carried=carried)

    def _usable(self) -> Carried | None:
        left = self.carried
        if left is None or left.global_step != self._model.global_step:
            return None
        return Carried(samples=left.samples, tokens=left.tokens, loss_sum=left.loss_sum)

    async def rest(self, now: float) -> None:
        """Let the worker end and give back what it holds; what it accumulated is kept. Not while a round is on."""
        if self.ready and not self._wants_rest:
            self._wants_rest = True
            await self.freeze(now)

    async def rests(self, frozen: Frozen) -> bool:
        """After the answer to a freeze that no round asked for: whether the worker rests from here on."""
        if not self._wants_rest:
            return False
        self._wants_rest = self.ready = self._can_keep = False
        self.carried = frozen if frozen.samples > 0 else None
        await self._trainer.rest()
        return True

    def on_ready(self) -> None:
        """A new worker stands, and holds nothing."""
        self.ready, self._can_keep, self._unanswered = True, False, 0
        self._wants_rest = False

    def on_lost(self, *, frozen: bool) -> None:
        """The worker is gone; gradients that it handed over (`frozen`) outlive it in the shared buffer."""
        self.ready, self._unanswered, self._wants_rest = False, 0, False
        if not frozen and self.carried is None:
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
