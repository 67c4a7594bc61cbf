"""PURE. How much the worker may compute now, from what the machine reads and what the user decided.

No setting overrides heat. Values that cannot be read never stop the work, with one exception: a computer that was too
hot is not taken for cool because its sensor fell silent.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from engine.contract.reasons import Reason, ReasonCode, Scalar
from engine.contract.settings import MAX_CPU_SHARE_PERCENT, MIN_CPU_SHARE_PERCENT
from engine.contract.snapshot import Machine, Settings

IN_USE_SECONDS: Final = 60.0
"""A computer counts as in use until this long after the last key or mouse movement."""

HOT_CELSIUS: Final = 95.0
COOL_CELSIUS: Final = 85.0
"""Work stops at HOT_CELSIUS and starts again below COOL_CELSIUS."""

SILENT_SENSOR_SECONDS: Final = 300.0
"""How long a computer that was hot stays stopped when its temperature can no longer be read."""

PLAUSIBLE_CELSIUS: Final = (-40.0, 150.0)
"""A sensor that says something else is broken."""


class RunLevel(StrEnum):
    """How much may be computed, in one word."""

    FULL = "full"  # all of the processor
    REDUCED = "reduced"  # the share that the user allows
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class UserPause:
    """The user pressed Pause."""

    until: float | None = None  # seconds since the epoch; None: until resumed


@dataclass(frozen=True, slots=True)
class GovernorMemory:
    """What the next decision must know of the earlier ones."""

    hot: bool = False
    hot_read_at: float = 0.0  # when a temperature last said so, seconds since the epoch


@dataclass(frozen=True, slots=True)
class Decision:
    """What the worker may do now."""

    level: RunLevel
    duty: float  # share of the time that the threads compute, 0 to 1; 0 when stopped
    threads: int  # of the worker; 0 when stopped
    reasons: tuple[Reason, ...] = ()  # why it is stopped, the most pressing first; empty when it is not
    resumes_at: float | None = None  # seconds since the epoch; None when that depends on something outside


@dataclass(frozen=True, slots=True)
class _Stop:
    reason: Reason
    until: float | None = None


def decide(
    reading: Machine, settings: Settings, pause: UserPause | None, now: float, previous: GovernorMemory
) -> tuple[Decision, GovernorMemory]:
    """The decision for this moment, and the memory to pass next time. `now` is in seconds since the epoch."""
    memory = _feel_heat(reading.temperature_celsius, now, previous)
    checks = (
        _stop_for_heat(reading, memory),
        _stop_for_user(pause, now),
        _stop_for_battery(reading, settings),
        _stop_for_use(reading, settings, now),
    )
    stops = [stop for stop in checks if stop is not None]
    if stops:
        moments = [stop.until for stop in stops]
        known = [moment for moment in moments if moment is not None]
        resumes_at = max(known) if len(known) == len(moments) else None
        return Decision(RunLevel.STOPPED, 0.0, 0, tuple(stop.reason for stop in stops), resumes_at), memory
    threads, duty = share_of(settings.cpu_share_percent, reading.cores_logical)
    level = RunLevel.FULL if settings.cpu_share_percent >= MAX_CPU_SHARE_PERCENT else RunLevel.REDUCED
    return Decision(level, duty, threads), memory


def share_of(cpu_share_percent: float, cores_logical: int | None) -> tuple[int, float]:
    """The fewest threads, and their duty, with threads * duty = share * cores.

    Few threads at a high duty compute faster than many that sleep, and leave whole cores to the user. At least one
    thread; an unknown number of cores counts as one.
    """
    share = min(max(cpu_share_percent, MIN_CPU_SHARE_PERCENT), MAX_CPU_SHARE_PERCENT) / 100
    allowed = share * max(1, cores_logical or 1)
    threads = max(1, math.ceil(allowed - 1e-9))  # 0.07 * 100 is a little more than 7
    return threads, min(1.0, allowed / threads)


def _feel_heat(celsius: float | None, now: float, previous: GovernorMemory) -> GovernorMemory:
    low, high = PLAUSIBLE_CELSIUS
    if celsius is not None and low <= celsius <= high:
        hot = celsius >= (COOL_CELSIUS if previous.hot else HOT_CELSIUS)
        return GovernorMemory(hot, now if hot else previous.hot_read_at)
    if now < previous.hot_read_at:  # the system's clock was set back
        return replace(previous, hot_read_at=now)
    still_hot = previous.hot and now - previous.hot_read_at < SILENT_SENSOR_SECONDS
    return replace(previous, hot=still_hot)


def _stop_for_heat(reading: Machine, memory: GovernorMemory) -> _Stop | None:
    if not memory.hot:
        return None
    params: dict[str, Scalar] = {"limit_celsius": round(COOL_CELSIUS)}
    if reading.temperature_celsius is not None and math.isfinite(reading.temperature_celsius):
        params["celsius"] = round(reading.temperature_celsius)
    return _Stop(Reason(code=ReasonCode.TOO_HOT, params=params))


def _stop_for_user(pause: UserPause | None, now: float) -> _Stop | None:
    if pause is None or (pause.until is not None and pause.until <= now):
        return None
    return _Stop(Reason(code=ReasonCode.USER_PAUSED), pause.until)


def _stop_for_battery(reading: Machine, settings: Settings) -> _Stop | None:
    if not (settings.pause_on_battery and reading.on_battery):
        return None
    return _Stop(Reason(code=ReasonCode.ON_BATTERY))


def _stop_for_use(reading: Machine, settings: Settings, now: float) -> _Stop | None:
    idle = reading.idle_seconds
    if not settings.pause_while_in_use or idle is None or not 0 <= idle < IN_USE_SECONDS:
        return None
    read_at = now if reading.read_at is None else min(reading.read_at, now)
    return _Stop(Reason(code=ReasonCode.USER_ACTIVE), max(now, read_at + IN_USE_SECONDS - idle))
