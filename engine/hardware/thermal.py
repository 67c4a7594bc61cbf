"""The processor's temperature."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import psutil

from engine.hardware.answer import Answer

MIN_CELSIUS: Final = 1.0
MAX_CELSIUS: Final = 149.0
"""Beyond these a sensor is broken or not connected; many say 0 when they cannot read."""

_CHIPS: Final = (
    ("coretemp", ("package id",)),
    ("k10temp", ("tdie", "tctl")),
    ("zenpower", ("tdie", "tctl")),
    ("cpu_thermal", ()),
    ("cpu-thermal", ()),
    ("soc_thermal", ()),
    ("x86_pkg_temp", ()),
    ("k8temp", ()),
    ("via_cputemp", ()),
    ("thinkpad", ("cpu",)),
    ("dell_smm", ("cpu",)),
    ("acpitz", ()),
)
"""Linux sensor chips, the most trustworthy first, each with the labels of its best sensor.

`Tctl` of some AMD processors lies up to 27 degrees above `Tdie`, so Tdie is asked first. `acpitz` may sit anywhere on
the board and comes last.
"""


class Sensor(Protocol):
    """As psutil reads it."""

    @property
    def label(self) -> str: ...

    @property
    def current(self) -> float: ...


def read_temperature() -> Answer[float]:
    """In degrees Celsius, with the sensor's name."""
    read: Callable[[], Mapping[str, Sequence[Sensor]]] | None = getattr(psutil, "sensors_temperatures", None)
    if read is None:
        system = {"win32": "Windows", "darwin": "macOS"}.get(sys.platform, "this system")
        return Answer(None, f"{system} shows it only to administrators")
    return pick(read())


def pick(sensors: Mapping[str, Sequence[Sensor]]) -> Answer[float]:
    """The processor's own sensor among all of the computer's; the hottest where there are several processors."""
    for chip, labels in _CHIPS:
        plausible = [sensor for sensor in sensors.get(chip, ()) if MIN_CELSIUS <= sensor.current <= MAX_CELSIUS]
        for label in labels:
            if best := [sensor for sensor in plausible if sensor.label.lower().startswith(label)]:
                plausible = best
                break
        if plausible:
            hottest = max(plausible, key=lambda sensor: sensor.current)
            return Answer(float(hottest.current), f"{chip} {hottest.label}".strip())
    return Answer(None, "no sensor of the processor can be read")
