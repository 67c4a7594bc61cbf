"""What all processors of this computer did, to tell how much others ran beside a measurement."""

import psutil

NOT_BUSY = frozenset({"idle", "iowait", "guest", "guest_nice"})
"""The last two are within user and nice already."""


def busy_seconds() -> float:
    """Processor seconds since the system's start, by anybody; what a virtual machine's host took counts too."""
    times = psutil.cpu_times()._asdict()
    return float(sum(value for name, value in times.items() if name not in NOT_BUSY))
