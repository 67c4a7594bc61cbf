"""The clock that tells how long this computer slept, where there is one."""

import time


def asleep_seconds() -> float:
    """Since it started. Linux counts sleep in one of its clocks only; elsewhere always 0."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    if boot is None:
        return 0.0
    return max(0.0, time.clock_gettime(boot) - time.clock_gettime(time.CLOCK_MONOTONIC))
