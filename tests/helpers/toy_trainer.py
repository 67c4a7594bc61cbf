"""A trainer without a process: plain gradients for the tiny project, the same every time, and every kind of trouble.

It learns: the gradient of a sample pulls the weights towards GOAL, with a little noise of its own for each peer, step
and micro-batch. With `think_seconds` 0 it answers at once; otherwise a micro-batch takes so long in the loop's time.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import numpy as np

from engine.checkpoints.state import Vector
from engine.runtime.trainer import (
    TrainerEvent,
    TrainerGivenUp,
    TrainerLost,
    TrainerReady,
    TrainerRests,
    TrainerWantsRest,
)
from engine.training.protocol import Accumulated, Carried, Evaluated, Frozen, Written

GOAL = np.float32(0.1)


@dataclass
class Spent:
    """One frozen accumulator, as it was handed to a round: for tests that compute the result themselves."""

    global_step: int
    samples: int
    gradients: Vector


@dataclass
class ToyTrainer:
    """Implements `Trainer`. Attributes may be changed at any time; they say what it does from then on."""

    peer_id: str
    parameter_count: int
    tokens_per_sample: int = 32
    micro_batch_samples: int = 4
    think_seconds: float = 0.1
    most_samples: int = 1_000_000  # it stops to accumulate there
    restart_seconds: float = 1.0
    answers_freeze: bool = True
    spoil: float | None = None  # fills the gradients that it hands over
    spoil_loss: float | None = None
    pid: int | None = None
    restarts: int = 0
    device: str = ""
    has_gpu: bool | None = False
    closed: bool = False
    duty: float = 1.0
    threads: int = 1
    started_again: int = 0
    resting: bool = False
    owed_freezes: int = 0
    spent: list[Spent] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    on_freeze: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._events: asyncio.Queue[TrainerEvent | None] = asyncio.Queue()
        self._ready = False
        self._training = False
        self._shared = np.zeros(self.parameter_count, dtype=np.float32)
        self._sum = np.zeros(self.parameter_count, dtype=np.float32)
        self._weights = np.zeros(self.parameter_count, dtype=np.float32)
        self._step, self._samples, self._loss_sum = 0, 0, 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._birth: asyncio.TimerHandle | None = None

    # As a session sees it.

    @property
    def state(self) -> str:
        if not self._ready:
            return "stopped"
        if not self._training:
            return "frozen"
        return "training" if self.duty > 0.0 else "paused"

    def memory_bytes(self) -> int | None:
        return 1_000_000 if self._ready else None

    async def start(self) -> None:
        self._born()

    async def start_again(self) -> None:
        self.started_again += 1
        self._born()

    async def events(self) -> AsyncIterator[TrainerEvent]:
        while (event := await self._events.get()) is not None:
            yield event

    def gradients(self) -> Vector:
        return self._shared

    async def train(self, global_step: int, weights: Vector, *, keep: bool, carried: Carried | None = None) -> None:
        self.calls.append(f"train {global_step}{' keep' if keep else ''}{' carried' if carried else ''}")
        if not self._ready:
            return
        if not keep:
            self._weights = weights.copy()
            self._sum = np.zeros(self.parameter_count, dtype=np.float32)
            self._samples, self._loss_sum = 0, 0.0
        if carried is not None:
            self._sum = self._shared.copy()
            self._samples, self._loss_sum = carried.samples, carried.loss_sum
        self._step, self._training = global_step, True
        self._plan()

    async def freeze(self) -> None:
        self.calls.append("freeze")
        self.on_freeze()
        if not self._ready:
            return
        self._training = False
        self.owed_freezes += 1
        if self.answers_freeze:
            self.answer_freeze()

    async def throttle(self, duty: float, threads: int, *, gpu_duty: float | None = None, gentle: bool = False) -> None:
        self.duty, self.threads = duty, threads
        if self.resting and duty > 0.0:
            self._birth = asyncio.get_running_loop().call_later(self.restart_seconds, self._born)
        self._plan()

    async def rest(self) -> None:
        self.calls.append("rest")
        self._stop()
        self.resting = True
        self._events.put_nowait(TrainerRests(detail="it rests", restarts=0))

    async def evaluate(self, global_step: int) -> None:
        if self._ready:
            loss = self._loss_of(self._weights)
            self._events.put_nowait(Evaluated(global_step=global_step, loss=loss, tokens=64))

    async def write(self, global_step: int, prompt: str, max_tokens: int) -> None:
        if self._ready:
            text = f"text of step {global_step}"[:max_tokens]
            self._events.put_nowait(Written(global_step=global_step, prompt=prompt, text=text))

    async def close(self) -> None:
        self._stop()
        if self._birth is not None:
            self._birth.cancel()
        self.closed = True
        self._events.put_nowait(None)

    # As a test sees it.

    def answer_freeze(self) -> None:
        """What `freeze` does when it is not told to be silent; here for all that were asked since."""
        owed, self.owed_freezes = max(1, self.owed_freezes), 0
        self._shared = self._sum.copy()
        if self.spoil is not None:
            self._shared[:] = self.spoil
        self.spent.append(Spent(self._step, self._samples, self._shared.copy()))
        frozen = Frozen(
            global_step=self._step,
            samples=self._samples,
            tokens=self._samples * self.tokens_per_sample,
            loss_sum=self._loss_sum if self.spoil_loss is None else self.spoil_loss,
        )
        for _ in range(owed):
            self._events.put_nowait(frozen)

    def wants_rest(self) -> None:
        """As after a long pause."""
        self._events.put_nowait(TrainerWantsRest())

    def die(self, *, comes_back: bool = True) -> None:
        """As by SIGKILL. What it had accumulated is gone; what it had handed over is not."""
        self._stop()
        self._events.put_nowait(TrainerLost(detail="it was killed", restarts=self.restarts + 1))
        if comes_back:
            self._birth = asyncio.get_running_loop().call_later(self.restart_seconds, self._born)

    def give_up(self, kind: str = "keeps_failing") -> None:
        """As after three quick deaths."""
        self._stop()
        self._events.put_nowait(TrainerGivenUp(kind=kind, detail="out of memory", restarts=self.restarts))

    def _born(self) -> None:
        if self.pid is not None:
            self.restarts += not self.resting
        self.resting = False
        self.pid, self.device, self._ready, self._training = 4000 + self.restarts, "cpu", True, False
        self._samples, self._step, self.owed_freezes = 0, -1, 0
        self._events.put_nowait(TrainerReady(device="cpu"))

    def _stop(self) -> None:
        self._ready = self._training = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _plan(self) -> None:
        if self._timer is not None or not self._may_compute():
            return
        if self.think_seconds == 0.0:
            self._micro_batch()
        else:
            self._timer = asyncio.get_running_loop().call_later(self.think_seconds, self._think)

    def _may_compute(self) -> bool:
        room = self._samples + self.micro_batch_samples <= self.most_samples
        return self._ready and self._training and self.duty > 0.0 and room

    def _think(self) -> None:
        self._timer = None
        if self._may_compute():
            self._micro_batch()
            self._plan()

    def _micro_batch(self) -> None:
        count = self.micro_batch_samples
        seed = zlib.crc32(f"{self.peer_id} {self._step} {self._samples}".encode())
        noise = np.random.default_rng(seed).standard_normal(self.parameter_count).astype(np.float32)
        self._sum += np.float32(count) * (self._weights - GOAL) + np.float32(0.01) * noise
        self._samples += count
        self._loss_sum += self._loss_of(self._weights) * count * self.tokens_per_sample
        self._events.put_nowait(
            Accumulated(
                global_step=self._step,
                samples=self._samples,
                tokens=self._samples * self.tokens_per_sample,
                loss_sum=self._loss_sum,
                busy_seconds=0.0,
            )
        )

    def _loss_of(self, weights: Vector) -> float:
        return float(np.mean(np.square(weights.astype(np.float64) - float(GOAL))))
