import logging
import os
import threading
from pathlib import Path

import msgspec
import psutil
import pytest

from engine.contract.snapshot import Machine
from engine.core.clock import ManualClock
from engine.hardware import cpu, memory, probe, system
from engine.hardware.gpus import GpuReader
from engine.hardware.idle import IdleReader, IdleSource
from engine.hardware.probe import QUICK_SECONDS, SLOW_SECONDS, Prober
from tests.helpers.fake_host import FakeBus, fake_host, write_tree

NOW = 1_700_000_000.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def prober_of(tmp_path: Path, clock: ManualClock, sources: list[IdleSource] | None = None) -> Prober:
    idle = IdleReader(sources or [], "nobody is here", clock.monotonic)
    gpus = GpuReader("", nvidia_command=["/nonexistent"], nvml_command=["/nonexistent"], root=tmp_path)
    return Prober(tmp_path / "data", host=fake_host(tmp_path), idle=idle, gpus=gpus, monotonic=clock.monotonic)


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

    probes: list[tuple[object, str]] = [
        (cpu, "read_facts"),
        (cpu, "read_load_percent"),
        (cpu, "read_frequency_hertz"),
        (cpu, "read_frequency_max_hertz"),
        (memory, "read_memory"),
        (system, "system_name"),
        (probe.disk, "read_room"),
        (probe.disk, "read_used_bytes"),
        (probe.thermal, "read_temperature"),
        (probe.battery, "read_battery"),
        (probe.session_lock, "read_session_lock"),
        (probe.full_screen, "read_full_screen"),
        (probe.energy_saver, "read_energy_saver"),
        (probe.network_cost, "read_network"),
        (probe.fan, "read_fan"),
        (probe.apps, "running_of"),
    ]
    for module, name in probes:
        monkeypatch.setattr(module, name, broken)
    prober = prober_of(tmp_path, clock, [IdleSource("broken", broken)])  # type: ignore[arg-type]
    prober.looks_for(["game"])
    for part in (prober._gpus, prober._foreign, prober._throttle, prober._rapl):
        monkeypatch.setattr(part, "read", broken)
    caplog.set_level(logging.INFO, "engine.hardware")
    machine = prober.read(NOW)
    assert {(state.known, state.source) for state in machine.sensors} == {(False, "cannot be read")}
    assert msgspec.structs.replace(machine, sensors=()) == Machine(
        system="unknown system",
        temperature_source="cannot be read",
        idle_source="cannot be read",
        battery_source="cannot be read",
        power_source="cannot be read",
        idle_read_at=NOW,
        read_at=NOW,
    )
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == len(probes) + 5
    assert "cannot read the memory: RuntimeError: the sensor is on fire" in lines
    clock.advance(60)
    prober.read(NOW + 60)
    assert len(caplog.records) == len(lines)


def test_idle_is_not_asked_more_often_than_needed(tmp_path: Path, clock: ManualClock) -> None:
    asked: list[float] = []

    def idle(now: float) -> float:
        asked.append(now)
        return 7.0

    prober = prober_of(tmp_path, clock, [IdleSource("keys", idle)])
    machine = prober.read(NOW)
    assert (machine.idle_seconds, machine.idle_source) == (7.0, "keys")
    clock.advance(QUICK_SECONDS - 0.1)
    assert prober.read(NOW + 1).idle_seconds == 7.0
    assert asked == [NOW]
    clock.advance(0.1)
    prober.read(NOW + 2)
    assert asked == [NOW, NOW + 2]


def test_no_gpu_is_asked_after_closing(tmp_path: Path, clock: ManualClock) -> None:
    nothing = ["/nonexistent"]
    gpus = GpuReader("Apple M2", nvidia_command=nothing, nvml_command=nothing, root=tmp_path, is_mac=True)
    idle = IdleReader([], "nobody is here", clock.monotonic)
    prober = Prober(tmp_path, host=fake_host(tmp_path), idle=idle, gpus=gpus, monotonic=clock.monotonic)
    assert [gpu.name for gpu in prober.read(NOW).gpus] == ["Apple M2 GPU"]
    prober.close()
    prober.close()
    assert prober.read(NOW).gpus == ()


def test_only_a_worker_that_computes_lets_gpus_be_asked(tmp_path: Path, clock: ManualClock) -> None:
    write_tree(
        tmp_path / "sys/class/drm/card0/device",
        {"vendor": "0x1002", "product_name": "Radeon", "gpu_busy_percent": 30},
    )
    prober = prober_of(tmp_path, clock)
    queries: list[int] = []
    for device, working in (("", True), ("cuda", False), ("cpu", True), ("cuda", True), ("cuda", False)):
        prober.computes_on(device, working=working)
        for _ in range(5):
            clock.advance(SLOW_SECONDS)
            (gpu,) = prober.read(clock.now()).gpus
        assert prober._gpus is not None
        queries.append(prober._gpus.queries)
    names_asked = queries[0]
    assert queries == [names_asked, names_asked, names_asked, names_asked + 5, names_asked + 5]
    assert (gpu.load_percent, gpu.usable) == (30.0, True)  # the last that was read, with its time
    assert gpu.read_at is not None
    assert gpu.read_at < clock.now()
    prober.close()


def test_a_laptop_on_battery_in_a_train(tmp_path: Path, clock: ManualClock) -> None:
    write_tree(
        tmp_path,
        {
            "sys/class/power_supply/BAT0/type": "Battery",
            "sys/class/power_supply/BAT0/status": "Discharging",
            "sys/class/power_supply/BAT0/capacity": 64,
            "sys/class/hwmon/hwmon0/name": "coretemp",
            "sys/class/hwmon/hwmon0/temp1_input": 71000,
            "sys/class/hwmon/hwmon0/temp1_crit": 100000,
            "sys/class/hwmon/hwmon0/temp1_label": "Package id 0",
            "sys/class/hwmon/hwmon0/fan1_input": 3200,
            "sys/class/powercap/intel-rapl:0/name": "package-0",
            "sys/class/powercap/intel-rapl:0/energy_uj": 1_000_000,
        },
    )
    network = "org.freedesktop.NetworkManager"
    system_bus = FakeBus(
        {
            (network, "Metered"): 1,
            (network, "Connectivity"): 2,
            ("net.hadess.PowerProfiles", "ActiveProfile"): "power-saver",
        }
    )
    session_bus = FakeBus(replies={("org.gnome.ScreenSaver", "GetActive"): (True,)})
    host = fake_host(tmp_path, system_bus=system_bus, session_bus=session_bus)
    idle = IdleReader([IdleSource("keys", lambda now: 42.0)], "", clock.monotonic)
    prober = Prober(tmp_path / "data", host=host, idle=idle, monotonic=clock.monotonic)
    prober.read(NOW)
    write_tree(tmp_path, {"sys/class/powercap/intel-rapl:0/energy_uj": 31_000_000})
    clock.advance(2.0)
    machine = prober.read(NOW + 2)
    prober.close()
    assert (machine.on_battery, machine.battery_percent, machine.battery_source) == (True, 64.0, "BAT0")
    assert (machine.temperature_celsius, machine.temperature_critical_celsius) == (71.0, 100.0)
    assert (machine.fan_rpm, machine.throttled, machine.full_screen) == (3200, None, None)
    assert (machine.energy_saver, machine.session_locked) == (True, True)
    assert (machine.metered, machine.captive_portal) == (True, True)
    assert (machine.idle_seconds, machine.idle_source, machine.idle_read_at) == (42.0, "keys", NOW + 2)
    assert (machine.power_watts, machine.power_source) == (15.0, "processor")
    assert machine.energy_kilowatt_hours_today == pytest.approx(30 / 3.6e6)
    assert {state.name: state.known for state in machine.sensors} == {
        "idle": True,
        "session lock": True,
        "full screen": False,
        "temperature": True,
        "throttling": False,
        "fan": True,
        "battery": True,
        "energy saver": True,
        "power": True,
        "metered": True,
        "captive portal": True,
    }
    assert {state.name: state.read_at for state in machine.sensors}["metered"] == NOW  # not asked again so soon
    assert system_bus.closed
    assert session_bus.closed


def test_exclusive_programs(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def running_of(names: tuple[str, ...], *, ours: frozenset[int]) -> tuple[str, ...]:
        asked.append(names)
        assert {os.getpid(), 77} <= ours
        return names[1:]

    monkeypatch.setattr(probe.apps, "running_of", running_of)
    prober = prober_of(tmp_path, clock)
    prober.owns([77])
    assert prober.read(NOW).exclusive_app_running == ""
    prober.looks_for(["obs", "game"])
    assert prober.read(NOW).exclusive_app_running == "game"
    clock.advance(SLOW_SECONDS - 1)
    assert prober.read(NOW + 9).exclusive_app_running == "game"
    assert asked == [("obs", "game")]
    prober.looks_for(["film"])  # told at once
    assert prober.read(NOW + 9).exclusive_app_running == ""
    prober.looks_for([])
    assert prober.read(NOW + 9).exclusive_app_running == ""
    assert asked == [("obs", "game"), ("film",)]


def test_the_watcher_asks_the_same_sources(tmp_path: Path, clock: ManualClock) -> None:
    idle = [300.0]
    noticed, looked = threading.Event(), threading.Event()

    def hands(now: float) -> float:
        looked.set()
        return idle[0]

    watcher = prober_of(tmp_path, clock, [IdleSource("hands", hands)]).watcher(noticed.set)
    watcher.arm()
    assert looked.wait(20)
    watcher.disarm()
    watcher.arm()
    looked.clear()
    assert looked.wait(20)
    looked.clear()
    assert looked.wait(20)
    idle[0] = 0.0
    assert noticed.wait(20)
    watcher.close()


def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    free = probe.disk.read_room(tmp_path / "a" / "b").free_bytes
    assert free is not None
    assert free > 0


def test_a_folder_that_cannot_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert probe.disk.read_room(tmp_path / "file" / "below") == probe.disk.Room()


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
    assert cpu.read_frequency_max_hertz() is None
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
