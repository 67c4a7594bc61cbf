"""The share of the time that a real worker computes, against the share that it was told."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from engine.manifest.parse import parameter_count
from engine.manifest.schema import Manifest
from engine.training.buffers import SharedVectors
from engine.training.host import WorkerDied, WorkerHost
from engine.training.protocol import Accumulated, Ready, Start, Throttle, Train
from tests.benchmarks.children import BenchmarkFailed, Patience
from tests.benchmarks.cpu_clock import cpu_seconds

SETTLE_SECONDS: Final = 2.0
PEER: Final = "a" * 52


@dataclass(frozen=True, slots=True)
class Held:
    """One duty."""

    wanted: float
    measured: float  # CPU time of the process over wall time
    micro_batch_seconds: float
    seconds: float

    @property
    def points_off(self) -> float:
        """In percentage points."""
        return 100 * abs(self.measured - self.wanted)


class LoneWorker:
    """A worker with one thread, training alone on noise. Counts its micro-batches."""

    def __init__(self, host: WorkerHost) -> None:
        self._host = host
        self.micro_batches = 0
        self.busy_seconds = 0.0

    async def begin(self) -> None:
        """Wait until it stands, and let it train."""
        async for event in self._host.events():
            if isinstance(event, WorkerDied):
                raise BenchmarkFailed(event.detail)
            if isinstance(event, Ready):
                await self._host.send(Train(global_step=0))
                return
        raise BenchmarkFailed("the worker ended")

    async def count(self) -> None:
        """Take in what it says, until it ends."""
        async for event in self._host.events():
            if isinstance(event, Accumulated):
                self.micro_batches += 1
                self.busy_seconds = event.busy_seconds

    async def hold(self, duty: float, seconds: float, patience: Patience) -> Held:
        """Measure one duty for about `seconds`."""
        if self._host.pid is None:
            raise BenchmarkFailed("the worker is not there")
        await self._host.send(Throttle(duty=duty, threads=1))
        await patience.rest(SETTLE_SECONDS)
        batches, busy = self.micro_batches, self.busy_seconds
        begun, before = time.perf_counter(), cpu_seconds(self._host.pid)
        await patience.rest(seconds)
        elapsed, spent = time.perf_counter() - begun, cpu_seconds(self._host.pid) - before
        length = (self.busy_seconds - busy) / max(1, self.micro_batches - batches)
        return Held(duty, spent / elapsed, length, elapsed)


@asynccontextmanager
async def lone_worker(manifest: Manifest, folder: Path) -> AsyncIterator[LoneWorker]:
    """One that trains until the block ends."""
    vectors = SharedVectors.create(folder, parameter_count(manifest))
    host = WorkerHost(
        Start(
            manifest_payload=msgspec.json.encode(manifest),
            weights_path=str(vectors.weights_path),
            gradients_path=str(vectors.gradients_path),
            peer_id=PEER,
            threads=1,
            device="cpu",
        )
    )
    await host.start()
    worker = LoneWorker(host)
    try:
        await worker.begin()
        counting = asyncio.create_task(worker.count())
        try:
            yield worker
        finally:
            await host.close()
            await counting
    finally:
        await host.close()
        vectors.remove()
