"""The real trainer: a `WorkerHost` that is replaced when it dies, and the two vectors shared with it."""

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engine.checkpoints.state import Vector
from engine.core.clock import Clock
from engine.core.tasks import TaskOwner
from engine.manifest.parse import parameter_count
from engine.manifest.verify import VerifiedManifest
from engine.runtime.residence import Residence
from engine.runtime.trainer import (
    TrainerEvent,
    TrainerGivenUp,
    TrainerLost,
    TrainerReady,
    TrainerRests,
    TrainerWantsRest,
)
from engine.training.buffers import SharedVectors
from engine.training.host import HostTimes, WorkerDied, WorkerHost
from engine.training.protocol import (
    Accumulated,
    Carried,
    Evaluate,
    Evaluated,
    Freeze,
    Frozen,
    Ready,
    Start,
    Throttle,
    Train,
    Write,
    Written,
)
from engine.training.restart import RestartPolicy

log = logging.getLogger(__name__)

HOPELESS: Final = frozenset({"model_mismatch", "data_unavailable"})
"""Kinds of failure that another start would only repeat."""

ASK_AGAIN_SECONDS: Final = 5.0
"""A worker that should rest but is in a round is asked for again so often."""


@dataclass(frozen=True, slots=True)
class WorkerTerms:
    """Where a worker computes, and what patience there is with it."""

    device: str = "auto"
    times: HostTimes = field(default_factory=HostTimes)
    policy: Callable[[], RestartPolicy] = RestartPolicy


class WorkerTrainer:
    """Implements `Trainer`. One task lives from `start` to `close` and owns each worker in turn."""

    def __init__(
        self,
        project: VerifiedManifest,
        payload: bytes,
        peer_id: str,
        folder: Path,
        clock: Clock,
        terms: WorkerTerms | None = None,
    ) -> None:
        terms = terms or WorkerTerms()
        self._project = project
        self._payload = payload
        self._peer_id = peer_id
        self._folder = folder
        self._clock = clock
        self._residence = Residence(terms.device)
        self._changed, self._moved = asyncio.Event(), asyncio.Event()  # what `_residence` goes by, for two who wait
        self._resting = False
        self._times = terms.times
        self._tasks = TaskOwner("trainer", close_seconds=15.0)
        self._events: asyncio.Queue[TrainerEvent | None] = asyncio.Queue()
        self._policy = terms.policy()
        self._again = asyncio.Event()
        self._vectors: SharedVectors | None = None
        self._host: WorkerHost | None = None
        self._ready = False
        self._threads, self._gentle = 1, False
        self._state = "stopped"
        self._starts = 0
        self._device, self._asked_device = "", ""

    @property
    def state(self) -> str:
        if self._state == "training" and self._residence.duty <= 0.0:
            return "paused"
        return self._state

    @property
    def pid(self) -> int | None:
        return self._host.pid if self._host is not None else None

    @property
    def restarts(self) -> int:
        return max(0, self._starts - 1)

    @property
    def device(self) -> str:
        return self._device

    @property
    def has_gpu(self) -> bool | None:
        return self._residence.has_gpu

    def memory_bytes(self) -> int | None:
        return self._host.memory_bytes() if self._host is not None else None

    async def start(self) -> None:
        """Map the vectors and begin.

        Raises:
            OSError: the scratch folder cannot be written or its disk is full.
        """
        count = parameter_count(self._project.manifest)
        self._vectors = await asyncio.to_thread(SharedVectors.create, self._folder, count)
        self._tasks.spawn("workers", self._run_workers(self._vectors))
        self._tasks.spawn("residence", self._watch_residence())

    async def start_again(self) -> None:
        self._policy.reset()
        self._again.set()

    async def events(self) -> AsyncIterator[TrainerEvent]:
        while (event := await self._events.get()) is not None:
            yield event

    def gradients(self) -> Vector:
        if self._vectors is None:
            raise RuntimeError("the trainer was not started")
        return self._vectors.gradients

    async def train(self, global_step: int, weights: Vector, *, keep: bool, carried: Carried | None = None) -> None:
        host, vectors = self._host, self._vectors
        if host is None or vectors is None or not self._ready:
            return
        if not keep:
            vectors.weights[:] = weights
        self._state = "training"
        await host.send(Train(global_step=global_step, keep=keep, carried=carried))

    async def freeze(self) -> None:
        if self._host is not None and self._ready:
            await self._host.send(Freeze())

    async def throttle(self, duty: float, threads: int, *, gpu_duty: float | None = None, gentle: bool = False) -> None:
        self._residence.allow(duty, duty if gpu_duty is None else gpu_duty, self._clock.monotonic())
        self._threads, self._gentle = threads, gentle
        self._note_change()
        if self._host is not None and self._ready:
            await self._host.send(self._throttle())

    def _note_change(self) -> None:
        self._changed.set()
        self._moved.set()

    def _throttle(self) -> Throttle:
        return Throttle(duty=self._residence.duty, threads=self._threads, gentle=self._gentle)

    async def rest(self) -> None:
        if self._host is not None and self._ready:
            self._resting, self._ready = True, False
            self._tasks.spawn("rest", self._host.close())

    async def evaluate(self, global_step: int) -> None:
        if self._host is not None and self._ready:
            await self._host.send(Evaluate(global_step=global_step))

    async def write(self, global_step: int, prompt: str, max_tokens: int) -> None:
        if self._host is not None and self._ready:
            await self._host.send(Write(global_step=global_step, prompt=prompt, max_tokens=max_tokens))

    async def close(self) -> None:
        await self._tasks.close()
        self._state = "stopped"
        if self._vectors is not None:
            self._vectors.remove()
            self._vectors = None
        self._events.put_nowait(None)

    async def _run_workers(self, vectors: SharedVectors) -> None:
        while True:
            device = await self._next_device()
            started_at = self._clock.monotonic()
            died = await self._run_one(vectors, device)
            if died is None:
                log.info("the worker ended, to give back what it held")
                self._starts = 0  # the next is not a restart after a failure
                self._events.put_nowait(TrainerRests(detail="it rests", restarts=self.restarts))
                continue
            delay = self._policy.on_death(self._clock.monotonic() - started_at)
            kind = died.failed.kind if died.failed is not None else "keeps_failing"
            if delay is not None and kind not in HOPELESS:
                log.info("the worker ended: %s", died.detail)
                self._events.put_nowait(TrainerLost(detail=died.detail, restarts=self._starts))
                await asyncio.sleep(delay)
                continue
            log.error("the worker is not started again: %s; last words: %s", died.detail, " | ".join(died.stderr_tail))
            detail = died.failed.detail if died.failed is not None else died.detail
            self._events.put_nowait(TrainerGivenUp(kind=kind, detail=detail, restarts=self.restarts))
            self._again.clear()
            await self._again.wait()

    async def _next_device(self) -> str:
        """Where the next worker computes, once there is anything for it to do."""
        while (device := self._residence.next_device()) is None:
            self._state = "resting"
            self._changed.clear()
            await self._changed.wait()
        return device

    async def _watch_residence(self) -> None:
        """Say when the worker should be gone, again and again until it is."""
        asked_at = -math.inf
        while True:
            self._moved.clear()
            now, due = self._clock.monotonic(), self._residence.rest_at() if self._ready else None
            if due is not None and now >= due:
                if now >= asked_at + ASK_AGAIN_SECONDS:
                    asked_at = now
                    self._events.put_nowait(TrainerWantsRest())
                due = asked_at + ASK_AGAIN_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else due - now):
                    await self._moved.wait()

    async def _run_one(self, vectors: SharedVectors, device: str) -> WorkerDied | None:
        """One worker from its start to its death; None when it was asked to end."""
        host = WorkerHost(
            Start(
                manifest_payload=self._payload,
                weights_path=str(vectors.weights_path),
                gradients_path=str(vectors.gradients_path),
                peer_id=self._peer_id,
                threads=self._threads,
                device=device,
            ),
            self._times,
        )
        self._host, self._state, self._resting, self._asked_device = host, "starting", False, device
        self._starts += 1
        try:
            await host.start()
            async for event in host.events():
                if isinstance(event, WorkerDied):
                    return None if self._resting else event
                await self._on_event(host, event)
            if not self._resting:
                raise RuntimeError("a worker's events ended without its death")
            return None
        except OSError as error:
            return WorkerDied(exit_code=None, hung=False, detail=f"The training process cannot be started: {error}.")
        finally:
            self._ready, self._host, self._state = False, None, "stopped"
            self._residence.left()
            await host.close()

    async def _on_event(self, host: WorkerHost, event: object) -> None:
        match event:
            case Ready(device=device):
                self._ready, self._device, self._state = True, device, "frozen"
                self._residence.settled(self._asked_device, device, self._clock.monotonic())
                self._note_change()
                await host.send(self._throttle())
                self._events.put_nowait(TrainerReady(device=device))
            case Frozen():
                self._state = "frozen"
                self._events.put_nowait(event)
            case Accumulated() | Evaluated() | Written():
                self._events.put_nowait(event)
            case _:
                log.debug("worker: %r", event)
