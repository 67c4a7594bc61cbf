"""PURE. Holds a temperature by limiting how much of the time is computed.

A proportional-integral controller (K. J. Åström and T. Hägglund, "PID Controllers", 2nd ed., 1995, chapter 3) on a
filtered temperature, with the integral kept within what the output can use (anti-windup, section 3.5). Its proportional
part is bounded, so that a cold computer is not slowed down, and begins before the target is reached, so that a computer
that warms up quickly does not run past it.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

GAIN_PER_CELSIUS: Final = 0.03
INTEGRAL_SECONDS: Final = 90.0
BAND_CELSIUS: Final = 15.0
"""Further below the target the temperature limits nothing."""

FILTER_SECONDS: Final = 3.0
MIN_DUTY: Final = 0.05
"""The controller does not go below; what is hotter still is the hard stop's business."""

MAX_STEP_SECONDS: Final = 10.0
SILENT_SECONDS: Final = 300.0
"""How long the last ceiling holds when the temperature can no longer be read."""

PLAUSIBLE_CELSIUS: Final = (-40.0, 150.0)
"""A sensor that says something else is broken."""


@dataclass(frozen=True, slots=True)
class HeatState:
    """What the controller remembers."""

    ceiling: float = 1.0  # of the duty, MIN_DUTY to 1
    integral: float = 1.0
    celsius: float | None = None  # filtered
    at: float = 0.0  # of the latest reading


def plausible(celsius: float | None) -> float | None:
    """The temperature, or None when it cannot be one."""
    if celsius is None or not math.isfinite(celsius):
        return None
    low, high = PLAUSIBLE_CELSIUS
    return celsius if low <= celsius <= high else None


def control(state: HeatState, celsius: float | None, target_celsius: float, upper: float, at: float) -> HeatState:
    """The state after a reading that was made `at`.

    Its `ceiling` is at most `upper` (0 to 1), the duty that all else allows. A reading that is not newer than the last
    changes nothing. Without a temperature the ceiling stays for SILENT_SECONDS and then limits nothing.
    """
    upper = max(MIN_DUTY, min(1.0, upper))
    celsius = plausible(celsius)
    if at < state.at:  # the system's clock was set back
        state = replace(state, at=at)
    if celsius is None:
        silent = state.celsius is not None and at - state.at < SILENT_SECONDS
        return state if silent else HeatState(ceiling=upper, integral=upper, at=state.at)
    if state.celsius is None:
        return _output(celsius, upper, target_celsius, upper, at)
    seconds = min(at - state.at, MAX_STEP_SECONDS)
    if seconds <= 0:
        return state
    filtered = state.celsius + (celsius - state.celsius) * (1 - math.exp(-seconds / FILTER_SECONDS))
    integral = state.integral + GAIN_PER_CELSIUS * (target_celsius - filtered) * seconds / INTEGRAL_SECONDS
    return _output(filtered, integral, target_celsius, upper, at)


def _output(celsius: float, integral: float, target_celsius: float, upper: float, at: float) -> HeatState:
    error = max(-BAND_CELSIUS, min(BAND_CELSIUS, target_celsius - celsius))
    proportional = GAIN_PER_CELSIUS * error
    integral = max(MIN_DUTY - proportional, min(upper - proportional, integral))
    return HeatState(proportional + integral, integral, celsius, at)
