import math
from types import SimpleNamespace

import psutil
import pytest

from engine.hardware.thermal import pick, read_temperature


def sensor(current: float, label: str = "") -> SimpleNamespace:
    return SimpleNamespace(label=label, current=current)


def test_the_package_sensor_is_taken_not_a_hotter_core() -> None:
    sensors = {"coretemp": [sensor(61.0, "Package id 0"), sensor(70.0, "Core 0")], "nvme": [sensor(80.0, "Composite")]}
    answer = pick(sensors)
    assert (answer.value, answer.source) == (61.0, "coretemp Package id 0")


def test_the_hotter_of_two_processors() -> None:
    answer = pick({"coretemp": [sensor(50.0, "Package id 0"), sensor(58.0, "Package id 1")]})
    assert (answer.value, answer.source) == (58.0, "coretemp Package id 1")


def test_the_die_and_not_the_control_value() -> None:
    answer = pick({"k10temp": [sensor(85.0, "Tctl"), sensor(58.0, "Tdie"), sensor(60.0, "Tccd1")]})
    assert (answer.value, answer.source) == (58.0, "k10temp Tdie")


def test_a_chip_without_labels() -> None:
    answer = pick({"cpu_thermal": [sensor(48.3)]})
    assert (answer.value, answer.source) == (48.3, "cpu_thermal")


def test_the_boards_sensor_comes_last() -> None:
    assert pick({"acpitz": [sensor(27.8)], "k10temp": [sensor(44.0, "Tctl")]}).value == 44.0
    assert pick({"acpitz": [sensor(27.8)]}).value == 27.8


@pytest.mark.parametrize("current", [0.0, -40.0, 200.0, math.nan])
def test_broken_sensors_are_passed_over(current: float) -> None:
    sensors = {"coretemp": [sensor(current, "Package id 0")], "acpitz": [sensor(40.0)]}
    assert pick(sensors).source == "acpitz"
    assert pick({"coretemp": [sensor(current, "Package id 0")]}).value is None


@pytest.mark.parametrize("sensors", [{}, {"nvme": [sensor(40.0)], "iwlwifi_1": [sensor(50.0)]}])
def test_no_sensor_of_the_processor(sensors: dict[str, list[SimpleNamespace]]) -> None:
    answer = pick(sensors)
    assert answer.value is None
    assert answer.source == "no sensor of the processor can be read"


def test_a_system_that_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(psutil, "sensors_temperatures", raising=False)
    monkeypatch.setattr("sys.platform", "win32")
    answer = read_temperature()
    assert (answer.value, answer.source) == (None, "Windows shows it only to administrators")


def test_this_computers_sensors_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: {"coretemp": [sensor(55.0)]}, raising=False)
    assert read_temperature().value == 55.0
