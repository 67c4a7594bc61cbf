"""PURE. How long it would have worked with other settings, from the readings that were stored."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import msgspec

from engine.contract.presets import CUSTOM
from engine.contract.snapshot import GpuReading, Machine, ReadingInfo, Settings
from engine.governor.model import GovernorMemory, Inputs, LocalTime
from engine.governor.policy import decide

MAX_READING_SECONDS: Final = 150.0
"""A reading speaks for the time until the next one, but not for longer: one is stored a minute."""


@dataclass(frozen=True, slots=True)
class Worked:
    """What the readings say."""

    known_seconds: float  # for which there are readings
    worked_seconds: float  # of them, how long it would have computed


def would_have_worked(
    readings: Iterable[ReadingInfo], settings: Settings, local_time: Callable[[float], LocalTime]
) -> Worked:
    """Run the policy over `readings` (in order of time) with `settings`, and add up.

    What the settings themselves would have changed (heat, disk, memory, data) and programs that were not named then are
    left out: they cannot be known. `local_time` tells the clock on the wall at a moment, seconds since the epoch.
    """
    plain = msgspec.structs.replace(settings, preset=CUSTOM, start_delay_seconds=0)
    memory = GovernorMemory()
    known = worked = 0.0
    for reading, following in pairwise((*readings, None)):
        if reading is None:
            continue
        seconds = MAX_READING_SECONDS / 2 if following is None else following.at - reading.at
        seconds = max(0.0, min(seconds, MAX_READING_SECONDS))
        inputs = Inputs(local_time=local_time(reading.at))
        decision, memory = decide(_machine(reading), plain, inputs, reading.at, memory)
        known += seconds
        worked += seconds * decision.computes
    return Worked(known, worked)


def _machine(reading: ReadingInfo) -> Machine:
    return Machine(
        on_battery=reading.on_battery,
        idle_seconds=reading.idle_seconds,
        session_locked=reading.session_locked,
        foreign_cpu_percent=reading.foreign_cpu_percent,
        full_screen=reading.full_screen,
        energy_saver=reading.energy_saver,
        metered=reading.metered,
        gpus=() if reading.foreign_gpu_percent is None else (GpuReading(name="", usable=True),),
    )
