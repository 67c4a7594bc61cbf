"""How much of the processor other programs use."""

import os
from collections.abc import Callable, Iterable
from typing import Final

import psutil

CHILDREN_SECONDS: Final = 10.0
"""How often our own children are looked for: that reads every process's parent."""

MIN_INTERVAL_SECONDS: Final = 0.2


def whole_busy_seconds() -> float:
    """What all cores together worked since the start. Not counted: waiting for disks, and time a host took away."""
    times = psutil.cpu_times()._asdict()
    not_work = ("idle", "iowait", "steal", "guest", "guest_nice")  # guest time is in user time already
    return float(sum(seconds for name, seconds in times.items() if name not in not_work))


def process_seconds(pid: int) -> float | None:
    """What the process worked since it began; None when it is gone."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)


def children_of(pid: int) -> list[int]:
    """All that the process started, and what these did."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []


class ForeignCpu:
    """All of the processor's work less that of our own processes, from one reading to the next."""

    def __init__(
        self,
        *,
        busy_seconds: Callable[[], float] = whole_busy_seconds,
        own_seconds: Callable[[int], float | None] = process_seconds,
        children: Callable[[int], list[int]] = children_of,
        cores: int | None = None,
    ) -> None:
        self._busy_seconds = busy_seconds
        self._own_seconds = own_seconds
        self._children = children
        self._cores = cores or psutil.cpu_count(logical=True) or 1
        self._announced: frozenset[int] = frozenset()
        self._own: frozenset[int] = frozenset()
        self._own_found_at: float | None = None
        self._busy_before = 0.0
        self._own_before: dict[int, float] = {}
        self._before_at: float | None = None

    @property
    def own_pids(self) -> frozenset[int]:
        """This process, what it started, and what was announced."""
        return self._own | self._announced | {os.getpid()}

    def owns(self, pids: Iterable[int]) -> None:
        """Processes that belong to us; those that this process started are found by themselves after a while."""
        self._announced = frozenset(pids)

    def read(self, monotonic: float) -> float | None:
        """Percent of all cores together since the last reading; None at the first and for shorter than a moment."""
        if self._own_found_at is None or monotonic - self._own_found_at >= CHILDREN_SECONDS:
            self._own, self._own_found_at = frozenset(self._children(os.getpid())), monotonic
        if self._before_at is not None and monotonic - self._before_at < MIN_INTERVAL_SECONDS:
            return None
        busy = self._busy_seconds()
        own = {pid: used for pid in self.own_pids if (used := self._own_seconds(pid)) is not None}
        busy_before, own_before, before_at = self._busy_before, self._own_before, self._before_at
        self._busy_before, self._own_before, self._before_at = busy, own, monotonic
        if before_at is None:
            return None
        ours = sum(used - own_before.get(pid, used) for pid, used in own.items())
        share = (busy - busy_before - ours) / ((monotonic - before_at) * self._cores)
        return min(100.0, max(0.0, 100 * share))
