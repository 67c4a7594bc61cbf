"""A computer as it warms: a first-order plant with a sensor, for the controller of heat."""

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plant:
    """Warms by `rise_celsius` above the room at full duty, with a time constant."""

    rise_celsius: float = 70.0
    seconds: float = 60.0
    room_celsius: float = 22.0
    noise_celsius: float = 1.0  # of the sensor, standard deviation
    step_celsius: float = 1.0  # of the sensor


class Simulation:
    """Walks through time in steps; `celsius` is the true temperature."""

    def __init__(self, plant: Plant, seed: int, celsius: float | None = None) -> None:
        self.plant = plant
        self.room = plant.room_celsius
        self.celsius = self.room if celsius is None else celsius
        self.foreign = 0.0  # of other programs, degrees at the end
        self.now = 0.0
        self._dice = random.Random(seed)

    def walk(self, duty: float, seconds: float) -> float:
        """Pass `seconds` at `duty`; returns what the sensor says then."""
        end = self.room + self.foreign + self.plant.rise_celsius * duty
        self.celsius = end + (self.celsius - end) * math.exp(-seconds / self.plant.seconds)
        self.now += seconds
        return self.read()

    def read(self) -> float:
        """The sensor: noisy, in whole steps."""
        said = self.celsius + self._dice.gauss(0.0, self.plant.noise_celsius)
        step = self.plant.step_celsius
        return round(said / step) * step
