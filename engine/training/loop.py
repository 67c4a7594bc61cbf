"""What the worker does between messages: micro-batches at the allowed duty, and evaluations and writing in small turns.

No pipe and no process here: messages and the time come in, messages go out.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from engine.strategies.collaborative.kernel import CollaborativeKernel, NonFiniteError, Totals
from engine.training.duty import DutyBalance
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
MAX_WRITTEN_TOKENS: Final = 1024


class KeepsFailing(Exception):
    """Micro-batch after micro-batch gave no numbers: `kind` and text for a `Failed` message."""


class TrainingLoop:
    """The worker's single training thread as a machine: `on_message`, then `turn` whenever `wait_seconds` is over.

    With `cpu_clock` (the compute seconds of all threads of this process) the duty is a share of the processor, whoever
    else computes there; without, of the time, as fits a device beside it.
    """

    def __init__(
        self,
        kernel: CollaborativeKernel,
        send: Callable[[FromWorker], None],
        clock: Callable[[], float],
        use_cores: Callable[[int, bool], None],
        cpu_clock: Callable[[], float] | None = None,
    ) -> None:
        """`use_cores(threads, gentle)` as in `Throttle`."""
        self._kernel = kernel
        self._send = send
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._use_cores = use_cores
        self._training = False
        self._threads = 1
        self._computed_seconds = 0.0
        self._balance = DutyBalance(clock(), 0.0)
        self._busy_seconds = 0.0
        self._non_finite = 0
        self._job: Iterator[FromWorker | None] | None = None
        self._waiting: deque[Train | Evaluate | Write] = deque()

    def wait_seconds(self) -> float | None:
        """How long to listen for a message before `turn`; None: nothing to do until one comes."""
        if self._balance.duty <= 0.0 or not (self._training or self._job is not None):
            return None
        return self._balance.rest_seconds(self._clock())

    def on_message(self, message: ToWorker) -> None:
        """Act on a message; those that need the model's weights wait until a running job is done."""
        match message:
            case Freeze():
                self._freeze()
            case WorkerPing(number=number):
                self._send(Pong(number=number))
            case Throttle():
                self._throttle(message)
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
        begun, cpu_begun = self._clock(), self._cpu_seconds()
        if self._job is not None:
            self._work_on_job(self._job)
        elif self._training:
            self._micro_batch(begun)
        ended = self._clock()
        if self._cpu_clock is None:
            self._computed_seconds += ended - begun
        else:
            self._computed_seconds += (self._cpu_seconds() - cpu_begun) / self._threads
        self._balance.settle(ended, self._computed_seconds)

    def _cpu_seconds(self) -> float:
        return 0.0 if self._cpu_clock is None else self._cpu_clock()

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
        if message.carried is not None:
            carried = message.carried
            self._kernel.restore(Totals(carried.samples, carried.tokens, carried.loss_sum))
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

    def _throttle(self, message: Throttle) -> None:
        self._balance.set_duty(message.duty, self._clock(), self._computed_seconds)
        self._threads = max(1, message.threads)
        self._use_cores(self._threads, message.gentle)

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
