"""All probes together: one picture of the machine, whatever fails."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from engine.contract.snapshot import GpuReading, Machine
from engine.hardware import battery, cpu, disk, memory, system, thermal
from engine.hardware.answer import Answer
from engine.hardware.gpus import GpuReader
from engine.hardware.idle import IdleReader, reader_for_this_system

log = logging.getLogger(__name__)

Value = TypeVar("Value")

IDLE_SECONDS_BETWEEN: Final = 2.0
"""Some systems need a process to tell the idle time; it is not started more often than this."""

_UNREADABLE: Final[Answer[float]] = Answer(None, "cannot be read")


class Prober:
    """Reads the machine again and again. `read` belongs in a thread, one at a time: a busy computer answers in seconds.

    Facts that do not change are read once. The processor's load and the GPUs appear from the second reading on.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        idle: IdleReader | None = None,
        gpus: GpuReader | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._data_dir = data_dir
        self._monotonic = monotonic
        self._idle_reader = idle or reader_for_this_system()
        self._gpus = gpus
        self._lock = threading.Lock()
        self._closed = False
        self._failed: set[str] = set()
        self._system: str | None = None
        self._cpu: cpu.CpuFacts | None = None
        self._loads_read = 0
        self._idle: Answer[float] = Answer(None, "")
        self._idle_read_at: float | None = None
        self._device = ""

    def computes_on(self, device: str) -> None:
        """Tell where the worker computes ("cpu", "cuda", "mps"): only a GPU in use is asked again and again."""
        self._device = device

    def read(self, now: float) -> Machine:
        """The machine at `now` (seconds since the epoch). Never raises: what cannot be read is None."""
        with self._lock:
            return self._read(now)

    def close(self) -> None:
        """End what still runs; waits for a `read` under way. Later readings are without GPUs."""
        with self._lock:
            self._closed = True
            if self._gpus is not None:
                self._gpus.close()

    def _read(self, now: float) -> Machine:
        if self._system is None:
            self._system = self._ask("system", system.system_name) or "unknown system"
        if self._cpu is None:
            self._cpu = self._ask("processor", cpu.read_facts) or cpu.CpuFacts("", None, None)
        room = self._ask("memory", memory.read_memory)
        heat = self._ask("temperature", thermal.read_temperature) or _UNREADABLE
        power = self._ask("battery", battery.read_battery) or battery.BatteryReading()
        idle = self._read_idle(now)
        return Machine(
            system=self._system,
            cpu_name=self._cpu.name,
            cores_physical=self._cpu.cores_physical,
            cores_logical=self._cpu.cores_logical,
            cpu_load_percent=self._read_load(),
            cpu_frequency_hertz=self._ask("clock", cpu.read_frequency_hertz),
            memory_total_bytes=room.total_bytes if room else None,
            memory_used_bytes=room.used_bytes if room else None,
            disk_free_bytes=self._ask("disk", lambda: disk.read_free_bytes(self._data_dir)),
            temperature_celsius=heat.value,
            temperature_source=heat.source,
            on_battery=power.on_battery,
            battery_percent=power.percent,
            idle_seconds=idle.value,
            idle_source=idle.source,
            gpus=self._ask("graphics", self._read_gpus) or (),
            read_at=now,
        )

    def _read_load(self) -> float | None:
        load = self._ask("load", cpu.read_load_percent)
        self._loads_read += 1
        return load if self._loads_read > 1 else None

    def _read_idle(self, now: float) -> Answer[float]:
        """An answer is kept for a moment: asking may cost a process."""
        clock = self._monotonic()
        if self._idle_read_at is None or clock - self._idle_read_at >= IDLE_SECONDS_BETWEEN:
            self._idle = self._ask("idle", lambda: self._idle_reader.read(now)) or _UNREADABLE
            self._idle_read_at = clock
        return self._idle

    def _read_gpus(self) -> tuple[GpuReading, ...]:
        if self._closed:
            return ()
        if self._gpus is None:
            self._gpus = GpuReader(self._cpu.name if self._cpu else "")
        return self._gpus.read(self._device, self._monotonic())

    def _ask(self, name: str, probe: Callable[[], Value]) -> Value | None:
        try:
            return probe()
        except Exception as error:  # noqa: BLE001 (Border: drivers and sensors fail in ways that no list covers)
            if name not in self._failed:
                self._failed.add(name)
                log.info("cannot read the %s: %s: %s", name, type(error).__name__, error)
            return None


def read_machine(data_dir: Path, now: float) -> Machine:
    """One reading for a single look; load and GPUs need a `Prober`, which looks twice."""
    prober = Prober(data_dir)
    try:
        return prober.read(now)
    finally:
        prober.close()
