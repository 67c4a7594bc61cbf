"""Battery and mains."""

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from engine.hardware.answer import number

POWER_SUPPLIES: Final = Path("/sys/class/power_supply")


@dataclass(frozen=True, slots=True)
class BatteryReading:
    """Both None when there is no battery or nothing can be read."""

    on_battery: bool | None = None
    percent: float | None = None


def read_battery() -> BatteryReading:
    """The computer's own battery; those of mice and headsets do not count."""
    if platform.system() == "Linux":
        return read_power_supplies(POWER_SUPPLIES)
    return of_psutil(psutil.sensors_battery())


def of_psutil(battery: Any) -> BatteryReading:
    """From psutil's reading, which is None without a battery."""
    if battery is None:
        return BatteryReading()
    plugged = battery.power_plugged
    return BatteryReading(None if plugged is None else not plugged, number(str(battery.percent), 0, 100))


def read_power_supplies(folder: Path) -> BatteryReading:
    """From Linux's power supply class (Documentation/ABI/testing/sysfs-class-power).

    On battery means that a battery discharges and no other supply is online: some batteries report "Unknown" on mains,
    and some docks feed a laptop that still says "Discharging".
    """
    try:
        supplies = sorted(folder.iterdir())
    except OSError:
        return BatteryReading()
    discharging, online, percents = [], False, []
    for supply in supplies:
        if _text(supply / "type") != "Battery":
            online = online or _text(supply / "online") == "1"
        elif _text(supply / "scope") != "Device" and _text(supply / "present") != "0":
            discharging.append(_text(supply / "status") == "Discharging")
            percent = number(_text(supply / "capacity"), 0, 100)
            percents += [] if percent is None else [percent]
    if not discharging:
        return BatteryReading()
    return BatteryReading(any(discharging) and not online, sum(percents) / len(percents) if percents else None)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
