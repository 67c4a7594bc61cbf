"""A whole engine in this process: the real supervisor, store and hub client; toy trainers and memory links below."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from engine.checkpoints.store import CheckpointStore
from engine.contract import commands as c
from engine.contract.reasons import Problem, ProblemCode
from engine.contract.snapshot import EngineState, Machine
from engine.control.dispatch import Face
from engine.core.clock import Clock, SystemClock
from engine.core.paths import Paths
from engine.hub.client import HubClient
from engine.hub.config import HubConfig, sqlite_url
from engine.hub.server import RunningHub, running_hub
from engine.identity.keys import Identity
from engine.identity.vault import IdentityStore, LoadedIdentity
from engine.manifest.parse import parameter_count
from engine.manifest.schema import SignedManifest
from engine.manifest.verify import VerifiedManifest, seal
from engine.runtime.config import EngineConfig
from engine.runtime.model import ModelState
from engine.runtime.parts import SessionParts
from engine.runtime.project_folder import CHECKPOINTS_NAME, keep_manifest
from engine.runtime.session import Session
from engine.runtime.session_events import Limits, SessionListener
from engine.runtime.supervisor import Supervisor
from engine.runtime.tools import EngineTimes, EngineTools
from engine.store.rows import JoinedProject
from engine.store.service import open_store
from engine.transport.memory import MemoryHub
from tests.helpers.hub_samples import identity
from tests.helpers.run_session import PUBLISHER, Rendezvous
from tests.helpers.tiny_project import tiny_manifest, tiny_training
from tests.helpers.toy_guest import Lock
from tests.helpers.toy_trainer import ToyTrainer

PATIENCE_SECONDS = 20.0
FACE = Face(face_id=1, kind="test", wants_samples=False)


def signed(name: str = "tides", **training: Any) -> SignedManifest:
    """A project of the tiny model that one computer may train alone."""
    settings = tiny_training(**{"minimum_peers": 1, "target_batch_samples": 16, **training})
    return seal(tiny_manifest(name=name, title=name.title(), training=settings), PUBLISHER)


@contextlib.asynccontextmanager
async def a_hub(folder: Path, *projects: SignedManifest, port: int = 0) -> AsyncIterator[RunningHub]:
    """A real hub on loopback that lists these."""
    folder.mkdir(parents=True, exist_ok=True)
    async with running_hub(HubConfig(database_url=sqlite_url(folder / "hub.db"), port=port)) as hub:
        async with aiohttp.ClientSession() as http:
            client = HubClient(hub.url, PUBLISHER, http)
            for project in projects:
                await client.publish(project)
        yield hub


@dataclass
class Calm:
    """A `MachineReader` of a computer that nobody uses and nothing ails; tests change `machine`."""

    machine: Machine = field(
        default_factory=lambda: Machine(cores_logical=4, memory_total_bytes=16_000_000_000, idle_seconds=1e6)
    )
    devices: list[str] = field(default_factory=list)
    owned: frozenset[int] = frozenset()
    closed: bool = False

    def read(self, now: float) -> Machine:
        return self.machine

    def watcher(self, on_input: Callable[[], None]) -> "Calm":
        return self

    def arm(self) -> None:
        return None

    def disarm(self) -> None:
        return None

    def computes_on(self, device: str, *, working: bool = True) -> None:
        self.devices.append(device)

    def owns(self, pids: Iterable[int]) -> None:
        self.owned = frozenset(pids)

    def looks_for(self, names: Iterable[str]) -> None:
        return None

    def close(self) -> None:
        self.closed = True


class Deaf:
    """A `PowerWatch` that hears nothing."""

    def start(self) -> None:
        return None

    def close(self) -> None:
        return None


class Engine:
    """One that runs."""

    def __init__(self, paths: Paths, clock: Clock) -> None:
        self.paths = paths
        self.clock = clock
        self.links = MemoryHub()
        self.reader = Calm()
        self.trainers: list[ToyTrainer] = []
        self.sessions: list[Session] = []
        self.fail_next: list[Exception] = []
        self.supervisor: Supervisor
        self._news = asyncio.Event()

    @property
    def state(self) -> EngineState:
        return self.supervisor.publisher.state

    @property
    def trainer(self) -> ToyTrainer:
        return self.trainers[-1]

    def problem(self, code: ProblemCode) -> Problem | None:
        return next((problem for problem in self.state.problems if problem.code == code), None)

    async def do(self, command: c.Command) -> Any:
        """As a face would."""
        return await self.supervisor.handle(command, FACE)

    async def until(self, true: Callable[[], Any]) -> None:
        """Wait until the state tree makes something true."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not true():
                await self._news.wait()

    def tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def make_session(
        self,
        config: EngineConfig,
        me: Identity,
        joined: JoinedProject,
        project: VerifiedManifest,
        http: aiohttp.ClientSession,
        clock: Clock,
        listener: SessionListener,
        limits: Limits,
    ) -> Session:
        if self.fail_next:
            raise self.fail_next.pop(0)
        folder = config.paths.project_dir(project.project_id)
        keep_manifest(folder, joined.signed)
        count = parameter_count(project.manifest)
        trainer = ToyTrainer(me.peer_id, count, think_seconds=0.01)
        model = ModelState(project, CheckpointStore(folder / CHECKPOINTS_NAME, project.manifest_hash, count))
        session = Session(
            SessionParts(
                me, project, Rendezvous(), self.links.network(me.peer_id), trainer, model, SystemClock(), listener
            ),
            limits=limits,
        )
        self.trainers.append(trainer)
        self.sessions.append(session)
        return session


@contextlib.asynccontextmanager
async def an_engine(
    data_dir: Path,
    number: int = 1,
    clock: Clock | None = None,
    loaded: LoadedIdentity | None = None,
    **config: Any,
) -> AsyncIterator[Engine]:
    """Stopped in order at the end, unless the test did it."""
    paths = Paths(data_dir)
    paths.ensure()
    engine = Engine(paths, clock or SystemClock())
    loaded = loaded or LoadedIdentity(identity(number), IdentityStore.KEYRING, "")
    times = EngineTimes(
        governor_seconds=0.05, paused_seconds=0.05, record_seconds=0.05, save_seconds=0.05, restart_seconds=0.05
    )
    tools = EngineTools(
        make_session=engine.make_session,
        make_reader=lambda _: engine.reader,
        make_lock=Lock,
        make_watch=lambda _: Deaf(),
        times=times,
    )
    opened = await open_store(paths.store_file, engine.clock.now())
    async with opened.store as store:
        engine.supervisor = Supervisor(EngineConfig(paths=paths, **config), store, loaded, engine.clock, tools)
        publisher = engine.supervisor.publisher
        publish = publisher.set

        def publish_and_tell(state: EngineState) -> None:
            publish(state)
            engine.tell()

        publisher.set = publish_and_tell  # type: ignore[method-assign]
        task = asyncio.create_task(engine.supervisor.run(), name="engine")
        try:
            yield engine
            engine.supervisor.stop()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
