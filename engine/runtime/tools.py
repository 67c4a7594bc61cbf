"""What an engine is built with beside its store and identity; tests bring their own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import aiohttp

from engine.contract.snapshot import Machine
from engine.core.clock import Clock
from engine.hardware.probe import Prober
from engine.identity.keys import Identity
from engine.manifest.verify import VerifiedManifest
from engine.runtime.config import EngineConfig
from engine.runtime.session import Session
from engine.runtime.session_events import SessionListener
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
    ) -> Session: ...


class MachineReader(Protocol):
    """As `Prober`."""

    def read(self, now: float) -> Machine: ...

    def computes_on(self, device: str) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class EngineTimes:
    """How often an engine does what it does regularly."""

    governor_seconds: float = 2.0
    save_seconds: float = 5.0
    period_seconds: float = 60.0
    restart_seconds: float = RESTART_SECONDS  # after a session that failed


@dataclass(frozen=True, slots=True)
class EngineTools:
    """The real ones by default."""

    make_session: MakeSession = make_session
    make_reader: Callable[[Path], MachineReader] = Prober
    times: EngineTimes = EngineTimes()
