"""Apple's own chips: the GPU is part of the processor and shares its memory. Its load is in the I/O registry."""

import re
from typing import Final

from engine.contract.snapshot import GpuReading
from engine.hardware.answer import number

APPLE_COMMAND: Final = ("/usr/sbin/ioreg", "-r", "-d", "1", "-w", "0", "-c", "IOAccelerator")


def apple_name(cpu_name: str, is_mac: bool) -> str:
    """ "" where there is no such GPU."""
    return f"{cpu_name} GPU" if is_mac and cpu_name.startswith("Apple") else ""


def parse_ioreg(text: str, name: str) -> tuple[GpuReading, ...]:
    """From ioreg's rendering of IOAccelerator's "PerformanceStatistics"."""
    return (
        GpuReading(
            name=name,
            load_percent=_value(text, "Device Utilization %", 100),
            memory_used_bytes=None if (used := _value(text, "In use system memory", 2**50)) is None else int(used),
        ),
    )


def _value(text: str, key: str, high: float) -> float | None:
    found = re.search(rf'"{re.escape(key)}"\s*=\s*(\d{{1,16}})\b', text)
    return None if found is None else number(found[1], 0, high)
