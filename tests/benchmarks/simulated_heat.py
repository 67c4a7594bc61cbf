"""The controller of heat on simulated computers: a first-order plant with a noisy sensor, and a day that gets hot."""

from dataclasses import dataclass
from typing import Final

from engine.governor.heat import HeatState, control
from engine.governor.rules import HOT_CPU_CELSIUS
from tests.helpers.thermal_plant import Plant, Simulation

TARGET_CELSIUS: Final = 80.0
STEP_SECONDS: Final = 2.0
SETTLED_SECONDS: Final = 600.0
RUN_SECONDS: Final = 3 * 3600.0
HOT_DAY_CELSIUS: Final = 15.0
PLANTS: Final = tuple(
    Plant(rise_celsius=rise, seconds=seconds) for rise in (65.0, 75.0, 90.0) for seconds in (20.0, 60.0, 240.0)
)


@dataclass(frozen=True, slots=True)
class Heated:
    """Over all plants and seeds."""

    worst_mean_error_celsius: float  # of the true temperature, mean over ten minutes, after settling
    worst_celsius: float  # the hottest true temperature at any time
    hard_stop_celsius: float = HOT_CPU_CELSIUS


def heat_up(seeds: int) -> Heated:
    """Every plant for three hours, the room warming by HOT_DAY_CELSIUS in the second."""
    errors, hottest = [], 0.0
    for plant in PLANTS:
        for seed in range(seeds):
            mean_errors, peak = _run(plant, seed)
            errors += mean_errors
            hottest = max(hottest, peak)
    return Heated(max(errors), hottest)


def _run(plant: Plant, seed: int) -> tuple[list[float], float]:
    simulation, state = Simulation(plant, seed), HeatState()
    said, peak = simulation.read(), 0.0
    window: list[float] = []
    means = []
    while simulation.now < RUN_SECONDS:
        warmed = min(1.0, max(0.0, simulation.now / 3600.0 - 1.0))
        simulation.room = plant.room_celsius + HOT_DAY_CELSIUS * warmed
        state = control(state, said, TARGET_CELSIUS, 1.0, simulation.now)
        said = simulation.walk(state.ceiling, STEP_SECONDS)
        peak = max(peak, simulation.celsius)
        window.append(simulation.celsius)
        if len(window) * STEP_SECONDS >= SETTLED_SECONDS:
            if simulation.now > SETTLED_SECONDS + STEP_SECONDS:
                means.append(abs(sum(window) / len(window) - TARGET_CELSIUS))
            window = []
    return means, peak
