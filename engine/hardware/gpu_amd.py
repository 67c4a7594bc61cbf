"""AMD's cards on Linux: files of the amdgpu driver (docs.kernel.org, "AMDGPU sysfs interface")."""

from pathlib import Path
from typing import Final

from msgspec.structs import replace

from engine.contract.snapshot import GpuReading
from engine.hardware.gpu_card import MAX_GPUS, MAX_NAME_CHARS
from engine.hardware.sysfs import entries_of, number_of, text_of

AMD_VENDOR: Final = "0x1002"
_HOT_SPOTS: Final = ("junction", "edge", "")
"""Labels, the best first: the junction is what the card itself slows down for."""


def read_amd(drm: Path, *, awake: bool = False) -> tuple[GpuReading, ...]:
    """Names and memory; with `awake` also what wakes a sleeping card on many kernels, if the card is not asleep."""
    gpus = []
    for card in sorted(drm.glob("card[0-9]*"))[:MAX_GPUS]:
        device = card / "device"
        if "-" in card.name or text_of(device / "vendor") != AMD_VENDOR:  # "card0-HDMI-A-1" is a connector
            continue
        name = text_of(device / "product_name") or f"AMD graphics ({text_of(device / 'device') or 'unknown model'})"
        ask = awake and text_of(device / "power" / "runtime_status") in ("active", "unsupported", "")
        quiet = GpuReading(name=name[:MAX_NAME_CHARS], memory_total_bytes=_total(device))
        gpus.append(_live(device, quiet) if ask else quiet)
    return tuple(gpus)


def _total(device: Path) -> int | None:
    total = number_of(device / "mem_info_vram_total", 1, 2**50)
    return None if total is None else int(total)


def _live(device: Path, quiet: GpuReading) -> GpuReading:
    used = number_of(device / "mem_info_vram_used", 0, 2**50)
    monitor = next(iter(entries_of(device / "hwmon")), device)
    celsius, critical = _heat(monitor)
    microwatts = number_of(monitor / "power1_average", 0, 1e10)
    if microwatts is None:
        microwatts = number_of(monitor / "power1_input", 0, 1e10)
    return replace(
        quiet,
        memory_used_bytes=None if used is None else int(used),
        load_percent=number_of(device / "gpu_busy_percent", 0, 100),
        temperature_celsius=celsius,
        slowdown_celsius=critical,
        power_watts=None if microwatts is None else microwatts / 1e6,
    )


def _heat(monitor: Path) -> tuple[float | None, float | None]:
    """Temperature and critical temperature of the best sensor, degrees Celsius."""
    stems = [file.name.removesuffix("_input") for file in sorted(monitor.glob("temp*_input"))]
    for wanted in _HOT_SPOTS:
        for stem in stems:
            label = text_of(monitor / f"{stem}_label")
            celsius = number_of(monitor / f"{stem}_input", 1000, 149_000)
            if label == wanted and celsius is not None:
                critical = number_of(monitor / f"{stem}_crit", 50_000, 149_000)
                return celsius / 1000, None if critical is None else critical / 1000
    return None, None
