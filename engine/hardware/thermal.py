"""The processor's temperature, and whether it is slowed down for it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.hardware.answer import Answer
from engine.hardware.host import Host
from engine.hardware.macos_process_info import thermal_state
from engine.hardware.sysfs import entries_of, number_of, text_of

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
the board and comes last. Only these are read: to read a sleeping graphics card's sensors wakes it on many kernels.
"""


@dataclass(frozen=True, slots=True)
class Sensor:
    """One of a chip's sensors, in degrees Celsius."""

    chip: str
    label: str
    celsius: float
    critical_celsius: float | None = None


@dataclass(frozen=True, slots=True)
class HeatReading:
    """`state` is one of macOS's words where there is no temperature, else ""."""

    celsius: float | None
    critical_celsius: float | None
    source: str
    state: str = ""


def read_temperature(host: Host) -> HeatReading:
    """The processor's own sensor."""
    if host.is_windows:
        return HeatReading(None, None, "Windows shows it only to administrators")
    if host.is_mac:
        state = thermal_state(host.load)
        return HeatReading(None, None, "macOS tells a state, no temperature" if state else "macOS does not tell", state)
    found = pick([*_hwmon(host.root), *_thermal_zones(host.root)])
    if found is None:
        return HeatReading(None, None, "no sensor of the processor can be read")
    return HeatReading(found.celsius, found.critical_celsius, f"{found.chip} {found.label}".strip())


def pick(sensors: list[Sensor]) -> Sensor | None:
    """The processor's own sensor among all of the computer's; the hottest where there are several processors."""
    for chip, labels in _CHIPS:
        plausible = [s for s in sensors if s.chip == chip and MIN_CELSIUS <= s.celsius <= MAX_CELSIUS]
        for label in labels:
            if best := [sensor for sensor in plausible if sensor.label.lower().startswith(label)]:
                plausible = best
                break
        if plausible:
            return max(plausible, key=lambda sensor: sensor.celsius)
    return None


def _hwmon(root: Path) -> Iterator[Sensor]:
    known = {chip for chip, _ in _CHIPS}
    for chip in entries_of(root / "sys/class/hwmon"):
        name = text_of(chip / "name")
        if name not in known:
            continue
        for file in sorted(chip.glob("temp*_input")):
            if (celsius := _celsius(file)) is not None:
                stem = file.name.removesuffix("_input")
                yield Sensor(name, text_of(chip / f"{stem}_label"), celsius, _plausible(chip / f"{stem}_crit"))


def _thermal_zones(root: Path) -> Iterator[Sensor]:
    for zone in sorted((root / "sys/class/thermal").glob("thermal_zone*")):
        kind = text_of(zone / "type")
        if kind in {chip for chip, _ in _CHIPS} and (celsius := _celsius(zone / "temp")) is not None:
            yield Sensor(kind, "", celsius)


def _celsius(file: Path) -> float | None:
    value = number_of(file, -300_000, 1_000_000)
    return None if value is None else value / 1000


def _plausible(file: Path) -> float | None:
    celsius = _celsius(file)
    return celsius if celsius is not None and 50 <= celsius <= MAX_CELSIUS else None


class ThrottleReader:
    """Remembers Intel's counters from one reading to the next."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._count: float | None = None

    def read(self) -> Answer[bool]:
        """Whether heat slowed the processor since the last reading; the first reading of counters tells nothing."""
        if self._host.is_mac:
            state = thermal_state(self._host.load)
            return Answer(state in ("serious", "critical") if state else None, "macOS thermal state")
        if not self._host.is_linux:
            return Answer(None, "this system does not tell")
        cooling = _cooling(self._host.root)
        count, before = _throttle_count(self._host.root), self._count
        self._count = count
        if cooling:
            return Answer(True, "cooling device")
        if count is not None and before is not None:
            return Answer(count > before, "throttle counters")
        return Answer(cooling, "cooling device" if cooling is not None else "this processor does not tell")


def _throttle_count(root: Path) -> float | None:
    """Intel, all cores together (Documentation/admin-guide/thermal)."""
    cpus = root / "sys/devices/system/cpu"
    counts = [number_of(file, 0, 2**63) for file in cpus.glob("cpu[0-9]*/thermal_throttle/*_throttle_count")]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _cooling(root: Path) -> bool | None:
    """Whether the kernel cools by slowing the processor (Documentation/driver-api/thermal/sysfs-api)."""
    states = [
        number_of(device / "cur_state", 0, 1e6)
        for device in (root / "sys/class/thermal").glob("cooling_device*")
        if (kind := text_of(device / "type")) == "Processor" or "cpufreq" in kind
    ]
    known = [state for state in states if state is not None]
    return any(state > 0 for state in known) if known else None
