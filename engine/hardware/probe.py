"""All probes together: one picture of the machine, whatever fails."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from engine.contract.snapshot import GpuReading, Machine, SensorState
from engine.hardware import (
    apps,
    battery,
    cpu,
    disk,
    energy_saver,
    fan,
    full_screen,
    memory,
    network_cost,
    session_lock,
    system,
    thermal,
)
from engine.hardware.answer import Answer
from engine.hardware.foreign_cpu import ForeignCpu
from engine.hardware.gpus import GpuReader, GpuUse
from engine.hardware.host import Host, this_host
from engine.hardware.idle import IdleReader
from engine.hardware.idle_sources import reader_for, x11_of
from engine.hardware.idle_watch import IdleWatcher
from engine.hardware.power import EnergyToday, PowerReading, RaplReader

log = logging.getLogger(__name__)

Value = TypeVar("Value")

QUICK_SECONDS: Final = 2.0
"""How often what may change from one moment to the next is read: idle time, battery, heat, lock, full screen."""

SLOW_SECONDS: Final = 10.0
"""The rest: modes, networks, programs, fans."""

FOLDER_SECONDS: Final = 60.0
"""The size of our folder."""

_UNREADABLE: Final[Answer[Any]] = Answer(None, "cannot be read")
_NO_HEAT: Final = thermal.HeatReading(None, None, "cannot be read")
_NO_NETWORK: Final = network_cost.NetworkReading(_UNREADABLE, _UNREADABLE)
_NO_POWER: Final = PowerReading(None, None, "cannot be read")
_NO_BATTERY: Final = battery.BatteryReading(source="cannot be read")


@dataclass(slots=True)
class _Kept:
    """An answer that is kept for a while."""

    value: Any
    clock: float
    read_at: float


class Prober:
    """Reads the machine again and again. `read` blocks for up to a few seconds and belongs in a thread, one at a time.

    Facts that do not change are read once. Loads, power and the GPUs appear from the second reading on. Everything else
    that is told to it (`computes_on`, `owns`, `looks_for`) may be told at any time, in any thread.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        host: Host | None = None,
        idle: IdleReader | None = None,
        gpus: GpuReader | None = None,
        energy: EnergyToday | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._data_dir = data_dir
        self._monotonic = monotonic
        self._host = host or this_host()
        self._x11 = x11_of(self._host)
        self._idle_reader = idle or reader_for(self._host, self._x11)
        self._gpus = gpus
        self._energy = energy or EnergyToday()
        self._foreign = ForeignCpu()
        self._throttle = thermal.ThrottleReader(self._host)
        self._rapl = RaplReader(self._host)
        self._lock = threading.Lock()
        self._closed = False
        self._failed: set[str] = set()
        self._kept: dict[str, _Kept] = {}
        self._loads_read = 0
        self._use = GpuUse()
        self._app_names: tuple[str, ...] = ()

    def computes_on(self, device: str, *, working: bool = True) -> None:
        """Tell where the worker computes ("cpu", "cuda", "mps") and whether it does so now.

        No GPU is asked unless the worker computes on it now.
        """
        self._use = GpuUse(device, working and bool(device))

    def owns(self, pids: Iterable[int]) -> None:
        """Processes that are ours besides this one: the worker, the window. What they use is not foreign."""
        self._foreign.owns(pids)

    def looks_for(self, names: Iterable[str]) -> None:
        """Executables during which the user wants no training."""
        self._app_names = tuple(names)
        self._kept.pop("exclusive programs", None)

    def watcher(self, on_input: Callable[[], None]) -> IdleWatcher:
        """Notices input at once, from the sources that tell the idle time here. The caller closes it before this."""
        return IdleWatcher(lambda: self._idle_reader.read(time.time()), on_input)

    def read(self, now: float) -> Machine:
        """The machine at `now` (seconds since the epoch). Never raises: what cannot be read is None."""
        with self._lock:
            return self._read(now)

    def close(self) -> None:
        """End what still runs; waits for a `read` under way. Later readings are without most sensors."""
        self._idle_reader.close()
        if self._x11 is not None:
            self._x11.close()
        with self._lock:
            self._closed = True
            self._host.close()
            if self._gpus is not None:
                self._gpus.close()

    def _read(self, now: float) -> Machine:
        said: dict[str, Answer[Any]] = {}
        room = self._paced("disk", QUICK_SECONDS, lambda: disk.read_room(self._data_dir), now) or disk.Room()
        machine = Machine(
            system=self._once("system", system.system_name, now) or "unknown system",
            cpu_load_percent=self._read_load(),
            cpu_frequency_hertz=self._paced("clock", QUICK_SECONDS, cpu.read_frequency_hertz, now),
            cpu_frequency_max_hertz=self._once("fastest clock", cpu.read_frequency_max_hertz, now),
            foreign_cpu_percent=self._read_foreign(),
            disk_free_bytes=room.free_bytes,
            disk_total_bytes=room.total_bytes,
            disk_used_bytes=self._paced("folder", FOLDER_SECONDS, lambda: disk.read_used_bytes(self._data_dir), now),
            exclusive_app_running=self._read_app(now),
            read_at=now,
        )
        for part in (self._processor, self._session, self._heat, self._supply, self._network):
            machine = part(machine, said, now)
        sensors = (
            SensorState(name=name, known=answer.value is not None, source=answer.source, read_at=self._at(name, now))
            for name, answer in said.items()
        )
        return replace(machine, sensors=tuple(sensors))

    def _processor(self, machine: Machine, said: dict[str, Answer[Any]], now: float) -> Machine:
        facts = self._once("processor", cpu.read_facts, now) or cpu.CpuFacts("", None, None)
        room = self._ask("memory", memory.read_memory)
        return replace(
            machine,
            cpu_name=facts.name,
            cores_physical=facts.cores_physical,
            cores_logical=facts.cores_logical,
            memory_total_bytes=room.total_bytes if room else None,
            memory_used_bytes=room.used_bytes if room else None,
            gpus=self._ask("graphics", lambda: self._read_gpus(facts.name, now)) or (),
        )

    def _session(self, machine: Machine, said: dict[str, Answer[Any]], now: float) -> Machine:
        idle = self._answer("idle", QUICK_SECONDS, lambda: self._idle_reader.read(now), now)
        lock = self._answer("session lock", QUICK_SECONDS, lambda: session_lock.read_session_lock(self._host), now)
        full = self._answer(
            "full screen", QUICK_SECONDS, lambda: full_screen.read_full_screen(self._host, self._x11), now
        )
        said.update({"idle": idle, "session lock": lock, "full screen": full})
        return replace(
            machine,
            idle_seconds=idle.value,
            idle_source=idle.source,
            idle_read_at=self._at("idle", now),
            session_locked=lock.value,
            full_screen=full.value,
        )

    def _heat(self, machine: Machine, said: dict[str, Answer[Any]], now: float) -> Machine:
        heat = self._paced("temperature", QUICK_SECONDS, lambda: thermal.read_temperature(self._host), now) or _NO_HEAT
        throttling = self._answer("throttling", QUICK_SECONDS, self._throttle.read, now)
        turns = self._answer("fan", SLOW_SECONDS, lambda: fan.read_fan(self._host), now)
        said.update({"temperature": Answer(heat.celsius, heat.source), "throttling": throttling, "fan": turns})
        return replace(
            machine,
            temperature_celsius=heat.celsius,
            temperature_source=heat.source,
            temperature_critical_celsius=heat.critical_celsius,
            thermal_state=heat.state,
            throttled=throttling.value,
            fan_rpm=turns.value,
        )

    def _supply(self, machine: Machine, said: dict[str, Answer[Any]], now: float) -> Machine:
        supply = self._paced("battery", QUICK_SECONDS, lambda: battery.read_battery(self._host), now) or _NO_BATTERY
        saver = self._answer("energy saver", SLOW_SECONDS, lambda: energy_saver.read_energy_saver(self._host), now)
        power = self._read_power(machine.gpus, now)
        said.update({"battery": Answer(supply.on_battery, supply.source), "energy saver": saver, "power": power})
        return replace(
            machine,
            on_battery=supply.on_battery,
            battery_percent=supply.percent,
            battery_source=supply.source,
            energy_saver=saver.value,
            power_watts=power.value,
            power_source=power.source,
            energy_kilowatt_hours_today=self._energy.kilowatt_hours(now),
        )

    def _network(self, machine: Machine, said: dict[str, Answer[Any]], now: float) -> Machine:
        found = self._paced("network", SLOW_SECONDS, lambda: network_cost.read_network(self._host), now) or _NO_NETWORK
        said.update({"metered": found.metered, "captive portal": found.captive_portal})
        return replace(machine, metered=found.metered.value, captive_portal=found.captive_portal.value)

    def _read_load(self) -> float | None:
        load = self._ask("load", cpu.read_load_percent)
        self._loads_read += 1
        return load if self._loads_read > 1 else None

    def _read_foreign(self) -> float | None:
        """The last that is known, for a reading that follows too soon."""
        percent = self._ask("other programs' load", lambda: self._foreign.read(self._monotonic()))
        kept = self._kept.get("foreign load")
        if percent is None and kept is not None and self._monotonic() - kept.clock < QUICK_SECONDS:
            return float(kept.value)
        if percent is not None:
            self._kept["foreign load"] = _Kept(percent, self._monotonic(), 0.0)
        return percent

    def _read_app(self, now: float) -> str:
        names, ours = self._app_names, self._foreign.own_pids
        if not names:
            return ""
        found = self._paced("exclusive programs", SLOW_SECONDS, lambda: apps.running_of(names, ours=ours), now)
        return found[0] if found else ""

    def _read_gpus(self, cpu_name: str, now: float) -> tuple[GpuReading, ...]:
        if self._closed:
            return ()
        if self._gpus is None:
            self._gpus = GpuReader(cpu_name, root=self._host.root, is_mac=self._host.is_mac)
        use = GpuUse(self._use.device, self._use.computes, self._foreign.own_pids)
        return self._gpus.read(use, now, self._monotonic())

    def _read_power(self, gpus: tuple[GpuReading, ...], now: float) -> Answer[float]:
        """Watts of all that tells, and where that comes from; what was used is added to the day."""
        processor = self._ask("power", lambda: self._rapl.read(self._monotonic())) or _NO_POWER
        joules = (processor.joules or 0.0) + (self._gpus.take_joules() if self._gpus is not None else 0.0)
        if joules > 0:
            self._energy.add(joules, now)
        cards = [gpu.power_watts for gpu in gpus if gpu.power_watts is not None and self._use.computes and gpu.usable]
        if not cards:
            return Answer(processor.watts, processor.source)
        source = "graphics only" if processor.watts is None else f"{processor.source} and graphics"
        return Answer(sum(cards) + (processor.watts or 0.0), source)

    def _once(self, name: str, probe: Callable[[], Value], now: float) -> Value | None:
        return self._paced(name, float("inf"), probe, now)

    def _answer(self, name: str, seconds: float, probe: Callable[[], Answer[Value]], now: float) -> Answer[Value]:
        return self._paced(name, seconds, probe, now) or _UNREADABLE

    def _paced(self, name: str, seconds: float, probe: Callable[[], Value], now: float) -> Value | None:
        """What `probe` said at most `seconds` ago."""
        clock = self._monotonic()
        kept = self._kept.get(name)
        if kept is None or clock - kept.clock >= seconds:
            kept = self._kept[name] = _Kept(None if self._closed else self._ask(name, probe), clock, now)
        value: Value | None = kept.value
        return value

    def _at(self, name: str, now: float) -> float:
        kept = self._kept.get({"metered": "network", "captive portal": "network"}.get(name, name))
        return now if kept is None else kept.read_at

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
