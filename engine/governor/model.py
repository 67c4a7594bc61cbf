"""PURE. What the policy takes, gives and remembers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from engine.contract.reasons import Reason, ReasonCode, Scalar
from engine.governor.heat import HeatState


class RunLevel(StrEnum):
    """How much may be done, in one word."""

    FULL = "full"  # all that the user allows while away
    REDUCED = "reduced"  # it computes, but less; the reasons say why
    NETWORK_ONLY = "network_only"  # it does not compute; links stay, and the model is kept up to date
    STOPPED = "stopped"  # it neither computes nor uses the network for the project


LEVELS: Final = (RunLevel.STOPPED, RunLevel.NETWORK_ONLY, RunLevel.REDUCED, RunLevel.FULL)
"""From least to most."""


class Profile(StrEnum):
    """Whose computer it is now."""

    IN_USE = "in_use"
    AWAY = "away"


class SystemEvent(StrEnum):
    """What the operating system announced."""

    NONE = ""
    SLEEP = "sleep"
    END = "end"  # shutdown or logout


@dataclass(frozen=True, slots=True)
class UserPause:
    """The user pressed Pause."""

    until: float | None = None  # seconds since the epoch; None: until resumed


@dataclass(frozen=True, slots=True)
class Override:
    """The user wants it to work now in spite of the soft rules."""

    until: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class LocalTime:
    """The clock on the wall."""

    weekday: int  # 0 is Monday
    hour: int
    minute: int
    second: int = 0


@dataclass(frozen=True, slots=True)
class Inputs:
    """What counts beside the machine's readings and the settings."""

    pause: UserPause | None = None
    override: Override | None = None
    data_used_bytes: int | None = None  # sent and received in the last `data_cap_days`
    data_frees_at: float | None = None  # when that falls below the cap by the passing of days
    local_time: LocalTime | None = None  # without it the schedules do not hold
    started_at: float | None = None  # of the engine
    memory_used_bytes: int | None = None  # by engine and worker
    device: str = ""  # "cpu" or "gpu": what the worker computes on; "" when it can be either
    system: SystemEvent = SystemEvent.NONE
    measuring: bool = False  # the benchmark of the machine runs


@dataclass(frozen=True, slots=True)
class Decision:
    """What may be done now."""

    level: RunLevel
    duty: float  # share of the time that the processor's threads compute, 0 to 1; 0 when it does not compute
    threads: int  # of the worker; 0 when it does not compute
    reasons: tuple[Reason, ...] = ()  # all that stop or lessen it, the most pressing first; empty only when FULL
    resumes_at: float | None = None  # of a stop, seconds since the epoch; None when that depends on something outside
    devices: tuple[str, ...] = ()  # what may be computed on: "cpu", "gpu:<place in Machine.gpus>"
    gpu_duty: float = 0.0  # as `duty`, for the graphics cards in `devices`
    profile: Profile = Profile.AWAY
    overridden: tuple[Reason, ...] = ()  # what would hold without the override
    override_until: float | None = None  # None: no override holds
    memory_limit_bytes: int | None = None  # for engine and worker together
    watch_gpus: bool = False  # whether graphics cards may be read: only while one may be used but for its own state

    @property
    def computes(self) -> bool:
        """Whether any gradients are computed."""
        return self.level in (RunLevel.FULL, RunLevel.REDUCED)

    @property
    def connects(self) -> bool:
        """Whether the project may use the network."""
        return self.level is not RunLevel.STOPPED


FIRST_DECISION: Final = Decision(RunLevel.STOPPED, 0.0, 0, (Reason(code=ReasonCode.START_DELAY),))
"""Before the machine was read for the first time."""


@dataclass(frozen=True, slots=True)
class Latch:
    """One cause over time."""

    since: float | None = None  # since when it has been seen without a break, while it does not hold yet
    entered_at: float | None = None  # since when it holds; None: it does not
    seen_at: float = 0.0  # when it was last seen
    mark: float | None = None  # what the cause remembers of its beginning
    params: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether it counts now."""
        return self.entered_at is not None


@dataclass(frozen=True, slots=True)
class GovernorMemory:
    """What the next decision must know of the earlier ones."""

    latches: Mapping[str, Latch] = field(default_factory=dict)
    last_input_at: float | None = None  # of a key or mouse, seconds since the epoch
    locked_since: float | None = None
    cpu_heat: HeatState = field(default_factory=HeatState)
    gpu_heat: HeatState = field(default_factory=HeatState)
