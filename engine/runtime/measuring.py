"""Held-out losses and samples of the model's writing: when this computer makes them, and what others say of theirs."""

import math
from typing import Final

from engine.contract.snapshot import WrittenSample
from engine.runtime.parts import SessionParts
from engine.runtime.report import SessionReport
from engine.runtime.round_book import RoundBook
from engine.training.protocol import Evaluated, Written
from engine.wire.messages import Member, Progress

MAX_WRITTEN_TOKENS: Final = 160


class Measuring:
    """One session's share of it."""

    def __init__(self, parts: SessionParts, report: SessionReport, book: RoundBook) -> None:
        self._parts = parts
        self._report = report
        self._book = book
        self._wants_samples = False
        self.mine: tuple[int, float] | None = None
        """Step and held-out loss that this computer measured last, for its progress records."""

    async def on_worker_ready(self) -> None:
        """A fresh worker measures once, so that the window has a number to show."""
        if self._report.held_out_loss is None and self.mine is None:
            await self._parts.trainer.evaluate(self._parts.model.global_step)
        if self._wants_samples and self._report.sample is None:
            await self._ask_to_write()

    async def on_watcher(self, wants_samples: bool) -> None:
        """A window looks, or none does any more."""
        self._wants_samples = wants_samples
        if wants_samples and self._report.sample is None:
            await self._ask_to_write()

    async def after_step(self, roll: tuple[Member, ...]) -> None:
        """What is due at some steps: measuring (the members take turns), and writing."""
        training, step = self._parts.project.manifest.training, self._parts.model.global_step
        if step % training.evaluate_every_steps == 0:
            turn = (step // training.evaluate_every_steps) % len(roll)
            if roll[turn].peer_id == self._parts.identity.peer_id:
                await self._parts.trainer.evaluate(step)
        if step % training.write_every_steps == 0 and self._wants_samples:
            await self._ask_to_write()

    def on_written(self, event: Written) -> None:
        """The worker wrote."""
        self._report.sample = WrittenSample(
            text=event.text, prompt=event.prompt, global_step=event.global_step, at=self._parts.clock.now()
        )

    def on_evaluated(self, event: Evaluated) -> None:
        """The worker measured."""
        if math.isfinite(event.loss):
            self.mine = (event.global_step, event.loss)
            self._note(event.global_step, event.loss)

    def on_progress(self, progress: Progress) -> None:
        """What a peer says that it measured; one step ahead of this computer is the most that can be right."""
        step, loss = progress.held_out_step, progress.held_out_loss
        if step is not None and loss is not None and math.isfinite(loss) and step <= self._parts.model.global_step + 1:
            self._note(step, loss)

    def _note(self, step: int, loss: float) -> None:
        point = self._book.note_held_out(step, loss)
        if step >= self._report.held_out_step:
            self._report.held_out_loss, self._report.held_out_step = loss, step
        if point is not None:
            self._parts.listener.on_curve_point(point)

    async def _ask_to_write(self) -> None:
        prompt = self._parts.project.manifest.prompt
        await self._parts.trainer.write(self._parts.model.global_step, prompt, MAX_WRITTEN_TOKENS)
