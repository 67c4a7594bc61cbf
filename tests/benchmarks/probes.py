"""What a running engine takes: memory, and how quickly it answers over the control link."""

import sys
import time
from dataclasses import dataclass

import psutil

from engine.contract import commands as c
from engine.control.client import connect
from tests.benchmarks.children import Engine
from tests.benchmarks.report import quantile, rounded


@dataclass(frozen=True, slots=True)
class Memory:
    """One process, in bytes. `shared_fairly_bytes` (PSS) splits pages that several processes map; Linux tells it."""

    resident_bytes: int
    shared_fairly_bytes: int | None
    has_torch: bool | None  # whether torch's library is mapped; None: the system does not tell


def memory_of(pid: int) -> Memory:
    """Now."""
    process = psutil.Process(pid)
    full = process.memory_full_info()
    return Memory(
        resident_bytes=int(full.rss),
        shared_fairly_bytes=int(full.pss) if sys.platform == "linux" else None,
        has_torch=any("libtorch" in row.path for row in process.memory_maps()) if sys.platform != "darwin" else None,
    )


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """Of requests one after the other."""

    median_seconds: float
    p99_seconds: float
    count: int


async def round_trips(engine: Engine, count: int) -> RoundTrips:
    """`ping` over a link of its own, after a tenth of the count to warm up. Both ends are asyncio."""
    async with await connect(engine.paths, "benchmark") as client:
        for _ in range(count // 10):
            await client.request(c.Ping())
        seconds = []
        for _ in range(count):
            begun = time.perf_counter()
            await client.request(c.Ping())
            seconds.append(time.perf_counter() - begun)
    return RoundTrips(rounded(quantile(seconds, 0.5)), rounded(quantile(seconds, 0.99)), count)
