from pathlib import Path
from typing import Any

import pytest

from engine.hardware.thermal import HeatReading, Sensor, ThrottleReader, pick, read_temperature
from tests.helpers.fake_host import fake_host, write_tree
from tests.helpers.fake_macos import ProcessInfoLibrary


def test_the_package_sensor_is_taken_not_a_hotter_core() -> None:
    sensors = [Sensor("coretemp", "Core 0", 70.0), Sensor("coretemp", "Package id 0", 61.0), Sensor("nvme", "", 80.0)]
    assert pick(sensors) == Sensor("coretemp", "Package id 0", 61.0)


def test_the_hotter_of_two_processors() -> None:
    hotter = Sensor("coretemp", "Package id 1", 58.0)
    assert pick([Sensor("coretemp", "Package id 0", 50.0), hotter]) == hotter


def test_the_die_and_not_the_control_value() -> None:
    die = Sensor("k10temp", "Tdie", 58.0)
    assert pick([Sensor("k10temp", "Tctl", 85.0), die, Sensor("k10temp", "Tccd1", 60.0)]) == die


def test_the_boards_sensor_comes_last() -> None:
    board, own = Sensor("acpitz", "", 27.8), Sensor("k10temp", "Tctl", 44.0)
    assert pick([board, own]) == own
    assert pick([board]) == board


@pytest.mark.parametrize("celsius", [0.0, -40.0, 200.0])
def test_broken_sensors_are_passed_over(celsius: float) -> None:
    broken = Sensor("coretemp", "Package id 0", celsius)
    assert pick([broken, Sensor("acpitz", "", 40.0)]) == Sensor("acpitz", "", 40.0)
    assert pick([broken]) is None


def test_files_of_the_kernel(tmp_path: Path) -> None:
    write_tree(
        tmp_path / "sys/class/hwmon",
        {
            "hwmon0/name": "nvme",
            "hwmon0/temp1_input": 60000,
            "hwmon1/name": "coretemp",
            "hwmon1/temp1_input": 61000,
            "hwmon1/temp1_label": "Package id 0",
            "hwmon1/temp1_crit": 100000,
            "hwmon1/temp2_input": 66000,
            "hwmon1/temp2_label": "Core 0",
        },
    )
    assert read_temperature(fake_host(tmp_path)) == HeatReading(61.0, 100.0, "coretemp Package id 0")


def test_a_board_with_thermal_zones_only(tmp_path: Path) -> None:
    zone = "sys/class/thermal/thermal_zone0"
    write_tree(tmp_path, {f"{zone}/type": "cpu-thermal", f"{zone}/temp": 48312})
    assert read_temperature(fake_host(tmp_path)) == HeatReading(48.312, None, "cpu-thermal")


@pytest.mark.parametrize("text", ["", "hot", "nan", "999999999"])
def test_nonsense_in_a_file(tmp_path: Path, text: str) -> None:
    write_tree(tmp_path / "sys/class/hwmon", {"hwmon0/name": "k10temp", "hwmon0/temp1_input": text})
    assert read_temperature(fake_host(tmp_path)).celsius is None


def test_a_sleeping_cards_sensor_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(
        tmp_path / "sys/class/hwmon",
        {"hwmon0/name": "amdgpu", "hwmon0/temp1_input": 50000, "hwmon0/fan1_input": 900, "hwmon1/name": "k10temp"},
    )
    read: list[str] = []
    real = Path.read_text

    def noted(file: Path, *args: Any, **keywords: Any) -> str:
        read.append(file.name)
        return real(file, *args, **keywords)

    monkeypatch.setattr(Path, "read_text", noted)
    read_temperature(fake_host(tmp_path))
    assert set(read) == {"name"}


@pytest.mark.parametrize(
    ("system", "source"),
    [("win32", "Windows shows it only to administrators"), ("darwin", "macOS does not tell")],
)
def test_systems_that_show_none(tmp_path: Path, system: str, source: str) -> None:
    assert read_temperature(fake_host(tmp_path, system=system)) == HeatReading(None, None, source)


@pytest.mark.parametrize(
    ("state", "word", "throttled"),
    [(0, "nominal", False), (1, "fair", False), (2, "serious", True), (3, "critical", True), (9, "", None)],
)
def test_macos_has_words_for_it(tmp_path: Path, state: int, word: str, throttled: bool | None) -> None:
    host = fake_host(tmp_path, system="darwin", load=ProcessInfoLibrary(thermal_state=state))
    assert read_temperature(host).state == word
    assert ThrottleReader(host).read().value is throttled


COUNTS = "sys/devices/system/cpu/cpu0/thermal_throttle"


def test_throttle_counters(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"{COUNTS}/core_throttle_count": 4, f"{COUNTS}/package_throttle_count": 9})
    reader = ThrottleReader(fake_host(tmp_path))
    assert reader.read().value is None
    assert reader.read().value is False
    write_tree(tmp_path, {f"{COUNTS}/package_throttle_count": 10})
    assert reader.read().value is True
    assert reader.read().value is False


def test_cooling_by_slowing_down(tmp_path: Path) -> None:
    device = "sys/class/thermal/cooling_device0"
    write_tree(tmp_path, {f"{device}/type": "cpufreq-cpu0", f"{device}/cur_state": 0})
    reader = ThrottleReader(fake_host(tmp_path))
    assert reader.read().value is False
    write_tree(tmp_path, {f"{device}/cur_state": 2})
    assert reader.read().value is True


def test_a_fan_that_turns_does_not_slow_the_processor(tmp_path: Path) -> None:
    device = "sys/class/thermal/cooling_device0"
    write_tree(tmp_path, {f"{device}/type": "Fan", f"{device}/cur_state": 3})
    assert ThrottleReader(fake_host(tmp_path)).read().value is None


def test_throttling_elsewhere(tmp_path: Path) -> None:
    assert ThrottleReader(fake_host(tmp_path, system="win32")).read().value is None
