"""What an engine is built with beside its store and identity; tests bring their own."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import aiohttp

from engine.contract.snapshot import Machine
from engine.core.clock import Clock
from engine.hardware.power import EnergyToday
from engine.hardware.probe import Prober
from engine.identity.keys import Identity
from engine.kit.service import KitParts, kit_parts
from engine.manifest.verify import VerifiedManifest
from engine.runtime import guest_memory
from engine.runtime.config import EngineConfig
from engine.runtime.power.keep_awake import Lock, lock_for_this_system
from engine.runtime.power.news import Herald, PowerWatch
from engine.runtime.power.watch import watch_for_this_system
from engine.runtime.session import Session
from engine.runtime.session_events import Limits, SessionListener
from engine.runtime.session_keeper import RESTART_SECONDS
from engine.runtime.session_parts import make_session
from engine.store.rows import JoinedProject


class MakeSession(Protocol):
    """As `session_parts.make_session`."""

    def __call__(
        self,
        config: EngineConfig,
        identity: Identity,
        joined: JoinedProject,
        project: VerifiedManifest,
        http: aiohttp.ClientSession,
        clock: Clock,
        listener: SessionListener,
        limits: Limits,
    ) -> Session: ...


class InputWatcher(Protocol):
    """As `IdleWatcher`."""

    def arm(self) -> None: ...

    def disarm(self) -> None: ...

    def close(self) -> None: ...


class MachineReader(Protocol):
    """As `Prober`."""

    def read(self, now: float) -> Machine: ...

    def watcher(self, on_input: Callable[[], None]) -> InputWatcher: ...

    def computes_on(self, device: str, *, working: bool = True) -> None: ...

    def owns(self, pids: Iterable[int]) -> None: ...

    def looks_for(self, names: Iterable[str]) -> None: ...

    def close(self) -> None: ...


def reader_of(data_dir: Path) -> MachineReader:
    """The real one; it goes on adding up today's energy where the engine before it stopped."""
    kept = guest_memory.load(data_dir)
    return Prober(data_dir, energy=EnergyToday(kept.energy_date, kept.energy_kilowatt_hours))


@dataclass(frozen=True, slots=True)
class EngineTimes:
    """How often an engine does what it does regularly."""

    governor_seconds: float = 2.0
    paused_seconds: float = 5.0  # between two looks of the governor while nothing is computed
    record_seconds: float = 60.0
    save_seconds: float = 5.0
    restart_seconds: float = RESTART_SECONDS  # after a session that failed


@dataclass(frozen=True, slots=True)
class EngineTools:
    """The real ones by default."""

    make_session: MakeSession = make_session
    make_reader: Callable[[Path], MachineReader] = reader_of
    make_lock: Callable[[], Lock] = lock_for_this_system
    make_watch: Callable[[Herald], PowerWatch] = watch_for_this_system
    times: EngineTimes = EngineTimes()
    kit_parts: Callable[[Path, Clock], KitParts] = kit_parts
