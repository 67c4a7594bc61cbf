"""Main memory."""

from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """Both in bytes. What the system would give back at need does not count as used."""

    total_bytes: int
    used_bytes: int


def read_memory() -> MemoryReading:
    """Main memory now."""
    memory = psutil.virtual_memory()
    return MemoryReading(memory.total, max(0, memory.total - memory.available))
