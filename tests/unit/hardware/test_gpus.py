from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.snapshot import GpuReading
from engine.hardware import gpus
from engine.hardware.gpu_amd import read_amd
from engine.hardware.gpu_apple import parse_ioreg
from engine.hardware.gpu_card import MAX_GPUS, Card
from engine.hardware.gpu_nvidia import parse_nvidia, parse_nvml, sleeping_models
from engine.hardware.gpus import SECONDS_BETWEEN, GpuReader, GpuUse
from engine.hardware.nvml_child import cards, name_of
from tests.helpers.fake_host import write_tree

GIB = 1024**3
NOW = 1_700_000_000.0
NOTHING = ["/nonexistent"]


def test_nvidia_line() -> None:
    (gpu,) = parse_nvidia("NVIDIA GeForce RTX 3060, 12288, 512, 7, 41\n")
    assert gpu.name == "NVIDIA GeForce RTX 3060"
    assert (gpu.memory_total_bytes, gpu.memory_used_bytes) == (12 * GIB, GIB // 2)
    assert (gpu.load_percent, gpu.temperature_celsius) == (7.0, 41.0)


def test_nvidia_fields_that_it_does_not_know() -> None:
    (gpu,) = parse_nvidia("GeForce GT 710, 2048, [N/A], [Not Supported], [Unknown Error]\n")
    assert gpu.memory_total_bytes == 2 * GIB
    assert (gpu.memory_used_bytes, gpu.load_percent, gpu.temperature_celsius) == (None, None, None)


def test_nvidia_talks_of_something_else() -> None:
    assert parse_nvidia("NVIDIA-SMI has failed because it couldn't communicate with the driver.\n") == ()
    assert parse_nvidia("No devices were found\n") == ()


@given(st.text(max_size=400))
def test_any_text_is_read_without_error(text: str) -> None:
    for gpu in parse_nvidia(text):
        assert gpu.name
        assert gpu.load_percent is None or 0 <= gpu.load_percent <= 100
    assert parse_nvml(text) in (None, ())


def test_not_more_than_fit() -> None:
    assert len(parse_nvidia("A, 1, 1, 1, 30\n" * 1000)) == MAX_GPUS


NVML = (
    '[{"name": "RTX", "memory_total_bytes": 1024, "memory_used_bytes": 512, "load_percent": 90, '
    '"temperature_celsius": 71, "slowdown_celsius": 93, "power_milliwatts": 120500, "energy_millijoules": 5000, '
    '"throttled": false, "process_loads": {"41": 60, "42": 25}}]'
)


def test_nvml_line() -> None:
    assert parse_nvml(NVML) == (
        Card(
            GpuReading(
                name="RTX",
                memory_total_bytes=1024,
                memory_used_bytes=512,
                load_percent=90.0,
                temperature_celsius=71.0,
                slowdown_celsius=93.0,
                power_watts=120.5,
                throttled=False,
            ),
            {41: 60.0, 42: 25.0},
            5.0,
        ),
    )


@pytest.mark.parametrize(
    "change", [('"load_percent": 90', '"load_percent": 900'), ('"41": 60', '"x": 60'), ("1024", "-1"), ("}]", "}")]
)
def test_nvml_nonsense(change: tuple[str, str]) -> None:
    assert change[0] in NVML
    assert parse_nvml(NVML.replace(*change)) is None


class NvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


class Sample:
    def __init__(self, pid: int, load: int, at: int) -> None:
        self.pid, self.smUtil, self.timeStamp = pid, load, at


class Nvml:
    """A library with one card; what is not here, an old library does not know either."""

    NVMLError = NvmlError
    NVML_ERROR_NOT_FOUND = 6
    NVML_TEMPERATURE_GPU = 0
    NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1

    def __init__(self, samples: list[Sample] | NvmlError) -> None:
        self.samples = samples
        self.since: list[int] = []

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index == 1:
            raise NvmlError(15)  # lost
        return index

    def nvmlDeviceGetName(self, handle: int) -> bytes:
        return b"RTX"

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        return 71

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        raise NvmlError(3)  # not supported

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:
        return 0x20

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=41, usedGpuMemory=700), SimpleNamespace(pid=42, usedGpuMemory=None)]

    def nvmlDeviceGetProcessUtilization(self, handle: int, since: int) -> list[Sample]:
        self.since.append(since)
        if isinstance(self.samples, NvmlError):
            raise self.samples
        return self.samples


def test_the_library_is_asked_one_card_at_a_time() -> None:
    nvml = Nvml([Sample(41, 50, 9_000_000), Sample(41, 60, 10_000_000), Sample(42, 25, 8_000_000)])
    newest: dict[int, int] = {}
    (one,) = cards(nvml, newest)
    assert one["name"] == "RTX"
    assert (one["temperature_celsius"], one["power_milliwatts"], one["memory_used_bytes"]) == (71, None, None)
    assert one["throttled"] is True
    assert one["process_loads"] == {"41": 60, "42": 25}
    assert one["process_memory_bytes"] == {"41": 700}
    cards(nvml, newest)
    assert nvml.since == [0, 5_000_000]


@pytest.mark.parametrize(("error", "loads"), [(6, {}), (3, None)])
def test_process_loads_that_are_not_told(error: int, loads: dict[str, int] | None) -> None:
    (one,) = cards(Nvml(NvmlError(error)), {})
    assert one["process_loads"] == loads


def test_a_card_without_a_name() -> None:
    assert name_of(Nvml([]), None) == "RTX"
    assert name_of(type("Old", (), {"NVMLError": NvmlError}), None) == "NVIDIA graphics"


DEVICE = "sys/bus/pci/devices/0000:01:00.0"
INFORMATION = "proc/driver/nvidia/gpus/0000:01:00.0/information"


def nvidia_card(root: Path, status: str) -> None:
    write_tree(root, {f"{DEVICE}/vendor": "0x10de", f"{DEVICE}/class": "0x030000"})
    write_tree(root, {f"{DEVICE}/power/runtime_status": status, INFORMATION: "Model: \t\t NVIDIA RTX A500\nIRQ: 5"})


def test_a_sleeping_card_is_named_without_being_asked(tmp_path: Path) -> None:
    assert sleeping_models(tmp_path) is None
    nvidia_card(tmp_path, "suspended")
    assert sleeping_models(tmp_path) == ("NVIDIA RTX A500",)
    reader = GpuReader("", nvidia_command=NOTHING, nvml_command=NOTHING, root=tmp_path)
    for second in range(10):
        (gpu,) = reader.read(GpuUse("cpu", computes=True), NOW + second, float(second))
        assert (gpu.name, gpu.read_at) == ("NVIDIA RTX A500", None)
    assert reader.queries == 0
    nvidia_card(tmp_path, "active")
    assert sleeping_models(tmp_path) is None


def amd(root: Path, name: str, **files: str | int) -> None:
    write_tree(root / "sys/class/drm" / name / "device", files)


HOT = {
    "vendor": "0x1002",
    "product_name": "Radeon",
    "power/runtime_status": "active",
    "gpu_busy_percent": 55,
    "mem_info_vram_total": 16 * GIB,
    "mem_info_vram_used": GIB,
    "hwmon/hwmon3/temp1_input": 61000,
    "hwmon/hwmon3/temp1_label": "edge",
    "hwmon/hwmon3/temp2_input": 74000,
    "hwmon/hwmon3/temp2_label": "junction",
    "hwmon/hwmon3/temp2_crit": 110000,
    "hwmon/hwmon3/power1_average": 95_000_000,
}


def test_amd_cards(tmp_path: Path) -> None:
    amd(tmp_path, "card0", vendor="0x8086", device="0x46a6")
    amd(tmp_path, "card1", vendor="0x1002", device="0x73bf", mem_info_vram_total=16 * GIB)
    amd(tmp_path, "card2", vendor="0x1002", product_name="Radeon PRO W7800")
    amd(tmp_path, "card1-HDMI-A-1", vendor="0x1002")
    assert [(gpu.name, gpu.memory_total_bytes) for gpu in read_amd(tmp_path / "sys/class/drm")] == [
        ("AMD graphics (0x73bf)", 16 * GIB),
        ("Radeon PRO W7800", None),
    ]


def test_amd_card_in_use(tmp_path: Path) -> None:
    write_tree(tmp_path / "sys/class/drm/card0/device", HOT)
    reader = GpuReader("", nvidia_command=NOTHING, nvml_command=NOTHING, root=tmp_path)
    (gpu,) = reader.read(GpuUse("cuda", computes=True), NOW, 0.0)
    assert (gpu.load_percent, gpu.memory_used_bytes, gpu.power_watts) == (55.0, GIB, 95.0)
    assert (gpu.temperature_celsius, gpu.slowdown_celsius) == (74.0, 110.0)
    assert gpu.read_at == NOW


def test_amd_card_that_sleeps_is_not_woken(tmp_path: Path) -> None:
    write_tree(tmp_path / "sys/class/drm/card0/device", {**HOT, "power/runtime_status": "suspended"})
    (gpu,) = read_amd(tmp_path / "sys/class/drm", awake=True)
    assert (gpu.name, gpu.temperature_celsius, gpu.load_percent) == ("Radeon", None, None)


def test_apple_chip(tmp_path: Path) -> None:
    reader = GpuReader("Apple M2", nvidia_command=NOTHING, nvml_command=NOTHING, root=tmp_path, is_mac=True)
    (before,) = reader.read(GpuUse(), NOW, 0.0)
    assert (before.name, before.usable, before.detail) == ("Apple M2 GPU", False, "")
    assert reader.read(GpuUse("mps", computes=True), NOW, 1.0)[0].usable
    (unused,) = reader.read(GpuUse("cpu", computes=True), NOW, 2.0)
    assert (unused.usable, unused.detail) == (False, "training here computes on the processor")
    reader.close()


def test_apple_load() -> None:
    text = '"PerformanceStatistics" = {"In use system memory"=1073741824,"Device Utilization %"=37,"Other"=1}'
    (gpu,) = parse_ioreg(text, "Apple M2 GPU")
    assert (gpu.load_percent, gpu.memory_used_bytes) == (37.0, GIB)
    assert parse_ioreg("", "Apple M2 GPU") == (GpuReading(name="Apple M2 GPU"),)


def test_intel_mac_and_other_systems_have_none_of_it(tmp_path: Path) -> None:
    for name, is_mac in (("Intel Core i7", True), ("Apple M2", False)):
        reader = GpuReader(name, nvidia_command=NOTHING, nvml_command=NOTHING, root=tmp_path, is_mac=is_mac)
        assert reader.read(GpuUse(), NOW, 0.0) == ()
        reader.close()


class Source:
    """A driver that answers at once, and counts."""

    def __init__(self, *answers: Card) -> None:
        self.answers = answers
        self.asked = self.rested = 0
        self.waiting = False

    def ask(self, monotonic: float) -> None:
        self.asked += 1
        self.waiting = True

    def take(self, monotonic: float) -> tuple[Card, ...] | None:
        if not self.waiting:
            return None
        self.waiting = False
        return self.answers

    def rest(self) -> None:
        self.rested += 1


@pytest.fixture
def card_source(monkeypatch: pytest.MonkeyPatch) -> Source:
    source = Source(Card(GpuReading(name="RTX", power_watts=100.0, load_percent=90.0), {41: 60.0, 42: 25.0}, 1000.0))
    monkeypatch.setattr(gpus, "NvmlSource", lambda command: source)
    return source


@pytest.mark.usefixtures("card_source")
def test_other_programs_on_the_card(tmp_path: Path) -> None:
    reader = GpuReader("", root=tmp_path)
    use = GpuUse("cuda", computes=True, own_pids=frozenset({41}))
    reader.read(use, NOW, 0.0)
    (gpu,) = reader.read(use, NOW + 2, 2.0)
    assert (gpu.foreign_load_percent, gpu.read_at) == (25.0, NOW + 2)


def test_no_gpu_is_queried_while_paused(tmp_path: Path, card_source: Source) -> None:
    write_tree(tmp_path / "sys/class/drm/card0/device", HOT)
    reader = GpuReader("", root=tmp_path)
    working, paused = GpuUse("cuda", computes=True), GpuUse("cuda", computes=False)
    for second in range(10):
        reader.read(working, NOW + second, float(second))
    worked = (card_source.asked, reader.queries)
    assert card_source.asked == 10 / SECONDS_BETWEEN
    for second in range(10, 10_000):
        found = reader.read(paused, NOW + second, float(second))
        assert len(found) == 2
        assert all(gpu.read_at is not None and gpu.read_at <= NOW + 10 for gpu in found)
    assert (card_source.asked, reader.queries) == worked
    assert card_source.rested  # and the driver was let go
    reader.read(working, NOW + 10_000, 10_000.0)
    assert card_source.asked == worked[0] + 1


def test_a_card_that_training_does_not_use_is_asked_for_its_name_only(tmp_path: Path, card_source: Source) -> None:
    reader = GpuReader("", root=tmp_path)
    for second in range(100):
        reader.read(GpuUse("cpu", computes=True), NOW + second, float(second))
    assert card_source.asked == 1


def test_energy_is_what_the_counter_adds(tmp_path: Path, card_source: Source) -> None:
    reader = GpuReader("", root=tmp_path)
    use = GpuUse("cuda", computes=True)
    total = 0.0
    for step, joules in enumerate((1000.0, 1200.0, 1500.0, 1400.0, 1410.0)):
        card_source.answers = (Card(GpuReading(name="RTX"), None, joules),)
        reader.read(use, NOW, 2.0 * step)
        reader.read(use, NOW, 2.0 * step + 0.5)
        total += reader.take_joules()
    assert total == pytest.approx(510.0)
    assert reader.take_joules() == 0.0
