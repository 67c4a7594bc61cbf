import datetime
from pathlib import Path

import pytest

from engine.hardware.fan import read_fan
from engine.hardware.power import LONGEST_GAP_SECONDS, EnergyToday, PowerReading, RaplReader
from tests.helpers.fake_host import fake_host, write_tree

RANGE = 262_143_328_850


def counters(root: Path, package: int, dram: int | None = None, psys: int | None = None) -> None:
    files: dict[str, str | int] = {
        "intel-rapl:0/name": "package-0",
        "intel-rapl:0/energy_uj": package,
        "intel-rapl:0/max_energy_range_uj": RANGE,
        "intel-rapl:0:0/name": "core",
        "intel-rapl:0:0/energy_uj": 999,
    }
    for number, name, value in ((1, "dram", dram), (2, "psys", psys)):
        if value is not None:
            files[f"intel-rapl:0:{number}/name"] = name
            files[f"intel-rapl:0:{number}/energy_uj"] = value
            files[f"intel-rapl:0:{number}/max_energy_range_uj"] = RANGE
    write_tree(root / "sys/class/powercap", files)


def test_watts_of_processor_and_memory(tmp_path: Path) -> None:
    reader = RaplReader(fake_host(tmp_path))
    counters(tmp_path, 1_000_000, dram=500_000, psys=7)
    assert reader.read(10.0) == PowerReading(None, None, "processor")
    counters(tmp_path, 31_000_000, dram=10_500_000, psys=900_000_000)
    assert reader.read(12.0) == PowerReading(20.0, 40.0, "processor")


def test_a_counter_that_wraps(tmp_path: Path) -> None:
    reader = RaplReader(fake_host(tmp_path))
    counters(tmp_path, RANGE - 1_000_000)
    reader.read(10.0)
    counters(tmp_path, 3_000_000)
    assert reader.read(11.0).joules == pytest.approx(4.0)


def test_a_gap_is_not_counted(tmp_path: Path) -> None:
    reader = RaplReader(fake_host(tmp_path))
    counters(tmp_path, 0)
    reader.read(10.0)
    counters(tmp_path, 10_000_000)
    assert reader.read(11.0 + LONGEST_GAP_SECONDS).watts is None
    counters(tmp_path, 20_000_000)
    assert reader.read(12.0 + LONGEST_GAP_SECONDS).watts == pytest.approx(10.0)


def test_a_counter_that_jumps_is_not_believed(tmp_path: Path) -> None:
    reader = RaplReader(fake_host(tmp_path))
    counters(tmp_path, 0)
    reader.read(10.0)
    counters(tmp_path, 100_000_000_000)
    assert reader.read(11.0).watts is None


def test_a_counter_that_only_administrators_may_read(tmp_path: Path) -> None:
    counters(tmp_path, 5)
    energy = tmp_path / "sys/class/powercap/intel-rapl:0/energy_uj"
    energy.unlink()
    energy.mkdir()  # whoever runs the tests may read every file, but no folder as a file
    assert RaplReader(fake_host(tmp_path)).read(1.0) == PowerReading(
        None, None, "Linux shows it only to administrators"
    )


def test_no_counter(tmp_path: Path) -> None:
    assert RaplReader(fake_host(tmp_path)).read(1.0).source == "this processor does not tell"
    assert RaplReader(fake_host(tmp_path, system="win32")).read(1.0).watts is None


def local(day: int, hour: int) -> float:
    return datetime.datetime(2025, 3, day, hour).astimezone().timestamp()


def test_energy_of_a_day() -> None:
    energy = EnergyToday()
    assert energy.kilowatt_hours(local(4, 10)) is None
    energy.add(1.8e6, local(4, 10))
    energy.add(1.8e6, local(4, 23))
    assert energy.kilowatt_hours(local(4, 23)) == pytest.approx(1.0)
    assert energy.kilowatt_hours(local(5, 0)) is None
    energy.add(3.6e5, local(5, 1))
    assert energy.kilowatt_hours(local(5, 1)) == pytest.approx(0.1)


def test_a_day_that_goes_on_after_a_restart() -> None:
    energy = EnergyToday("2025-03-04", 0.25)
    energy.add(3.6e6, local(4, 12))
    assert energy.kilowatt_hours(local(4, 12)) == pytest.approx(1.25)


def test_fans(tmp_path: Path) -> None:
    assert read_fan(fake_host(tmp_path)).value is None
    write_tree(
        tmp_path / "sys/class/hwmon",
        {
            "hwmon0/name": "thinkpad",
            "hwmon0/fan1_input": 2400,
            "hwmon0/fan2_input": 3100,
            "hwmon1/name": "amdgpu",
            "hwmon1/fan1_input": 9000,
            "hwmon2/name": "nct6775",
            "hwmon2/fan1_input": "65535",
        },
    )
    assert read_fan(fake_host(tmp_path)).value == 3100
    assert read_fan(fake_host(tmp_path, system="darwin")).value is None
