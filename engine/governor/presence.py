"""PURE. Whether somebody uses the computer, from how long no key or mouse moved and whether the screen is locked."""

import math
from dataclasses import replace
from typing import Final

from engine.contract.snapshot import Machine
from engine.governor.model import GovernorMemory

LOCKED_SECONDS: Final = 10.0
"""A session that has been locked so long is nobody's, whatever the keys say."""


def notice(reading: Machine, now: float, memory: GovernorMemory) -> GovernorMemory:
    """The memory with the latest input and the lock as `reading` tells them.

    The latest input only ever moves forward: a sensor that jumps or falls silent does not make anybody go away sooner.
    """
    last = memory.last_input_at if memory.last_input_at is None else min(memory.last_input_at, now)
    locked = memory.locked_since if memory.locked_since is None else min(memory.locked_since, now)
    idle = reading.idle_seconds
    if idle is not None and math.isfinite(idle) and idle >= 0:
        read_at = reading.idle_read_at if reading.idle_read_at is not None else reading.read_at
        at = (now if read_at is None else min(read_at, now)) - idle
        last = at if last is None else max(last, at)
    if reading.session_locked:
        locked = now if locked is None else locked
    elif locked is not None:
        locked = None
        last = now if reading.session_locked is False else last  # unlocking is a use
    return replace(memory, last_input_at=last, locked_since=locked)


def away_at(memory: GovernorMemory, away_after_seconds: float) -> float | None:
    """When nobody will be using the computer; None when no input was ever seen."""
    if memory.last_input_at is None:
        return None
    away = memory.last_input_at + away_after_seconds
    return away if memory.locked_since is None else min(away, memory.locked_since + LOCKED_SECONDS)
