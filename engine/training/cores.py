"""Which processor cores the worker may use: on a processor with fast and efficient ones, it can keep to the latter.

Linux tells their kinds in /sys and lets a process choose; elsewhere, and where all cores are alike, the lowest priority
has to do (Windows and macOS move work of that priority to the efficient cores by themselves).
"""

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

Bind: TypeAlias = Callable[[int, frozenset[int]], None]

CPUS: Final = Path("/sys/devices/system/cpu")
INTEL_EFFICIENT: Final = Path("/sys/devices/cpu_atom/cpus")
TASKS: Final = Path("/proc/self/task")
SLOWER: Final = 0.9
"""A core counts as efficient when its capacity or top frequency is below this share of the fastest core's: the cores of
one kind differ by a few percent, since some are chosen to clock a little higher."""

MAX_CPUS: Final = 4096


def efficient_cores(cpus: Path = CPUS, intel: Path = INTEL_EFFICIENT) -> frozenset[int]:
    """The numbers of the efficient cores; empty where there are none, or the system does not tell.

    Asks, in this order: Intel's own list of its "atom" cores, `cpu_capacity` (Arm), the cores' top frequencies.
    """
    listed = parse_cpu_list(_text(intel))
    if listed:
        return listed
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        ratings = _ratings(cpus, name)
        if ratings:
            fastest = max(ratings.values())
            return frozenset(core for core, rating in ratings.items() if rating < SLOWER * fastest)
    return frozenset()


def parse_cpu_list(text: str) -> frozenset[int]:
    """From the kernel's list format, "0-3,8"; empty for anything else."""
    cores: set[int] = set()
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            return frozenset()
        begin, end = int(first), int(last) if dash else int(first)
        if not begin <= end < MAX_CPUS:
            return frozenset()
        cores.update(range(begin, end + 1))
    return frozenset(cores)


class CoreUser:
    """Carries out what a `Throttle` says of threads and gentleness, in this process."""

    def __init__(
        self,
        set_threads: Callable[[int], None],
        efficient: frozenset[int],
        allowed: frozenset[int],
        bind: Bind | None = None,
        tasks: Path = TASKS,
    ) -> None:
        """`allowed` are the cores that this process was started with. `bind(thread id, cores)` raises OSError when
        refused; None where the system has no such call.
        """
        self._set_threads = set_threads
        self._efficient = efficient & allowed
        self._allowed = allowed
        self._bind = bind
        self._tasks = tasks
        self._bound = False

    def use(self, threads: int, gentle: bool) -> None:
        """Compute with `threads`; when `gentle` on the efficient cores, if there are any, and no more than those."""
        wanted = gentle and bool(self._efficient)
        if wanted != self._bound:
            done = self._bind_all(self._efficient if wanted else self._allowed)
            self._bound = wanted and done
        self._set_threads(min(threads, len(self._efficient)) if self._bound else threads)

    def _bind_all(self, cores: frozenset[int]) -> bool:
        """Every thread of this process: those that a library started for its sums are not children of the first."""
        if self._bind is None:
            return False
        bound = 0
        for task in self._tasks.iterdir():
            with contextlib.suppress(OSError):  # a thread may just have ended
                self._bind(int(task.name), cores)
                bound += 1
        return bound > 0


def core_user(set_threads: Callable[[int], None]) -> CoreUser:
    """For this process on this system."""
    if sys.platform != "linux":
        return CoreUser(set_threads, frozenset(), frozenset())
    allowed = frozenset(os.sched_getaffinity(0))
    return CoreUser(set_threads, efficient_cores(), allowed, os.sched_setaffinity)


def _ratings(cpus: Path, name: str) -> dict[int, int]:
    """By core, for the cores that have one."""
    ratings = {}
    for folder in cpus.glob("cpu[0-9]*"):
        number, text = folder.name[3:], _text(folder / name).strip()
        if number.isdecimal() and text.isdecimal():
            ratings[int(number)] = int(text)
    return ratings


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
