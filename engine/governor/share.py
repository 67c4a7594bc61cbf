"""PURE. A share of the processor as threads and their duty."""

import math

from engine.contract.settings import MAX_CPU_SHARE_PERCENT, MIN_CPU_SHARE_PERCENT


def share_of(cpu_share_percent: float, cores_logical: int | None) -> tuple[int, float]:
    """The fewest threads, and their duty, with threads * duty = share * cores.

    Few threads at a high duty compute faster than many that sleep, and leave whole cores to the user. At least one
    thread; an unknown number of cores counts as one.
    """
    share = min(max(cpu_share_percent, MIN_CPU_SHARE_PERCENT), MAX_CPU_SHARE_PERCENT) / 100
    allowed = share * max(1, cores_logical or 1)
    threads = max(1, math.ceil(allowed - 1e-9))  # 0.07 * 100 is a little more than 7
    return threads, min(1.0, allowed / threads)
