"""PURE. The rules: each looks at one thing and says whether it stands in the way. docs/specs/governor.md lists them.

A rule that cannot read its sensor says so, and never that something is in the way.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from engine.contract.reasons import ReasonCode
from engine.contract.snapshot import GpuReading, Machine, Settings
from engine.contract.week import allows, hours_until_allowed
from engine.governor.heat import plausible
from engine.governor.latch import GONE, OFF, UNREAD, Finding, Seen, Timing
from engine.governor.model import Inputs, Latch, LocalTime, Override, SystemEvent

HOT_CPU_CELSIUS: Final = 95.0
HOT_GPU_CELSIUS: Final = 87.0
BELOW_CRITICAL_CELSIUS: Final = 5.0
BELOW_SLOWDOWN_CELSIUS: Final = 3.0
COOL_CELSIUS: Final = 70.0
"""Work stops at the hot limit, or a little below what the device itself calls too hot, and resumes at COOL_CELSIUS."""

RETRY_MEMORY_SECONDS: Final = 600.0
DISK_MARGIN_BYTES: Final = 1_000_000_000
LEAST_RESERVE_BYTES: Final = 2_000_000_000
DISK_LIMIT_MARGIN: Final = 0.95
GPU_MEMORY_FREE_BYTES: Final = 1024**3
GPU_MEMORY_NEEDED_BYTES: Final = 1024**3
"""Of a graphics card's memory the first always stays free; with less than the second beside it work does not begin."""

MAX_OVERRIDE_SECONDS: Final = 24 * 3600.0
GIGABYTE: Final = 1e9

PROMPT: Final = Timing(leave_seconds=0.0, silent_seconds=0.0)
HEAT: Final = Timing(leave_seconds=120.0, silent_seconds=300.0)
BATTERY: Final = Timing(leave_seconds=60.0, silent_seconds=300.0)
FOREIGN_CPU: Final = Timing(enter_seconds=10.0, leave_seconds=30.0, silent_seconds=30.0)
FOREIGN_GPU: Final = Timing(enter_seconds=5.0, leave_seconds=30.0, silent_seconds=30.0)
NETWORK: Final = Timing(leave_seconds=30.0, silent_seconds=300.0)
PROGRAM: Final = Timing(leave_seconds=30.0, silent_seconds=30.0)
ROOM: Final = Timing(leave_seconds=60.0, silent_seconds=300.0)
MEMORY: Final = Timing(enter_seconds=4.0, leave_seconds=60.0, silent_seconds=60.0)
SHORT: Final = Timing()


class Scope(IntEnum):
    """What a rule takes away, the most first."""

    ALL = 0  # computing and network
    COMPUTE = 1
    GPU = 2
    LESS = 3  # some of the processor's time


class Force(IntEnum):
    """Whether a timed override sets a rule aside."""

    HARD = 0  # never: it protects the machine, the battery or the purse
    OWN = 1  # never: it is the user's own word, or a fact
    SOFT = 2  # yes


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a rule may look at."""

    reading: Machine
    settings: Settings
    inputs: Inputs
    now: float
    in_use: bool
    away_at: float | None

    @property
    def in_use_here(self) -> bool:
        """Somebody uses the computer, and no override says to work all the same."""
        return self.in_use and not override_holds(self.inputs.override, self.now)


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table."""

    code: ReasonCode
    scope: Scope
    force: Force
    timing: Timing
    find: Callable[[Situation, Latch], Finding]


@dataclass(frozen=True, slots=True)
class GpuRule:
    """One row of the table for a graphics card."""

    code: ReasonCode
    force: Force
    timing: Timing
    find: Callable[[Situation, GpuReading, Latch], Finding]
    reads_card: bool  # whether it needs the card to be read


def override_holds(override: Override | None, now: float) -> bool:
    """Whether an override is on; one that lies further ahead than can be asked for is of a clock that was set back."""
    return override is not None and 0 < override.until - now <= MAX_OVERRIDE_SECONDS


def hot_limit_celsius(reading: Machine) -> float:
    """Where the processor's heat stops all work."""
    critical = plausible(reading.temperature_critical_celsius)
    below = HOT_CPU_CELSIUS if critical is None else critical - BELOW_CRITICAL_CELSIUS
    return max(COOL_CELSIUS + 5.0, min(HOT_CPU_CELSIUS, below))


def hot_gpu_limit_celsius(gpu: GpuReading) -> float:
    """Where a graphics card's heat stops work on it."""
    slowdown = plausible(gpu.slowdown_celsius)
    below = HOT_GPU_CELSIUS if slowdown is None else slowdown - BELOW_SLOWDOWN_CELSIUS
    return max(COOL_CELSIUS + 5.0, min(HOT_GPU_CELSIUS, below))


def _gigabytes(count: float) -> float:
    return round(count / GIGABYTE, 1)


def _known(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value >= 0 else None


def _flag(value: bool | None, *, wanted: bool = True) -> Finding:
    if not wanted:
        return OFF
    if value is None:
        return UNREAD
    return Seen({}) if value else GONE


# Heat


def _heat(celsius: float | None, limit_celsius: float, latch: Latch) -> Finding:
    celsius = plausible(celsius)
    if celsius is None:
        return UNREAD
    if celsius < limit_celsius and not (latch.holds and celsius > COOL_CELSIUS):
        return GONE
    return Seen({"celsius": round(celsius), "limit_celsius": round(COOL_CELSIUS)})


def _cpu_heat(what: Situation, latch: Latch) -> Finding:
    if what.reading.thermal_state in ("serious", "critical"):
        return Seen({})
    found = _heat(what.reading.temperature_celsius, hot_limit_celsius(what.reading), latch)
    # Where the system has only words and they say that all is well, an unread temperature is no silence.
    return GONE if found is UNREAD and what.reading.thermal_state else found


def _gpu_heat(what: Situation, gpu: GpuReading, latch: Latch) -> Finding:
    return _heat(gpu.temperature_celsius, hot_gpu_limit_celsius(gpu), latch)


# The user's word and the system's


def _sleeps(what: Situation, latch: Latch) -> Finding:
    return Seen({}) if what.inputs.system is SystemEvent.SLEEP else GONE


def _ends(what: Situation, latch: Latch) -> Finding:
    return Seen({}) if what.inputs.system is SystemEvent.END else GONE


def _paused(what: Situation, latch: Latch) -> Finding:
    pause = what.inputs.pause
    if pause is None or (pause.until is not None and pause.until <= what.now):
        return GONE
    return Seen({}, pause.until)


def _measuring(what: Situation, latch: Latch) -> Finding:
    return Seen({}) if what.inputs.measuring else GONE


def _start_delay(what: Situation, latch: Latch) -> Finding:
    started_at, delay = what.inputs.started_at, what.settings.start_delay_seconds
    if started_at is None or not 0 <= what.now - started_at < delay:  # before it: the clock was set back
        return GONE
    return Seen({}, started_at + delay)


# Power, disk, data


def _battery(what: Situation, latch: Latch) -> Finding:
    return _flag(what.reading.on_battery, wanted=what.settings.pause_on_battery)


def _energy_saver(what: Situation, latch: Latch) -> Finding:
    return _flag(what.reading.energy_saver, wanted=what.settings.pause_on_energy_saver)


def disk_reserve_bytes(reading: Machine, settings: Settings) -> int:
    """What is left to others: as set; where nothing else was chosen, no more than a tenth of a small disk."""
    wanted, total = settings.disk_free_bytes, _known(reading.disk_total_bytes)
    if total is None or wanted != Settings().disk_free_bytes:
        return wanted
    return int(min(wanted, max(LEAST_RESERVE_BYTES, total // 10)))


def _disk_reserve(what: Situation, latch: Latch) -> Finding:
    free = _known(what.reading.disk_free_bytes)
    if free is None:
        return UNREAD
    wanted = disk_reserve_bytes(what.reading, what.settings)
    if free >= wanted + (DISK_MARGIN_BYTES if latch.holds else 0):
        return GONE
    shown = {"free_gigabytes": _gigabytes(free), "limit_gigabytes": _gigabytes(wanted + DISK_MARGIN_BYTES)}
    return Seen(shown)


def _disk_limit(what: Situation, latch: Latch) -> Finding:
    used = _known(what.reading.disk_used_bytes)
    if used is None:
        return UNREAD
    limit = what.settings.disk_limit_bytes
    if used < limit * (DISK_LIMIT_MARGIN if latch.holds else 1.0):
        return GONE
    return Seen({"used_gigabytes": _gigabytes(used), "limit_gigabytes": _gigabytes(limit)})


def _data_cap(what: Situation, latch: Latch) -> Finding:
    used, cap = what.inputs.data_used_bytes, what.settings.data_cap_bytes
    if cap is None:
        return OFF
    if used is None:
        return UNREAD
    if used < cap:
        return GONE
    shown = {
        "used_gigabytes": _gigabytes(used),
        "limit_gigabytes": _gigabytes(cap),
        "days": what.settings.data_cap_days,
    }
    return Seen(shown, what.inputs.data_frees_at)


def _metered(what: Situation, latch: Latch) -> Finding:
    return _flag(what.reading.metered, wanted=what.settings.pause_on_metered)


def _captive(what: Situation, latch: Latch) -> Finding:
    return _flag(what.reading.captive_portal)


# Memory


def _memory_low(what: Situation, latch: Latch) -> Finding:
    """Short when less is free than the user wants; over when what we gave back would fit again."""
    total, used = _known(what.reading.memory_total_bytes), _known(what.reading.memory_used_bytes)
    if total is None or used is None:
        return UNREAD
    own = float(what.inputs.memory_used_bytes or 0)
    wanted = what.settings.memory_free_bytes
    if latch.mark is not None:
        wanted += int(max(0.0, latch.mark - own))
    free = max(0.0, total - used)
    if free >= wanted:
        return GONE
    return Seen({"free_gigabytes": _gigabytes(free), "limit_gigabytes": _gigabytes(wanted)}, mark=own)


def memory_limit_bytes(reading: Machine, settings: Settings, *, in_use: bool) -> int | None:
    """How much engine and worker may take together; None when the size of the memory is not known."""
    total = _known(reading.memory_total_bytes)
    if not total:
        return None
    percent = settings.memory_in_use_percent if in_use else settings.memory_away_percent
    return int(max(0, min(total * percent / 100, total - settings.memory_free_bytes)))


def _memory_share(what: Situation, latch: Latch) -> Finding:
    """Over when what was taken at the time would be allowed now, or after RETRY_MEMORY_SECONDS."""
    in_use = what.in_use_here and not what.settings.pause_while_in_use  # else it does not work then anyhow
    limit = memory_limit_bytes(what.reading, what.settings, in_use=in_use)
    used = _known(what.inputs.memory_used_bytes)
    if limit is None or used is None:
        return UNREAD
    waited = latch.entered_at is not None and what.now - latch.entered_at >= RETRY_MEMORY_SECONDS
    taken = used if latch.mark is None or waited else max(used, latch.mark)
    if taken <= limit:
        return GONE
    return Seen({"used_gigabytes": _gigabytes(taken), "limit_gigabytes": _gigabytes(limit)}, mark=taken)


# Other people and programs


def _user(what: Situation, latch: Latch) -> Finding:
    return Seen({}, what.away_at) if what.in_use and what.settings.pause_while_in_use else GONE


def _app(what: Situation, latch: Latch) -> Finding:
    if not what.settings.exclusive_apps:
        return OFF
    app = what.reading.exclusive_app_running
    return Seen({"app": app}) if app else GONE


def _foreign(load: float | None, limit_percent: int) -> Finding:
    load = _known(load)
    if limit_percent <= 0:
        return OFF
    if load is None:
        return UNREAD
    return Seen({"percent": round(load)}) if load > limit_percent else GONE


def _foreign_cpu(what: Situation, latch: Latch) -> Finding:
    return _foreign(what.reading.foreign_cpu_percent, what.settings.foreign_cpu_percent)


def _foreign_gpu(what: Situation, gpu: GpuReading, latch: Latch) -> Finding:
    return _foreign(gpu.foreign_load_percent, what.settings.foreign_gpu_percent)


def _gpu_memory(what: Situation, gpu: GpuReading, latch: Latch) -> Finding:
    """Short when others leave too little; what we hold ourselves counts as free."""
    total, used = _known(gpu.memory_total_bytes), _known(gpu.memory_used_bytes)
    own = _known(gpu.own_memory_bytes)
    if total is None or used is None or own is None:
        return UNREAD
    return Seen({}) if total - used + own < GPU_MEMORY_FREE_BYTES + GPU_MEMORY_NEEDED_BYTES else GONE


def _full_screen(what: Situation, gpu: GpuReading, latch: Latch) -> Finding:
    return _flag(what.reading.full_screen, wanted=what.settings.pause_full_screen)


def _gpu_in_use(what: Situation, gpu: GpuReading, latch: Latch) -> Finding:
    return Seen({}, what.away_at) if what.in_use and not what.settings.gpu_while_in_use else GONE


# Hours


def _compute_hours(what: Situation, latch: Latch) -> Finding:
    return _hours(what.settings.compute_schedule, what.inputs.local_time, what.now)


def _network_hours(what: Situation, latch: Latch) -> Finding:
    return _hours(what.settings.network_schedule, what.inputs.local_time, what.now)


def _hours(week: tuple[int, ...], local: LocalTime | None, now: float) -> Finding:
    if not week:
        return OFF
    if local is None or allows(week, local.weekday, local.hour):
        return GONE
    ahead = hours_until_allowed(week, local.weekday, local.hour)
    if ahead is None:
        return Seen({})
    return Seen({}, now + ahead * 3600 - local.minute * 60 - local.second)


RULES: Final = (
    Rule(ReasonCode.SYSTEM_ENDS, Scope.ALL, Force.OWN, PROMPT, _ends),
    Rule(ReasonCode.SYSTEM_SLEEPS, Scope.ALL, Force.OWN, PROMPT, _sleeps),
    Rule(ReasonCode.TOO_HOT, Scope.ALL, Force.HARD, HEAT, _cpu_heat),
    Rule(ReasonCode.USER_PAUSED, Scope.ALL, Force.OWN, PROMPT, _paused),
    Rule(ReasonCode.ON_BATTERY, Scope.ALL, Force.HARD, BATTERY, _battery),
    Rule(ReasonCode.DISK_RESERVE, Scope.ALL, Force.HARD, ROOM, _disk_reserve),
    Rule(ReasonCode.DISK_LIMIT, Scope.ALL, Force.HARD, ROOM, _disk_limit),
    Rule(ReasonCode.DATA_CAP, Scope.ALL, Force.HARD, SHORT, _data_cap),
    Rule(ReasonCode.METERED, Scope.ALL, Force.HARD, NETWORK, _metered),
    Rule(ReasonCode.EXCLUSIVE_APP, Scope.ALL, Force.SOFT, PROGRAM, _app),
    Rule(ReasonCode.ENERGY_SAVER, Scope.ALL, Force.SOFT, BATTERY, _energy_saver),
    Rule(ReasonCode.CAPTIVE_PORTAL, Scope.ALL, Force.SOFT, NETWORK, _captive),
    Rule(ReasonCode.NETWORK_SCHEDULE, Scope.ALL, Force.SOFT, SHORT, _network_hours),
    Rule(ReasonCode.MEMORY_LOW, Scope.COMPUTE, Force.HARD, MEMORY, _memory_low),
    Rule(ReasonCode.MEASURING, Scope.COMPUTE, Force.OWN, PROMPT, _measuring),
    Rule(ReasonCode.USER_ACTIVE, Scope.COMPUTE, Force.SOFT, PROMPT, _user),
    Rule(ReasonCode.COMPUTE_SCHEDULE, Scope.COMPUTE, Force.SOFT, SHORT, _compute_hours),
    Rule(ReasonCode.START_DELAY, Scope.COMPUTE, Force.SOFT, PROMPT, _start_delay),
    Rule(ReasonCode.FOREIGN_CPU, Scope.COMPUTE, Force.SOFT, FOREIGN_CPU, _foreign_cpu),
    Rule(ReasonCode.MEMORY_SHARE, Scope.COMPUTE, Force.SOFT, MEMORY, _memory_share),
)
"""The rules for the whole computer, the most pressing first within each scope."""

GPU_RULES: Final = (
    GpuRule(ReasonCode.GPU_TOO_HOT, Force.HARD, HEAT, _gpu_heat, reads_card=True),
    GpuRule(ReasonCode.GPU_FULL_SCREEN, Force.SOFT, PROGRAM, _full_screen, reads_card=False),
    GpuRule(ReasonCode.GPU_IN_USE, Force.SOFT, PROMPT, _gpu_in_use, reads_card=False),
    GpuRule(ReasonCode.GPU_FOREIGN_LOAD, Force.SOFT, FOREIGN_GPU, _foreign_gpu, reads_card=True),
    GpuRule(ReasonCode.GPU_MEMORY_LOW, Force.SOFT, MEMORY, _gpu_memory, reads_card=True),
)
"""The rules for each graphics card."""


def hard_codes() -> Iterator[ReasonCode]:
    """The reasons that no override sets aside."""
    yield from (rule.code for rule in (*RULES, *GPU_RULES) if rule.force is Force.HARD)
