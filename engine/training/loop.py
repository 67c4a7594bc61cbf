"""What the worker does between messages: micro-batches at the allowed duty, and evaluations and writing in small turns.

No pipe and no process here: messages and the time come in, messages go out.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from engine.strategies.collaborative.kernel import CollaborativeKernel, NonFiniteError
from engine.training.protocol import (
    Accumulated,
    Evaluate,
    Evaluated,
    Freeze,
    FromWorker,
    Frozen,
    Pong,
    Throttle,
    ToWorker,
    Train,
    WorkerPing,
    Write,
    Written,
)

log = logging.getLogger(__name__)

MAX_NON_FINITE_IN_A_ROW: Final = 3
MAX_REST_SECONDS: Final = 5.0
MAX_WRITTEN_TOKENS: Final = 1024


class KeepsFailing(Exception):
    """Micro-batch after micro-batch gave no numbers: `kind` and text for a `Failed` message."""


class TrainingLoop:
    """The worker's single training thread as a machine: `on_message`, then `turn` whenever `wait_seconds` is over."""

    def __init__(
        self,
        kernel: CollaborativeKernel,
        send: Callable[[FromWorker], None],
        clock: Callable[[], float],
        set_threads: Callable[[int], None],
    ) -> None:
        self._kernel = kernel
        self._send = send
        self._clock = clock
        self._set_threads = set_threads
        self._training = False
        self._duty = 1.0
        self._busy_seconds = 0.0
        self._resume_at = 0.0
        self._non_finite = 0
        self._job: Iterator[FromWorker | None] | None = None
        self._waiting: deque[Train | Evaluate | Write] = deque()

    def wait_seconds(self) -> float | None:
        """How long to listen for a message before `turn`; None: nothing to do until one comes."""
        if self._duty <= 0.0 or not (self._training or self._job is not None):
            return None
        return max(0.0, self._resume_at - self._clock())

    def on_message(self, message: ToWorker) -> None:
        """Act on a message; those that need the model's weights wait until a running job is done."""
        match message:
            case Freeze():
                self._freeze()
            case WorkerPing(number=number):
                self._send(Pong(number=number))
            case Throttle(duty=duty, threads=threads):
                self._throttle(duty, threads)
            case Train() | Evaluate() | Write():
                self._waiting.append(message)
                self._start_waiting()
            case _:
                raise ValueError(f"{type(message).__name__} does not belong here")

    def turn(self) -> None:
        """One micro-batch, or one slice of the running job; then rest as the duty says.

        Raises:
            KeepsFailing: MAX_NON_FINITE_IN_A_ROW micro-batches in a row gave no numbers.
        """
        begun = self._clock()
        if self._job is not None:
            self._work_on_job(self._job)
        elif self._training:
            self._micro_batch(begun)
        ended = self._clock()
        rest = (ended - begun) * (1.0 - self._duty) / self._duty if self._duty > 0.0 else 0.0
        self._resume_at = ended + min(rest, MAX_REST_SECONDS)

    def _start_waiting(self) -> None:
        while self._waiting and self._job is None:
            message = self._waiting.popleft()
            match message:
                case Train():
                    self._train(message)
                case Evaluate(global_step=step):
                    self._prepare(step)
                    self._job = self._evaluating(step)
                case Write():
                    self._prepare(message.global_step)
                    self._job = self._writing(message)

    def _train(self, message: Train) -> None:
        self._kernel.load(message.global_step)
        if not message.keep:
            self._kernel.zero()
            self._busy_seconds = 0.0
        self._training = True

    def _prepare(self, global_step: int) -> None:
        """While training, the loaded weights are those in the buffer; while frozen, the engine may have new ones."""
        if not self._training:
            self._kernel.load(global_step)

    def _freeze(self) -> None:
        # A Train that still waits behind a job was sent before this Freeze, which so has the last word.
        overtaken = [message for message in self._waiting if isinstance(message, Train)]
        for message in overtaken:
            self._waiting.remove(message)
        if overtaken:
            self._train(overtaken[-1])
        self._training = False
        self._kernel.flush()
        totals = self._kernel.totals
        self._send(
            Frozen(
                global_step=self._kernel.global_step,
                samples=totals.samples,
                tokens=totals.tokens,
                loss_sum=totals.loss_sum,
            )
        )

    def _throttle(self, duty: float, threads: int) -> None:
        self._duty = min(1.0, max(0.0, duty))
        self._resume_at = min(self._resume_at, self._clock())
        self._set_threads(max(1, threads))

    def _micro_batch(self, begun: float) -> None:
        try:
            self._kernel.accumulate()
            self._non_finite = 0
        except NonFiniteError as error:
            self._non_finite += 1
            log.error("Dropped what was accumulated: %s", error)
            if self._non_finite >= MAX_NON_FINITE_IN_A_ROW:
                raise KeepsFailing(f"{self._non_finite} micro-batches in a row: {error}") from error
        self._busy_seconds += self._clock() - begun
        totals = self._kernel.totals
        self._send(
            Accumulated(
                global_step=self._kernel.global_step,
                samples=totals.samples,
                tokens=totals.tokens,
                loss_sum=totals.loss_sum,
                busy_seconds=self._busy_seconds,
            )
        )

    def _work_on_job(self, job: Iterator[FromWorker | None]) -> None:
        answer = next(job)
        if answer is not None:
            self._job = None
            self._send(answer)
            self._start_waiting()

    def _evaluating(self, global_step: int) -> Iterator[FromWorker | None]:
        loss, tokens = 0.0, 0
        for loss, tokens in self._kernel.evaluate():  # noqa: B007 (the last pair is the answer)
            yield None
        yield Evaluated(global_step=global_step, loss=loss, tokens=tokens)

    def _writing(self, message: Write) -> Iterator[FromWorker | None]:
        text = ""
        for text in self._kernel.write(message.prompt, min(message.max_tokens, MAX_WRITTEN_TOKENS)):  # noqa: B007
            yield None
        yield Written(global_step=message.global_step, prompt=message.prompt, text=text)
