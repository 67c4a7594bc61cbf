"""Seconds from `potluck run --join PROJECT` on a new profile to the first accumulated micro-batch."""

import contextlib
import os
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.benchmarks.children import Children, Engine, Patience
from tests.benchmarks.throughput import state_of

POLL_SECONDS: Final = 0.02
PATIENCE_SECONDS: Final = 180.0
CODE_SUFFIXES: Final = frozenset({".py", ".pyc", ".so", ".json"})


@dataclass(frozen=True, slots=True)
class StartTimes:
    """Parts that follow one another, in seconds; `total` is from spawning to the first micro-batch."""

    control_link: float  # process spawned, modules imported, key made, store opened, first face welcomed
    project: float  # hub asked, manifest checked, session begun
    worker_ready: float  # torch imported in the child, model built, text read
    micro_batch: float
    total: float


async def timed_start(
    children: Children, patience: Patience, name: str, arguments: list[str]
) -> tuple[Engine, StartTimes]:
    """Start an engine, and look at it every POLL_SECONDS until it trains.

    Raises:
        BenchmarkFailed: it does not.
    """
    engine = await children.start_engine(name, arguments)
    project_at = ready_at = 0.0
    while time.perf_counter() < engine.started_at + PATIENCE_SECONDS:
        session, now = (await state_of(engine)).session, time.perf_counter()
        if session is not None:
            project_at = project_at or now
            if session.device:
                ready_at = ready_at or now
            if session.my_samples or session.global_step:
                return engine, _times(engine, project_at, ready_at, now)
        await patience.rest(POLL_SECONDS)
    raise children.failure(name, f"accumulated nothing within {PATIENCE_SECONDS:.0f} s")


def _times(engine: Engine, project_at: float, ready_at: float, first_at: float) -> StartTimes:
    return StartTimes(
        control_link=engine.linked_at - engine.started_at,
        project=project_at - engine.linked_at,
        worker_ready=ready_at - project_at,
        micro_batch=first_at - ready_at,
        total=first_at - engine.started_at,
    )


def forget_code() -> bool:
    """Let the system drop this Python's packages from its file cache, so that the next start reads them from disk.

    False where that cannot be asked for. What another process has mapped stays, so this is as cold as can be had
    without privileges.
    """
    if sys.platform != "linux":
        return False
    repository = Path(__file__).resolve().parents[2]
    roots = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    for root in (*roots, *map(str, (repository / "engine", repository / "resources"))):
        for folder, _, names in os.walk(root):
            for name in names:
                if os.path.splitext(name)[1] in CODE_SUFFIXES or ".so." in name:
                    _forget(os.path.join(folder, name))
    return True


def _forget(path: str) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
