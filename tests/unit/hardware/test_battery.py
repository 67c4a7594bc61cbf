"""Which batteries count: a matrix of computers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.hardware.battery import NO_BATTERY, BatteryReading, of_psutil, read_battery, read_power_supplies
from tests.helpers.fake_host import FakeBus, fake_host, write_tree

SUPPLIES = "sys/class/power_supply"


def battery(name: str, status: str, **more: str | int) -> dict[str, str | int]:
    files: dict[str, str | int] = {"type": "Battery", "status": status, **more}
    return {f"{SUPPLIES}/{name}/{file}": text for file, text in files.items()}


def line(name: str, online: int, kind: str = "Mains", **more: str) -> dict[str, str | int]:
    return {
        f"{SUPPLIES}/{name}/type": kind,
        f"{SUPPLIES}/{name}/online": online,
        **{f"{SUPPLIES}/{name}/{file}": text for file, text in more.items()},
    }


MOUSE = battery("hidpp_battery_0", "Discharging", scope="Device", capacity=20)
UPS = {f"{SUPPLIES}/ups/type": "UPS", f"{SUPPLIES}/ups/capacity": 97}

MATRIX: dict[str, tuple[dict[str, str | int], bool | None, float | None]] = {
    "desktop": ({}, None, None),
    "desktop with a mains line": (line("AC", 1), None, None),
    "desktop with a wireless mouse": (MOUSE, None, None),
    "desktop whose mouse is being charged": ({**MOUSE, **line("usb", 1, "USB", scope="Device")}, None, None),
    "laptop on battery": ({**battery("BAT0", "Discharging", capacity=64), **line("AC", 0)}, True, 64.0),
    "laptop on battery, wireless mouse": ({**battery("BAT0", "Discharging", capacity=64), **MOUSE}, True, 64.0),
    "laptop on mains, mouse on its own": (
        {**battery("BAT0", "Full", capacity=100), **line("AC", 1), **MOUSE},
        False,
        100.0,
    ),
    "laptop that says discharging on a dock": (
        {**battery("BAT0", "Discharging", capacity=64), **line("ucsi", 1, "USB")},
        False,
        64.0,
    ),
    "laptop on a line with a fixed voltage": (
        {**battery("BAT0", "Discharging", capacity=64), **line("ucsi", 2, "USB")},
        False,
        64.0,
    ),
    "a charging mouse does not feed the laptop": (
        {**battery("BAT0", "Discharging", capacity=64), **line("usb", 1, "USB", scope="Device")},
        True,
        64.0,
    ),
    "laptop at its charge limit": ({**battery("BAT0", "Not charging", capacity=80), **line("AC", 1)}, False, 80.0),
    "laptop of unknown status": (battery("BAT0", "Unknown", capacity=50), False, 50.0),
    "no battery fitted": ({**battery("BAT0", "Unknown", present=0), **line("AC", 1)}, None, None),
    "no battery fitted, line that says 0": ({**battery("BAT0", "Unknown", present=0), **line("AC", 0)}, None, None),
    "two batteries, one in use": (
        {**battery("BAT0", "Discharging", capacity=20), **battery("BAT1", "Not charging", capacity=80)},
        True,
        50.0,
    ),
    "UPS on mains": ({**UPS, f"{SUPPLIES}/ups/status": "Full"}, False, 97.0),
    "UPS on battery": ({**UPS, f"{SUPPLIES}/ups/status": "Discharging"}, True, 97.0),
    "UPS on battery, the desktop's line is the UPS": (
        {**UPS, f"{SUPPLIES}/ups/status": "Discharging", **line("AC", 1)},
        True,
        97.0,
    ),
}


@pytest.mark.parametrize("kind", MATRIX)
def test_computers(tmp_path: Path, kind: str) -> None:
    files, on_battery, percent = MATRIX[kind]
    reading = read_battery(fake_host(write_tree(tmp_path, files)))
    assert (reading.on_battery, reading.percent) == (on_battery, percent)
    assert (reading.source == NO_BATTERY) == (on_battery is None)


@pytest.mark.parametrize("status", ["Charging", "Full", "Not charging", "Unknown", "Discharging"])
def test_on_mains_whatever_the_battery_says(tmp_path: Path, status: str) -> None:
    write_tree(tmp_path, {**battery("BAT0", status, capacity=64), **line("AC", 1)})
    assert read_power_supplies(tmp_path / SUPPLIES) == BatteryReading(False, 64.0, "BAT0")


@pytest.mark.parametrize("capacity", ["", "many", "-3", "nan", "1e9"])
def test_nonsense_from_the_firmware(tmp_path: Path, capacity: str) -> None:
    write_tree(tmp_path, battery("BAT0", "Discharging", capacity=capacity))
    assert read_power_supplies(tmp_path / SUPPLIES) == BatteryReading(True, None, "BAT0")


@pytest.mark.parametrize(
    ("state", "on_battery"), [(1, False), (2, True), (4, False), (0, None), ("full", None), (None, None)]
)
def test_a_ups_that_only_upower_knows(tmp_path: Path, state: object, on_battery: bool | None) -> None:
    mouse, ups = "/devices/mouse", "/devices/ups"
    bus = FakeBus(
        {(mouse, "Type"): 5, (mouse, "State"): 2, (ups, "Type"): 3, (ups, "State"): state, (ups, "Percentage"): 88.0},
        {("org.freedesktop.UPower", "EnumerateDevices"): ([mouse, ups],)},
    )
    assert read_battery(fake_host(tmp_path, system_bus=bus)) == BatteryReading(on_battery, 88.0, "UPS")


def test_a_laptop_does_not_ask_upower(tmp_path: Path) -> None:
    bus = FakeBus()
    read_battery(fake_host(write_tree(tmp_path, battery("BAT0", "Full")), system_bus=bus))
    assert bus.asked == []


class Kernel32:
    """GetSystemPowerStatus of the Windows API."""

    def __init__(self, line_status: int, flag: int, percent: int, saver: int = 0, works: bool = True) -> None:
        self._values = (line_status, flag, percent, saver)
        self._works = works

    def GetSystemPowerStatus(self, reference: Any) -> int:
        status = reference._obj
        status.ACLineStatus, status.BatteryFlag, status.BatteryLifePercent, status.SystemStatusFlag = self._values
        return int(self._works)


@pytest.mark.parametrize(
    ("power", "on_battery", "percent", "source"),
    [
        (Kernel32(1, 128, 255), None, None, NO_BATTERY),  # a desktop
        (Kernel32(0, 128, 255), None, None, NO_BATTERY),  # a desktop whose line reads 0
        (Kernel32(0, 1, 80), True, 80.0, "Windows"),
        (Kernel32(1, 8, 80), False, 80.0, "Windows"),
        (Kernel32(255, 1, 80), None, 80.0, "Windows"),
        (Kernel32(255, 255, 255), None, None, "Windows does not tell"),
        (Kernel32(0, 1, 80, works=False), None, None, "Windows does not tell"),
    ],
)
def test_windows(tmp_path: Path, power: Kernel32, on_battery: bool | None, percent: float | None, source: str) -> None:
    host = fake_host(tmp_path, system="win32", load=lambda name: power)
    assert read_battery(host) == BatteryReading(on_battery, percent, source)


@pytest.mark.parametrize(
    ("plugged", "percent", "expected"),
    [
        (True, 80, (False, 80.0)),
        (False, 7, (True, 7.0)),
        (None, 50, (None, 50.0)),
        (False, 255, (True, None)),
    ],
)
def test_from_psutil(plugged: bool | None, percent: int, expected: tuple[bool | None, float | None]) -> None:
    reading = of_psutil(SimpleNamespace(power_plugged=plugged, percent=percent))
    assert (reading.on_battery, reading.percent) == expected


def test_from_psutil_without_battery() -> None:
    assert of_psutil(None) == BatteryReading(None, None, NO_BATTERY)
