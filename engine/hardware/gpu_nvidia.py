"""NVIDIA's cards: through NVML where nvidia-ml-py is installed, else through nvidia-smi."""

import csv
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec

from engine.contract.snapshot import GpuReading
from engine.hardware.answer import number
from engine.hardware.command import RunningCommand
from engine.hardware.gpu_card import LIMIT_SECONDS, MAX_GPUS, MAX_NAME_CHARS, Card
from engine.hardware.line_child import LineChild
from engine.hardware.sysfs import entries_of, text_of

NVIDIA_FIELDS: Final = ("name", "memory.total", "memory.used", "utilization.gpu", "temperature.gpu")
NVIDIA_COMMAND: Final = ("nvidia-smi", f"--query-gpu={','.join(NVIDIA_FIELDS)}", "--format=csv,noheader,nounits")
NVML_COMMAND: Final = (sys.executable, "-I", str(Path(__file__).with_name("nvml_child.py")))
MEBIBYTE: Final = 1024 * 1024
VENDOR: Final = "0x10de"

Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**50)]
Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]


class _NvmlCard(msgspec.Struct, frozen=True):
    """A line of nvml_child.py."""

    name: str
    memory_total_bytes: Bytes | None
    memory_used_bytes: Bytes | None
    load_percent: Percent | None
    temperature_celsius: float | None
    slowdown_celsius: float | None
    power_milliwatts: Annotated[float, msgspec.Meta(ge=0, le=1e7)] | None
    energy_millijoules: Annotated[float, msgspec.Meta(ge=0)] | None
    throttled: bool | None
    process_loads: dict[int, Percent] | None
    driver_version: Annotated[str, msgspec.Meta(max_length=40)] = ""
    process_memory_bytes: dict[int, Bytes] | None = None


def parse_nvml(text: str) -> tuple[Card, ...] | None:
    """From a line of nvml_child.py; None when it says something else."""
    try:
        found = msgspec.json.decode(text, type=list[_NvmlCard])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    return tuple(_card(one) for one in found[:MAX_GPUS])


def _card(one: _NvmlCard) -> Card:
    return Card(
        GpuReading(
            name=one.name[:MAX_NAME_CHARS],
            memory_total_bytes=one.memory_total_bytes,
            memory_used_bytes=one.memory_used_bytes,
            load_percent=one.load_percent,
            temperature_celsius=_celsius(one.temperature_celsius),
            slowdown_celsius=_celsius(one.slowdown_celsius),
            power_watts=None if one.power_milliwatts is None else one.power_milliwatts / 1000,
            throttled=one.throttled,
            driver_version=one.driver_version,
        ),
        one.process_loads,
        None if one.energy_millijoules is None else one.energy_millijoules / 1000,
        one.process_memory_bytes,
    )


def _celsius(value: float | None) -> float | None:
    return value if value is not None and 1 <= value <= 149 else None


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


class NvmlSource:
    """Keeps one process while it is asked again and again; its answers arrive in a thread."""

    def __init__(self, command: Sequence[str] = NVML_COMMAND) -> None:
        self._command = command
        self._child = LineChild(command)
        self._thread: threading.Thread | None = None
        self._answer: str | None = None

    @property
    def waiting(self) -> bool:
        return self._thread is not None

    def ask(self, monotonic: float) -> None:
        self._answer = None
        self._thread = threading.Thread(target=self._listen, args=(self._child,), name="nvml", daemon=True)
        self._thread.start()

    def take(self, monotonic: float) -> tuple[Card, ...] | None:
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread = None
        return None if self._answer is None else parse_nvml(self._answer)

    def rest(self) -> None:
        child, thread = self._child, self._thread
        if child.pid is None and thread is None:
            return
        self._child, self._thread = LineChild(self._command), None
        child.close()
        if thread is not None:
            thread.join()

    def wait(self, limit_seconds: float) -> None:
        """Until the answer is there, for at most so long."""
        if self._thread is not None:
            self._thread.join(limit_seconds)

    def _listen(self, child: LineChild) -> None:
        self._answer = child.ask("read", LIMIT_SECONDS)


class CommandSource:
    """Starts a program for every question and reads its answer when it has ended."""

    def __init__(self, command: Sequence[str], parse: Callable[[str], tuple[GpuReading, ...]]) -> None:
        self._command = command
        self._parse = parse
        self._running: RunningCommand | None = None
        self._started_at = 0.0

    @property
    def waiting(self) -> bool:
        return self._running is not None

    def ask(self, monotonic: float) -> None:
        self.rest()
        self._running, self._started_at = RunningCommand.start(self._command), monotonic

    def take(self, monotonic: float) -> tuple[Card, ...] | None:
        running = self._running
        if running is None or not (running.ended or monotonic - self._started_at > LIMIT_SECONDS):
            return None
        self._running = None
        text = running.wait(0.0)
        return None if text is None else tuple(Card(gpu) for gpu in self._parse(text))

    def rest(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.close()


def sleeping_models(root: Path) -> tuple[str, ...] | None:
    """Names of the cards when all of them sleep (Linux runtime power management); None when one is awake.

    What is read here wakes no card: the kernel and the driver know it by heart.
    """
    states = [
        text_of(device / "power" / "runtime_status")
        for device in entries_of(root / "sys/bus/pci/devices")
        if text_of(device / "vendor") == VENDOR and text_of(device / "class").startswith("0x03")
    ]
    if not states or any(state != "suspended" for state in states):
        return None
    return tuple(_models(root)) or ("NVIDIA graphics",) * len(states)


def _models(root: Path) -> list[str]:
    models = []
    for card in entries_of(root / "proc/driver/nvidia/gpus"):
        for line in text_of(card / "information").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "Model" and value.strip():
                models.append(value.strip()[:MAX_NAME_CHARS])
    return models
