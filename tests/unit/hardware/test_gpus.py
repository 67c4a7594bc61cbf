from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engine.hardware.gpus import MAX_GPUS, GpuReader, parse_nvidia, read_amd

GIB = 1024**3


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


def test_not_more_than_fit() -> None:
    assert len(parse_nvidia("A, 1, 1, 1, 30\n" * 1000)) == MAX_GPUS


def card(drm: Path, name: str, **files: str) -> None:
    (drm / name / "device").mkdir(parents=True)
    for file, text in files.items():
        (drm / name / "device" / file).write_text(text + "\n")


def test_amd_cards(tmp_path: Path) -> None:
    card(tmp_path, "card0", vendor="0x8086", device="0x46a6")
    card(tmp_path, "card1", vendor="0x1002", device="0x73bf", mem_info_vram_total=str(16 * GIB))
    card(tmp_path, "card2", vendor="0x1002", product_name="Radeon PRO W7800")
    card(tmp_path, "card1-HDMI-A-1", vendor="0x1002")
    assert [(gpu.name, gpu.memory_total_bytes) for gpu in read_amd(tmp_path)] == [
        ("AMD graphics (0x73bf)", 16 * GIB),
        ("Radeon PRO W7800", None),
    ]


def test_apple_chip(tmp_path: Path) -> None:
    reader = GpuReader("Apple M2", nvidia_command=["/nonexistent"], drm=tmp_path, is_mac=True)
    (before,) = reader.read("", 0.0)
    assert (before.name, before.usable, before.detail) == ("Apple M2 GPU", False, "")
    assert reader.read("mps", 1.0)[0].usable
    (unused,) = reader.read("cpu", 2.0)
    assert (unused.usable, unused.detail) == (False, "training here computes on the processor")


def test_intel_mac_and_other_systems_have_none_of_it(tmp_path: Path) -> None:
    assert GpuReader("Intel Core i7", nvidia_command=["/nonexistent"], drm=tmp_path, is_mac=True).read("", 0.0) == ()
    assert GpuReader("Apple M2", nvidia_command=["/nonexistent"], drm=tmp_path, is_mac=False).read("", 0.0) == ()
