"""Graphics processors.

Asking a sleeping laptop GPU wakes it and drains the battery, so one that the worker does not use is asked once only.
"""

import csv
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from engine.contract.snapshot import GpuReading
from engine.hardware.answer import number
from engine.hardware.command import RunningCommand

NVIDIA_FIELDS: Final = ("name", "memory.total", "memory.used", "utilization.gpu", "temperature.gpu")
NVIDIA_COMMAND: Final = ("nvidia-smi", f"--query-gpu={','.join(NVIDIA_FIELDS)}", "--format=csv,noheader,nounits")
LIMIT_SECONDS: Final = 10.0
"""The driver's first answer may take seconds."""

MAX_GPUS: Final = 32
MAX_NAME_CHARS: Final = 100
MEBIBYTE: Final = 1024 * 1024
DRM: Final = Path("/sys/class/drm")
AMD_VENDOR: Final = "0x1002"


class GpuReader:
    """Reads without waiting: an answer that is not there yet shows up in a later reading."""

    def __init__(
        self,
        cpu_name: str,
        *,
        nvidia_command: Sequence[str] = NVIDIA_COMMAND,
        drm: Path = DRM,
        is_mac: bool | None = None,
    ) -> None:
        self._nvidia_command = nvidia_command
        self._running: RunningCommand | None = None
        self._started_at = 0.0
        self._asked = self._answered = False
        self._nvidia: tuple[GpuReading, ...] = ()
        self._others = _apple(cpu_name, platform.system() == "Darwin" if is_mac is None else is_mac) + read_amd(drm)

    @property
    def waiting(self) -> bool:
        """True while an answer is under way."""
        return self._running is not None

    def read(self, device: str, monotonic: float) -> tuple[GpuReading, ...]:
        """`device` is where the worker computes ("cuda", "mps", "cpu"), or "" while that is not known.

        `monotonic` is in seconds of any clock that does not go back.
        """
        self._collect(monotonic)
        in_use = device.startswith("cuda") and self._answered and bool(self._nvidia)
        if self._running is None and (not self._asked or in_use):
            self._asked = True
            self._running = RunningCommand.start(self._nvidia_command)
            self._started_at = monotonic
        return tuple(_with_use(gpu, "cuda", device) for gpu in self._nvidia) + tuple(
            _with_use(gpu, "mps" if gpu.name.startswith("Apple") else "cuda", device) for gpu in self._others
        )

    def close(self) -> None:
        """End what runs. Safe to repeat."""
        running, self._running = self._running, None
        if running is not None:
            running.close()

    def _collect(self, monotonic: float) -> None:
        running = self._running
        if running is None or not (running.ended or monotonic - self._started_at > LIMIT_SECONDS):
            return
        self._running = None
        text = running.wait(0.0)
        if text is not None:
            self._answered = True
            self._nvidia = parse_nvidia(text)


def parse_nvidia(text: str) -> tuple[GpuReading, ...]:
    """From nvidia-smi's CSV: one line a GPU in the order of NVIDIA_FIELDS, memory in MiB; "[N/A]" where unknown."""
    gpus = []
    for row in csv.reader(text.splitlines()[:MAX_GPUS], skipinitialspace=True):
        if len(row) != len(NVIDIA_FIELDS) or not row[0].strip():
            continue
        total, used = number(row[1], 0, 2**24), number(row[2], 0, 2**24)
        gpus.append(
            GpuReading(
                name=row[0].strip()[:MAX_NAME_CHARS],
                memory_total_bytes=None if total is None else int(total * MEBIBYTE),
                memory_used_bytes=None if used is None else int(used * MEBIBYTE),
                load_percent=number(row[3], 0, 100),
                temperature_celsius=number(row[4], 1, 149),
            )
        )
    return tuple(gpus)


def read_amd(drm: Path) -> tuple[GpuReading, ...]:
    """AMD cards from Linux's amdgpu driver: files that the kernel answers without waking the card."""
    gpus = []
    for card in sorted(drm.glob("card[0-9]*"))[:MAX_GPUS]:
        device = card / "device"
        if "-" in card.name or _text(device / "vendor") != AMD_VENDOR:  # "card0-HDMI-A-1" is a connector
            continue
        name = _text(device / "product_name") or f"AMD graphics ({_text(device / 'device') or 'unknown model'})"
        total = number(_text(device / "mem_info_vram_total"), 1, 2**50)
        gpus.append(GpuReading(name=name[:MAX_NAME_CHARS], memory_total_bytes=None if total is None else int(total)))
    return tuple(gpus)


def _apple(cpu_name: str, is_mac: bool) -> tuple[GpuReading, ...]:
    """On Apple's own chips the GPU is part of the processor and shares its memory."""
    return (GpuReading(name=f"{cpu_name} GPU"),) if is_mac and cpu_name.startswith("Apple") else ()


def _with_use(gpu: GpuReading, kind: str, device: str) -> GpuReading:
    usable = device.startswith(kind)
    where = "the processor" if device == "cpu" else device
    return GpuReading(
        name=gpu.name,
        memory_total_bytes=gpu.memory_total_bytes,
        memory_used_bytes=gpu.memory_used_bytes if usable else None,  # old, when it is no longer asked
        load_percent=gpu.load_percent if usable else None,
        temperature_celsius=gpu.temperature_celsius if usable else None,
        usable=usable,
        detail="" if usable or not device else f"training here computes on {where}",
    )


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
