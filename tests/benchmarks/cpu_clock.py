"""How long a process has computed, as the system counts it, without asking the process."""

import sys
import time
from pathlib import Path

import psutil


def cpu_seconds(pid: int) -> float:
    """Of all its threads, living and dead. Linux counts nanoseconds for living threads; elsewhere it is coarser."""
    if sys.platform != "linux":
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except (OSError, IndexError, ValueError):
            continue
    return total / 1e9


def tree_cpu_seconds(pid: int) -> dict[int, float]:
    """By process: this one and all its descendants."""
    process = psutil.Process(pid)
    found = {}
    for one in (process, *process.children(recursive=True)):
        try:
            times = one.cpu_times()
            found[one.pid] = float(times.user + times.system)
        except psutil.Error:
            continue
    return found


class LastWork:
    """When a process last computed, from samples of its CPU time."""

    def __init__(self, pid: int, least_seconds: float = 0.002) -> None:
        """Less than `least_seconds` between two samples is no work: a thread that looks at the clock."""
        self._pid = pid
        self._least = least_seconds
        self._before = cpu_seconds(pid)
        self.at = time.perf_counter()

    def sample(self) -> float:
        """Look now; the seconds since it was last seen to compute."""
        count, now = cpu_seconds(self._pid), time.perf_counter()
        if count - self._before >= self._least:
            self.at = now
        self._before = count
        return now - self.at
