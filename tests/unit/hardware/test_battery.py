from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.hardware.battery import BatteryReading, of_psutil, read_power_supplies


def supply(folder: Path, name: str, **files: str) -> None:
    (folder / name).mkdir(parents=True)
    for file, text in files.items():
        (folder / name / file).write_text(text + "\n")


def test_on_battery(tmp_path: Path) -> None:
    supply(tmp_path, "BAT0", type="Battery", status="Discharging", capacity="64")
    supply(tmp_path, "AC", type="Mains", online="0")
    assert read_power_supplies(tmp_path) == BatteryReading(True, 64.0)


@pytest.mark.parametrize("status", ["Charging", "Full", "Not charging", "Unknown", "Discharging"])
def test_on_mains_whatever_the_battery_says(tmp_path: Path, status: str) -> None:
    supply(tmp_path, "BAT0", type="Battery", status=status, capacity="64")
    supply(tmp_path, "AC", type="Mains", online="1")
    assert read_power_supplies(tmp_path) == BatteryReading(False, 64.0)


def test_fed_over_usb(tmp_path: Path) -> None:
    supply(tmp_path, "BAT0", type="Battery", status="Discharging", capacity="64")
    supply(tmp_path, "ucsi-1", type="USB", online="1")
    assert read_power_supplies(tmp_path).on_battery is False


def test_a_mouses_battery_is_not_the_computers(tmp_path: Path) -> None:
    supply(tmp_path, "hidpp_battery_0", type="Battery", scope="Device", status="Discharging", capacity="20")
    assert read_power_supplies(tmp_path) == BatteryReading(None, None)


def test_a_bay_without_a_battery(tmp_path: Path) -> None:
    supply(tmp_path, "BAT0", type="Battery", present="0", status="Unknown")
    supply(tmp_path, "AC", type="Mains", online="1")
    assert read_power_supplies(tmp_path) == BatteryReading(None, None)


def test_two_batteries(tmp_path: Path) -> None:
    supply(tmp_path, "BAT0", type="Battery", status="Discharging", capacity="20")
    supply(tmp_path, "BAT1", type="Battery", status="Not charging", capacity="80")
    assert read_power_supplies(tmp_path) == BatteryReading(True, 50.0)


@pytest.mark.parametrize("capacity", ["", "many", "-3", "nan", "1e9"])
def test_nonsense_from_the_firmware(tmp_path: Path, capacity: str) -> None:
    supply(tmp_path, "BAT0", type="Battery", status="Discharging", capacity=capacity)
    assert read_power_supplies(tmp_path) == BatteryReading(True, None)


def test_no_such_folder(tmp_path: Path) -> None:
    assert read_power_supplies(tmp_path / "none") == BatteryReading(None, None)


@pytest.mark.parametrize(
    ("plugged", "percent", "expected"),
    [
        (True, 80, BatteryReading(False, 80.0)),
        (False, 7, BatteryReading(True, 7.0)),
        (None, 50, BatteryReading(None, 50.0)),
        (False, 255, BatteryReading(True, None)),
    ],
)
def test_from_psutil(plugged: bool | None, percent: int, expected: BatteryReading) -> None:
    assert of_psutil(SimpleNamespace(power_plugged=plugged, percent=percent)) == expected


def test_from_psutil_without_battery() -> None:
    assert of_psutil(None) == BatteryReading(None, None)
