"""Battery and mains."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from engine.hardware.answer import number
from engine.hardware.host import AnyBus, Host
from engine.hardware.sysfs import entries_of, number_of, text_of
from engine.hardware.windows_power import WindowsPower, read_windows_power

NO_BATTERY: Final = "no battery fitted"

_UPOWER: Final = "org.freedesktop.UPower"
_UPOWER_DEVICE: Final = "org.freedesktop.UPower.Device"
_UPOWER_UPS: Final = 3  # Type
_UPOWER_DISCHARGING: Final = 2  # State
_MAX_DEVICES: Final = 32


@dataclass(frozen=True, slots=True)
class BatteryReading:
    """Without a battery, and where nothing can be read, `on_battery` is None and `source` says which."""

    on_battery: bool | None = None
    percent: float | None = None
    source: str = NO_BATTERY


def read_battery(host: Host) -> BatteryReading:
    """The computer's own battery, or the UPS it hangs on; those of mice and headsets do not count."""
    if host.is_windows:
        return of_windows(read_windows_power(host.load))
    if not host.is_linux:
        return of_psutil(psutil.sensors_battery())
    found = read_power_supplies(host.root / "sys/class/power_supply")
    return read_ups(host.system_bus) if found.source == NO_BATTERY else found


def of_psutil(battery: Any) -> BatteryReading:
    """From psutil's reading, which is None without a battery."""
    if battery is None:
        return BatteryReading()
    plugged = battery.power_plugged
    return BatteryReading(
        None if plugged is None else not plugged, number(str(battery.percent), 0, 100), "the system's battery"
    )


def of_windows(power: WindowsPower | None) -> BatteryReading:
    """A UPS that reports itself over USB is a battery to Windows."""
    if power is None or power.battery_fitted is None:
        return BatteryReading(source="Windows does not tell")
    if not power.battery_fitted:
        return BatteryReading()
    return BatteryReading(None if power.on_mains is None else not power.on_mains, power.percent, "Windows")


def read_power_supplies(folder: Path) -> BatteryReading:
    """From Linux's power supply class (Documentation/ABI/testing/sysfs-class-power).

    On battery means that a battery discharges and no other supply is online: some batteries report "Unknown" on mains,
    and some docks feed a laptop that still says "Discharging". A discharging UPS is the same: its own line is its sign.
    """
    discharging, online, percents, names = [], False, [], []
    for supply in entries_of(folder):
        kind = text_of(supply / "type")
        if text_of(supply / "scope") == "Device" or text_of(supply / "present") == "0":
            continue  # a mouse's or a headset's; or an empty bay
        if kind not in ("Battery", "UPS"):
            online = online or text_of(supply / "online") in ("1", "2")  # 2: with a fixed voltage
            continue
        names.append("UPS" if kind == "UPS" else supply.name)
        discharging.append(text_of(supply / "status") == "Discharging")
        percent = number_of(supply / "capacity", 0, 100)
        percents += [] if percent is None else [percent]
    if not discharging:
        return BatteryReading()
    percent = sum(percents) / len(percents) if percents else None
    on_ups = any(is_empty for name, is_empty in zip(names, discharging, strict=True) if name == "UPS")
    return BatteryReading(on_ups or (any(discharging) and not online), percent, ", ".join(names))


def read_ups(bus: AnyBus) -> BatteryReading:
    """A UPS on USB, which the kernel does not list but UPower does (upower.freedesktop.org)."""
    found = bus.call(_UPOWER, "/org/freedesktop/UPower", _UPOWER, "EnumerateDevices")
    paths = found[0] if len(found) == 1 and isinstance(found[0], list) else []
    for path in paths[:_MAX_DEVICES]:
        if bus.get(_UPOWER, path, _UPOWER_DEVICE, "Type") != _UPOWER_UPS:
            continue
        state = bus.get(_UPOWER, path, _UPOWER_DEVICE, "State")
        percent = number(str(bus.get(_UPOWER, path, _UPOWER_DEVICE, "Percentage")), 0, 100)
        on_battery = state == _UPOWER_DISCHARGING if isinstance(state, int) and state > 0 else None
        return BatteryReading(on_battery, percent, "UPS")
    return BatteryReading()
