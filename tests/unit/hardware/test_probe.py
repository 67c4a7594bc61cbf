import logging
from pathlib import Path

import psutil
import pytest

from engine.contract.snapshot import Machine
from engine.core.clock import ManualClock
from engine.hardware import cpu, memory, probe, system
from engine.hardware.gpus import GpuReader
from engine.hardware.idle import IdleReader, IdleSource
from engine.hardware.probe import IDLE_SECONDS_BETWEEN, Prober

NOW = 1_700_000_000.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def prober_of(tmp_path: Path, clock: ManualClock, sources: list[IdleSource] | None = None) -> Prober:
    idle = IdleReader(sources or [], "nobody is here", clock.monotonic)
    gpus = GpuReader("", nvidia_command=["/nonexistent"], drm=tmp_path / "drm", is_mac=False)
    return Prober(tmp_path, idle=idle, gpus=gpus, monotonic=clock.monotonic)


def test_this_machine_is_read(tmp_path: Path, clock: ManualClock) -> None:
    prober = prober_of(tmp_path, clock)
    first, second = prober.read(NOW), prober.read(NOW + 1)
    assert first.read_at == NOW
    assert first.cores_logical == psutil.cpu_count()
    assert first.memory_total_bytes == psutil.virtual_memory().total
    assert first.memory_used_bytes is not None
    assert 0 < first.memory_used_bytes < psutil.virtual_memory().total
    assert first.disk_free_bytes is not None
    assert first.disk_free_bytes > 0
    assert first.cpu_name
    assert first.system.partition(",")[0]
    assert first.cpu_load_percent is None
    assert second.cpu_load_percent is not None
    assert 0 <= second.cpu_load_percent <= 100
    assert (first.idle_seconds, first.idle_source) == (None, "nobody is here")


def test_facts_are_read_once(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = cpu.read_facts

    def counted() -> cpu.CpuFacts:
        asked.append("facts")
        return real()

    monkeypatch.setattr(cpu, "read_facts", counted)
    prober = prober_of(tmp_path, clock)
    assert prober.read(NOW).cpu_name == prober.read(NOW + 1).cpu_name
    assert asked == ["facts"]


def test_whatever_fails_is_none_and_said_once(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("the sensor is on fire")

    for module, name in [
        (cpu, "read_facts"),
        (cpu, "read_load_percent"),
        (cpu, "read_frequency_hertz"),
        (memory, "read_memory"),
        (system, "system_name"),
        (probe.disk, "read_free_bytes"),
        (probe.thermal, "read_temperature"),
        (probe.battery, "read_battery"),
    ]:
        monkeypatch.setattr(module, name, broken)
    prober = prober_of(tmp_path, clock, [IdleSource("broken", broken)])  # type: ignore[arg-type]
    monkeypatch.setattr(prober._gpus, "read", broken)
    caplog.set_level(logging.INFO, "engine.hardware")
    machine = prober.read(NOW)
    assert machine == Machine(
        system="unknown system", temperature_source="cannot be read", idle_source="cannot be read", read_at=NOW
    )
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 10
    assert "cannot read the memory: RuntimeError: the sensor is on fire" in lines
    clock.advance(60)
    prober.read(NOW + 60)
    assert len(caplog.records) == 10


def test_idle_is_not_asked_more_often_than_needed(tmp_path: Path, clock: ManualClock) -> None:
    asked: list[float] = []

    def idle(now: float) -> float:
        asked.append(now)
        return 7.0

    prober = prober_of(tmp_path, clock, [IdleSource("keys", idle)])
    machine = prober.read(NOW)
    assert (machine.idle_seconds, machine.idle_source) == (7.0, "keys")
    clock.advance(IDLE_SECONDS_BETWEEN - 0.1)
    assert prober.read(NOW + 1).idle_seconds == 7.0
    assert asked == [NOW]
    clock.advance(0.1)
    prober.read(NOW + 2)
    assert asked == [NOW, NOW + 2]


def test_no_gpu_is_asked_after_closing(tmp_path: Path, clock: ManualClock) -> None:
    idle = IdleReader([], "nobody is here", clock.monotonic)
    gpus = GpuReader("Apple M2", nvidia_command=["/nonexistent"], drm=tmp_path, is_mac=True)
    prober = Prober(tmp_path, idle=idle, gpus=gpus, monotonic=clock.monotonic)
    assert [gpu.name for gpu in prober.read(NOW).gpus] == ["Apple M2 GPU"]
    prober.close()
    prober.close()
    assert prober.read(NOW).gpus == ()


def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    free = probe.disk.read_free_bytes(tmp_path / "a" / "b")
    assert free is not None
    assert free > 0


def test_a_folder_that_cannot_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert probe.disk.read_free_bytes(tmp_path / "file" / "below") is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "processor : 0\nmodel name\t: AMD Ryzen 7 5800X 8-Core Processor\n\nmodel name\t: other\n",
            "AMD Ryzen 7 5800X",
        ),
        (
            "processor : 0\nBogoMIPS : 108.00\nHardware : BCM2835\nModel : Raspberry Pi 4 Model B Rev 1.4\n",
            "Raspberry Pi 4",
        ),
        ("processor : 0\nHardware : ODROID-XU4\n", "ODROID-XU4"),
    ],
)
def test_processor_names(text: str, name: str) -> None:
    found = cpu.name_in_cpuinfo(text)
    assert found is not None
    assert found.startswith(name)


@pytest.mark.parametrize("text", ["", "processor : 0\nmodel name :\n", "garbage\x00\n"])
def test_no_processor_name(text: str) -> None:
    assert cpu.name_in_cpuinfo(text) is None


def test_trademarks_are_left_out() -> None:
    assert cpu._tidy("Intel(R)  Core(TM) i7-8550U CPU") == "Intel Core i7-8550U CPU"


def test_clock_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise FileNotFoundError("/sys/devices/system/cpu")

    monkeypatch.setattr(psutil, "cpu_freq", missing)
    assert cpu.read_frequency_hertz() is None
    monkeypatch.setattr(psutil, "cpu_freq", lambda: None)
    assert cpu.read_frequency_hertz() is None


@pytest.mark.parametrize(
    ("name", "expected"), [("Darwin", "macOS 14.5"), ("Windows", "Windows 11 (10.0.22631)"), ("Plan9", "Plan9 4")]
)
def test_names_of_systems(monkeypatch: pytest.MonkeyPatch, name: str, expected: str) -> None:
    def not_linux() -> dict[str, str]:
        raise OSError("no os-release file")

    platform = system.platform
    monkeypatch.setattr(platform, "system", lambda: name)
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(platform, "mac_ver", lambda: ("14.5", ("", "", ""), "arm64"))
    monkeypatch.setattr(platform, "release", lambda: "11" if name == "Windows" else "4")
    monkeypatch.setattr(platform, "version", lambda: "10.0.22631")
    monkeypatch.setattr(platform, "freedesktop_os_release", not_linux)
    assert system.system_name() == f"{expected}, arm64"
