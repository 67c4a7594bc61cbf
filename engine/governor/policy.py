"""PURE. How much may be computed now, on what, and why not more. The rules: docs/specs/governor.md.

No setting and no override sets a hard rule aside. Values that cannot be read never stop the work, with one exception:
what stood in the way is not taken for gone because its sensor fell silent.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from engine.contract.presets import CUSTOM
from engine.contract.reasons import Reason, ReasonCode, Scalar
from engine.contract.settings import check_settings
from engine.contract.snapshot import GpuReading, Machine, Settings
from engine.governor import heat
from engine.governor.latch import GONE, Finding, Seen, Timing, clamped, ends_at, follow
from engine.governor.model import (
    FIRST_DECISION,
    Decision,
    GovernorMemory,
    Inputs,
    Latch,
    LocalTime,
    Override,
    Profile,
    RunLevel,
    SystemEvent,
    UserPause,
)
from engine.governor.presence import away_at, notice
from engine.governor.rules import GPU_RULES, RULES, Force, Scope, Situation, memory_limit_bytes, override_holds
from engine.governor.share import share_of

__all__ = [
    "FIRST_DECISION",
    "Decision",
    "GovernorMemory",
    "Inputs",
    "LocalTime",
    "Override",
    "Profile",
    "RunLevel",
    "SystemEvent",
    "UserPause",
    "check_settings",
    "decide",
    "share_of",
]

STALE_SECONDS: Final = 30.0
"""A temperature or load that was read longer ago counts as not read."""

UNREADABLE_SHARE_PERCENT: Final = 50
"""The most that a preset uses of a processor whose temperature cannot be read."""

THROTTLED_DUTY: Final = 0.5
"""What is left of the duty while the system slows the processor down or calls it warm."""

SLOWED: Final = 0.97
"""A duty below this part of what is allowed counts as less."""

_OPEN: Final = Latch()
"""Of a cause that is not there."""

HEAT_LESS: Final = Timing(leave_seconds=60.0, silent_seconds=60.0)
UNREADABLE: Final = Timing(enter_seconds=60.0, leave_seconds=60.0, silent_seconds=60.0)


@dataclass(frozen=True, slots=True)
class _Cause:
    """A rule that holds now."""

    reason: Reason
    scope: Scope
    soft: bool
    until: float | None
    gpu: int | None = None  # the place of the card that it concerns
    reads_card: bool = False


class _Judge:
    """One decision: follows every cause from the last memory to the next."""

    def __init__(self, what: Situation, memory: GovernorMemory) -> None:
        self.what = what
        self.memory = memory
        self.latches: dict[str, Latch] = {}
        self.causes: list[_Cause] = []

    def before(self, key: str) -> Latch:
        """The cause as it was, for a rule to look at."""
        known = self.memory.latches.get(key)
        return _OPEN if known is None else clamped(known, self.what.now)

    def follow(self, key: str, finding: Finding, timing: Timing) -> Latch:
        """Whether it holds, remembered for the next decision."""
        latch = follow(self.before(key), finding, timing, self.what.now) or _OPEN
        if latch is not _OPEN:
            self.latches[key] = latch
        return latch

    def look(self) -> None:
        """All rules for the computer and its graphics cards."""
        for rule in RULES:
            finding = rule.find(self.what, self.before(rule.code.value))
            latch = self.follow(rule.code.value, finding, rule.timing)
            if latch.holds:
                until = ends_at(latch, finding, rule.timing)
                self.causes.append(
                    _Cause(_reason(rule.code, latch), rule.scope, rule.force is Force.SOFT, until),
                )
        for place, gpu in _usable(self.what):
            self._look_at(place, gpu)

    def _look_at(self, place: int, gpu: GpuReading) -> None:
        for rule in GPU_RULES:
            key = f"{rule.code.value}:{place}"
            finding = rule.find(self.what, gpu, self.before(key))
            latch = self.follow(key, finding, rule.timing)
            if latch.holds:
                until, reason = ends_at(latch, finding, rule.timing), _reason(rule.code, latch)
                soft = rule.force is Force.SOFT
                self.causes.append(_Cause(reason, Scope.GPU, soft, until, place, rule.reads_card))


def decide(
    reading: Machine, settings: Settings, inputs: Inputs, now: float, memory: GovernorMemory
) -> tuple[Decision, GovernorMemory]:
    """The decision for this moment, and the memory to pass next time. `now` is in seconds since the epoch."""
    reading = _fresh(reading, now)
    memory = notice(reading, now, memory)
    away = away_at(memory, settings.away_after_seconds)
    what = Situation(reading, settings, inputs, now, away is not None and now < away, away)
    judge = _Judge(what, memory)
    judge.look()
    overriding = override_holds(inputs.override, now)
    in_force = [cause for cause in judge.causes if not (overriding and cause.soft)]
    set_aside = [cause for cause in judge.causes if overriding and cause.soft]
    work, memory = _work(judge)
    decision = replace(
        _decision(what, in_force, work),
        overridden=_reasons(set_aside),
        override_until=inputs.override.until if overriding and inputs.override is not None else None,
        memory_limit_bytes=memory_limit_bytes(reading, settings, in_use=what.in_use_here),
    )
    return decision, replace(memory, latches=judge.latches)


@dataclass(frozen=True, slots=True)
class _Work:
    """What would be done if nothing stood in the way."""

    threads: int
    duty: float
    gpu_duty: float
    less: tuple[Reason, ...]  # why it is not all that the user allows while away


def _work(judge: _Judge) -> tuple[_Work, GovernorMemory]:
    what, settings = judge.what, judge.what.settings
    on_gpu = what.inputs.device == "gpu"
    in_use, less = what.in_use_here, []
    percent = settings.cpu_share_in_use_percent if in_use else settings.cpu_share_percent
    unreadable = judge.follow("heat_unreadable", _unreadable(what, percent), UNREADABLE).holds
    if unreadable:
        percent = min(percent, UNREADABLE_SHARE_PERCENT)
    threads, duty = share_of(percent, what.reading.cores_logical)
    gpu_duty = settings.cpu_share_in_use_percent / 100 if in_use else 1.0
    memory = _controlled(judge, duty, gpu_duty)
    cpu_slowed = _slowed(judge, "less_for_heat", memory.cpu_heat.ceiling, duty)
    gpu_slowed = _slowed(judge, "gpu_less_for_heat", memory.gpu_heat.ceiling, gpu_duty)
    if gpu_slowed if on_gpu else cpu_slowed:
        target = settings.heat_target_gpu_celsius if on_gpu else settings.heat_target_cpu_celsius
        less.append(Reason(code=ReasonCode.LESS_FOR_HEAT, params={"target_celsius": target}))
    if unreadable and not on_gpu:
        less.append(Reason(code=ReasonCode.HEAT_UNREADABLE))
    if in_use and settings.cpu_share_in_use_percent < (100 if on_gpu else settings.cpu_share_percent):
        params: dict[str, Scalar] = {} if on_gpu else {"percent": settings.cpu_share_in_use_percent}
        less.append(Reason(code=ReasonCode.LESS_IN_USE, params=params))
    duty, gpu_duty = min(duty, memory.cpu_heat.ceiling), min(gpu_duty, memory.gpu_heat.ceiling)
    return _Work(threads, duty, gpu_duty, tuple(less)), memory


def _controlled(judge: _Judge, duty: float, gpu_duty: float) -> GovernorMemory:
    """Both controllers of heat after this reading."""
    what, memory = judge.what, judge.memory
    reading, settings = what.reading, what.settings
    at = what.now if reading.read_at is None else min(reading.read_at, what.now)
    warm = bool(reading.throttled) or reading.thermal_state in ("fair", "serious", "critical")
    upper = duty * (THROTTLED_DUTY if warm else 1.0)
    cpu = heat.control(memory.cpu_heat, reading.temperature_celsius, settings.heat_target_cpu_celsius, upper, at)
    hot = {cause.gpu for cause in judge.causes if cause.reason.code is ReasonCode.GPU_TOO_HOT}
    usable = _usable(what)
    cards = [gpu for place, gpu in usable if place not in hot] or [gpu for _, gpu in usable]
    hottest = max((gpu.temperature_celsius for gpu in cards if gpu.temperature_celsius is not None), default=None)
    upper = gpu_duty * (THROTTLED_DUTY if any(gpu.throttled for gpu in cards) else 1.0)
    gpu = heat.control(memory.gpu_heat, hottest, settings.heat_target_gpu_celsius, upper, at)
    return replace(memory, cpu_heat=cpu, gpu_heat=gpu)


def _slowed(judge: _Judge, key: str, ceiling: float, duty: float) -> bool:
    return judge.follow(key, Seen({}) if ceiling < SLOWED * duty else GONE, HEAT_LESS).holds


def _unreadable(what: Situation, percent: int) -> Finding:
    known = what.reading.temperature_celsius is not None or what.reading.thermal_state
    own_choice = what.settings.preset == CUSTOM or percent <= UNREADABLE_SHARE_PERCENT
    return GONE if known or own_choice else Seen({})


def _decision(what: Situation, causes: list[_Cause], work: _Work) -> Decision:
    profile = Profile.IN_USE if what.in_use_here else Profile.AWAY
    stops = [cause for cause in causes if cause.scope in (Scope.ALL, Scope.COMPUTE)]
    cards = [cause for cause in causes if cause.scope is Scope.GPU]
    blocked = {cause.gpu for cause in cards}
    gpus = tuple(f"gpu:{place}" for place, _ in _usable(what) if place not in blocked)
    hidden = {cause.gpu for cause in cards if not cause.reads_card}
    watch = not stops and any(place not in hidden for place, _ in _usable(what))
    if not stops and what.inputs.device == "gpu" and cards and not gpus:
        stops = cards
    if stops:
        network = all(cause.scope is not Scope.ALL for cause in stops)
        level = RunLevel.NETWORK_ONLY if network else RunLevel.STOPPED
        return Decision(level, 0.0, 0, _reasons(causes), _last(stops), profile=profile, watch_gpus=watch)
    reasons = (*_reasons(causes), *work.less)
    return Decision(
        level=RunLevel.REDUCED if reasons else RunLevel.FULL,
        duty=work.duty,
        threads=work.threads,
        reasons=reasons,
        devices=("cpu", *gpus),
        gpu_duty=work.gpu_duty if gpus else 0.0,
        profile=profile,
        watch_gpus=watch,
    )


def _last(causes: Iterable[_Cause]) -> float | None:
    """When the last of them ends, if that is known of all."""
    moments = [cause.until for cause in causes]
    known = [moment for moment in moments if moment is not None]
    return max(known) if len(known) == len(moments) else None


def _reasons(causes: Iterable[_Cause]) -> tuple[Reason, ...]:
    """In order of scope, each once: several graphics cards may be in one state."""
    found: dict[ReasonCode, Reason] = {}
    for cause in sorted(causes, key=lambda cause: cause.scope):
        found.setdefault(cause.reason.code, cause.reason)
    return tuple(found.values())


def _reason(code: ReasonCode, latch: Latch) -> Reason:
    return Reason(code=code, params=dict(latch.params))


def _usable(what: Situation) -> list[tuple[int, GpuReading]]:
    """The graphics cards that count, with their places; none when the work is bound to the processor."""
    if what.inputs.device == "cpu":
        return []
    return [(place, gpu) for place, gpu in enumerate(what.reading.gpus) if gpu.usable]


def _fresh(reading: Machine, now: float) -> Machine:
    """Without the temperatures and loads that are too old to say anything of this moment."""
    gpus = tuple(gpu if _recent(gpu.read_at, now) else _without_values(gpu) for gpu in reading.gpus)
    if gpus != reading.gpus:
        reading = msgspec.structs.replace(reading, gpus=gpus)
    if _recent(reading.read_at, now):
        return reading
    return msgspec.structs.replace(reading, temperature_celsius=None, foreign_cpu_percent=None, thermal_state="")


def _without_values(gpu: GpuReading) -> GpuReading:
    return msgspec.structs.replace(
        gpu, temperature_celsius=None, foreign_load_percent=None, memory_used_bytes=None, throttled=None
    )


def _recent(read_at: float | None, now: float) -> bool:
    return read_at is None or now - read_at <= STALE_SECONDS
