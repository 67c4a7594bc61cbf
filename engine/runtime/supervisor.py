"""The engine: identity, store, control link, hub, limits and the session of the joined project, owned by one object.

Everything runs in one event loop; what blocks runs in threads. Each part reports here through a listener's methods,
which only note what changed and publish it; commands from faces arrive in `handle`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any, Literal

import aiohttp
import msgspec
import psutil

from engine.contract import commands as c
from engine.contract.errors import ControlError, ErrorCode
from engine.contract.links import parse_link
from engine.contract.reasons import ProblemAction, ProblemCode, Reason, Scalar
from engine.contract.settings import SettingValue, changed
from engine.contract.snapshot import (
    CurvePoint,
    EngineInfo,
    HubStatus,
    Leaderboard,
    RoundInfo,
    SessionState,
    Settings,
)
from engine.control.dispatch import Face
from engine.control.publisher import StatePublisher
from engine.core.clock import Clock
from engine.core.errors import UserError
from engine.core.tasks import TaskOwner
from engine.hub.client import Catalogue, CatalogueEntry, checked_hub_url
from engine.hub.errors import HubError, HubNonsense
from engine.identity.vault import IdentityStore, LoadedIdentity
from engine.ledger.receipts import SignedReceipt
from engine.manifest.errors import ManifestError
from engine.manifest.verify import VerifiedManifest, open_signed
from engine.runtime.answers import Answers
from engine.runtime.catalogue import cards
from engine.runtime.config import EngineConfig, settings_at_start
from engine.runtime.curve import MAX_CURVE_POINTS, extended, round_row
from engine.runtime.days import DayBook, local_date
from engine.runtime.first_state import initial_state
from engine.runtime.guest import Guest, GuestParts
from engine.runtime.hub_sync import HubSync, HubSyncParts
from engine.runtime.kit_desk import KitDesk
from engine.runtime.link_offer import catalogue_with
from engine.runtime.machine_measure import MachineMeasure
from engine.runtime.power.keep_awake import KeepAwake
from engine.runtime.power.news import Herald
from engine.runtime.problems import ProblemBoard, folder_trouble
from engine.runtime.session import Session
from engine.runtime.session_events import NameChange, WatcherChange, WorkerRestart
from engine.runtime.session_keeper import SessionKeeper
from engine.runtime.status import Circumstances, UnmetPeers, status_of
from engine.runtime.tools import EngineTools
from engine.store.errors import StoreError
from engine.store.rows import DayCounters, JoinedProject
from engine.store.service import Store

log = logging.getLogger(__name__)


class Supervisor:
    """One engine from `run`'s start to its end."""

    def __init__(
        self,
        config: EngineConfig,
        store: Store,
        loaded: LoadedIdentity,
        clock: Clock,
        tools: EngineTools | None = None,
    ) -> None:
        tools = tools or EngineTools()
        self._config = config
        self._tools = tools
        self._store = store
        self._identity = loaded.identity
        self._clock = clock
        self._tasks = TaskOwner("engine", close_seconds=20.0)
        self._stop = asyncio.Event()
        self._begun = asyncio.Event()  # loaded: commands are carried out from here on
        self._settings = Settings()
        self._urgent = False
        self._reader = tools.make_reader(config.paths.data_dir)
        self._answers = Answers(store, clock)
        self._problems = ProblemBoard()
        self._days = DayBook(local_date(clock.now()), DayCounters())
        self._catalogue: dict[str, CatalogueEntry] = {}
        self._refused: set[str] = set()  # why entries of the catalogue were dropped
        self._joined: JoinedProject | None = None
        self._project: VerifiedManifest | None = None
        self._keeper = SessionKeeper(self, self._tasks, tools.times.restart_seconds)
        self._unusable: tuple[str, Reason] | None = None  # why no session could begin: its card, and the state's reason
        self._unmet = UnmetPeers()
        self._wanted = config.join or ""  # to be joined as soon as the hub lists it
        self._joining = asyncio.Lock()  # one project is left before another is joined
        self._sync: HubSync | None = None
        self._sync_task: asyncio.Task[None] | None = None
        self._http: aiohttp.ClientSession | None = None
        self._wants_samples = False
        self._process = psutil.Process()
        self.publisher = StatePublisher(initial_state(config, loaded, clock.now()))
        lock = KeepAwake(tools.make_lock())
        folder = config.paths.data_dir
        parts = GuestParts(clock, store, self.publisher, self._reader, lock, config.device, tools.times, folder)
        self._guest = Guest(self, parts)
        self._measure = MachineMeasure(config.paths, clock, self.publisher, self._guest)
        self._kit = KitDesk(tools.kit_parts, folder, clock, self.publisher, self._problems)
        self._kit.listen(self._publish_problems, self.let_session)
        if loaded.store is IdentityStore.FILE and loaded.notice:
            self._add_problem(ProblemCode.NO_KEYRING, ProblemAction.DISMISS, {"path": str(config.paths.key_file)})

    # Life.

    async def run(self) -> None:
        """Until `stop`. Leaves the round politely and saves before it returns."""
        with contextlib.closing(self._reader):
            await self._run()

    async def _run(self) -> None:
        async with aiohttp.ClientSession() as self._http, self._tasks:
            await self._load()
            self._tasks.spawn("governor", self._guest.run())
            self._tasks.spawn("measuring", self._measure.run())
            self._tasks.spawn("saver", self._save_regularly())
            self._start_sync()
            await self._start_again()
            power = self._tools.make_watch(Herald(self._guest.on_news, asyncio.get_running_loop()))
            power.start()
            self._begun.set()
            if self._config.join:
                self._tasks.spawn("join", self._join_when_possible())
            try:
                await self._stop.wait()
                log.info("stopping")
                await self._kit.close()
                await self._leave("now" if self._urgent else "after_round", forget=False)
                await self._save(ending=True)
            finally:
                await asyncio.to_thread(power.close)

    def stop(self, *, urgent: bool = False) -> None:
        """End in order; when `urgent` without waiting for a round. Safe to repeat."""
        self._urgent = self._urgent or urgent
        self._stop.set()
        if urgent:
            self._keeper.hasten("now")

    async def _load(self) -> None:
        settings = await self._store.load_settings()
        for problem_id in await self._store.dismissed_problems():
            self._problems.dismiss(problem_id)
        self._publish_problems()
        self._settings = settings_at_start(self._config, settings)
        if self._settings != settings:
            await self._keep(self._store.save_settings(self._settings))
        date = local_date(self._clock.now())
        self._days = DayBook(date, await self._store.load_day(date))
        self._joined = await self._store.active_project()
        self.publisher.update(settings=self._settings, hub=HubStatus(url=self._settings.hub_url, connected=False))
        self._publish_today()

    async def _save_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._tools.times.save_seconds)
            await self._save()

    async def _save(self, *, ending: bool = False) -> None:
        more = self._days.take()
        if more != DayCounters():
            await self._keep(self._store.add_to_day(self._days.date, more))
        today = local_date(self._clock.now())
        if today != self._days.date:
            self._days.turn_to(today)
            self._publish_today()
        if self._store.held_writes:
            await self._keep(self._store.retry())
        elif self._problems.mend(ProblemCode.STORE_UNWRITABLE):
            self._publish_problems()
        if ending:
            await self._keep(self._store.end_period(self._clock.now()))

    async def _keep(self, write: "asyncio.Future[None] | Any") -> None:
        """A write that may fail: the store holds what it could not write, and the user is told."""
        try:
            await write
        except StoreError as error:
            self._add_problem(
                ProblemCode.STORE_UNWRITABLE, ProblemAction.NONE, {"path": str(error.path), "detail": error.detail}
            )

    def keep_soon(self, name: str, write: Any) -> None:
        if self._tasks.closing:  # what the guest notes while its own tasks are seen off
            write.close()
            return
        # A write whose task is cancelled before its first step would be reported as never awaited.
        self._tasks.spawn(name, self._keep(write)).add_done_callback(lambda _: write.close())

    # What the governor sees (GuestHost).

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def session(self) -> Session | None:
        return self._keeper.session

    def engine_info(self) -> EngineInfo:
        session = self._keeper.session
        return msgspec.structs.replace(
            self.publisher.state.engine,
            memory_bytes=int(self._process.memory_info().rss),
            worker_memory_bytes=session.worker_memory_bytes() if session is not None else None,
        )

    def on_decision(self) -> None:
        self._kit.look()
        self._publish_status()

    async def hold_session(self, when: Literal["after_round", "now"]) -> None:
        await self._leave(when, forget=False, held=True)

    def let_session(self) -> None:
        if not self._stop.is_set():
            self._tasks.spawn("session again", self._start_again())
        if self._sync is not None:
            self._sync.wake()

    async def save_all(self) -> None:
        await self._save()

    # Commands.

    async def handle(self, command: c.Command, face: Face) -> Any:
        """Carry out a command from a face; its result, plain.

        Raises:
            ControlError: refused.
        """
        if isinstance(command, c.StopEngine):
            self.stop()
            return None
        await self._begun.wait()
        return await self._carry_out(command)

    async def _carry_out(self, command: c.Command) -> Any:
        match command:
            case c.Join(project=project):
                return await self._join(project)
            case c.OpenLink(link=link):
                return await self._open_link(link)
            case c.Leave(when=when):
                self._wanted = ""
                await self._leave(when, forget=True)
            case c.Pause() | c.Resume() | c.Override() | c.CancelOverride():
                self._guest.obey(command)
            case c.ChangeSettings(changes=changes):
                await self._change_settings(changes)
            case c.RefreshHub():
                await self._refresh_hub()
            case c.DismissProblem(problem_id=problem_id):
                await self._dismiss(problem_id)
            case c.RestartWorker():
                self._restart_worker()
            case c.GetKit():
                self._kit.get()
            case c.PauseKit():
                await self._kit.pause()
            case c.MeasureMachine() | c.CancelMeasure():
                self._measure.obey(command)
            case _:
                return await self._answers.answer(command, self.publisher.state, self._joined)
        return None

    def on_faces(self, faces: tuple[Face, ...]) -> None:
        """Who is connected: nobody who shows them, and the model writes no samples."""
        self._wants_samples = any(face.wants_samples for face in faces)
        self._keeper.post(WatcherChange(self._wants_samples))
        self._guest.shown_by(frozenset(face.pid for face in faces if face.pid))

    async def _join(self, wanted: str) -> dict[str, str]:
        entry = self._find(wanted)
        if entry is None:
            await self._refresh_hub()
            entry = self._find(wanted)
        if entry is None:
            raise ControlError(ErrorCode.UNKNOWN_PROJECT, project=wanted[:80])
        project_id = entry.verified.project_id
        if self._joined is not None and self._joined.project_id == project_id and not self._keeper.leaving:
            return {"project_id": project_id}
        card = next((row for row in self.publisher.state.projects if row.project_id == project_id), None)
        if card is not None and card.unusable_because:
            raise ControlError(ErrorCode.PROJECT_UNUSABLE, detail=card.unusable_because)
        self._keeper.hasten("now")
        async with self._joining:
            if self._stop.is_set():
                raise ControlError(ErrorCode.BAD_REQUEST, detail="the engine is stopping")
            await self._end_session("now", forget=True)
            joined = JoinedProject(
                project_id=project_id, hub_url=self._settings.hub_url, signed=entry.signed, joined_at=self._clock.now()
            )
            await self._keep(self._store.join_project(joined))
            self._joined, self._wanted = joined, ""
            if self._problems.mend(ProblemCode.STORE_REPLACED):  # what it asked for is done
                self._publish_problems()
            await self._start_session(joined)
        return {"project_id": project_id}

    def _find(self, wanted: str) -> CatalogueEntry | None:
        if wanted in self._catalogue:
            return self._catalogue[wanted]
        named = [entry for entry in self._catalogue.values() if entry.verified.manifest.name == wanted]
        return named[0] if len(named) == 1 else None

    async def _join_when_possible(self) -> None:
        """The hub may come up after this engine: try until it works, another word is given, or the engine ends."""
        while wanted := self._wanted:
            try:
                await self._join(wanted)
                return
            except ControlError as error:
                if error.code not in (ErrorCode.HUB_UNREACHABLE, ErrorCode.UNKNOWN_PROJECT):
                    self._wanted = ""
                    self._publish_status()
                    log.error("cannot join %s: %s", wanted, error)
                    return
                log.info("cannot join %s yet: %s", wanted, error)
            await asyncio.sleep(self._tools.times.governor_seconds)

    async def _open_link(self, text: str) -> dict[str, str]:
        """The link's hub is asked first: a link that leads nowhere changes nothing."""
        link = parse_link(text)
        if link.hub.rstrip("/") == self._settings.hub_url.rstrip("/"):
            return await self._join(link.project)
        if self._http is None:
            raise RuntimeError("the engine is not running")
        catalogue = await catalogue_with(link, self._identity, self._http, self.publisher.state.machine)
        await self._change_settings({"hub_url": link.hub})
        self.on_catalogue(catalogue)
        return await self._join(link.project)

    async def _change_settings(self, changes: Mapping[str, SettingValue]) -> None:
        before, after = self._settings, changed(self._settings, changes, self.publisher.state.machine)
        if after.hub_url != before.hub_url:
            try:
                after = msgspec.structs.replace(after, hub_url=checked_hub_url(after.hub_url))
            except UserError as error:
                raise ControlError(ErrorCode.BAD_SETTING, name="hub_url", detail=error.sentence) from error
        self._settings = after
        self.publisher.update(settings=after)
        await self._keep(self._store.save_settings(after))
        if after.hub_url != before.hub_url:
            await self._change_hub()
        if after.display_name != before.display_name:
            if self._sync is not None:
                self._sync.want_name(after.display_name)
            self._keeper.post(NameChange(after.display_name))
        self._guest.look_again()

    def _restart_worker(self) -> None:
        if self._keeper.session is None:
            raise ControlError(ErrorCode.NO_PROJECT)
        for code in (ProblemCode.WORKER_FAILED, ProblemCode.MODEL_MISMATCH, ProblemCode.DATA_UNAVAILABLE):
            self._problems.mend(code)
        self._publish_problems()
        self._keeper.post(WorkerRestart())

    # The session.

    async def _start_session(self, joined: JoinedProject) -> None:
        try:
            project = open_signed(joined.signed)
        except ManifestError as error:
            self._add_problem(ProblemCode.MANIFEST_REFUSED, ProblemAction.DISMISS, {"detail": str(error)})
            self._joined = None
            return
        self._project = project
        with contextlib.suppress(StoreError):
            self.publisher.update(curve=await self._store.load_curve(project.project_id, MAX_CURVE_POINTS))
        if self._guest.lets_sessions and self._kit.ready:  # else it begins later, by `let_session`
            self._keeper.start(joined, project)
        elif self._guest.lets_sessions:
            self._kit.get()
        if self._sync is not None:
            self._sync.want_board(joined.project_id)
        self._publish_projects()
        self._publish_status()

    async def _start_again(self) -> None:
        """The joined project's session, if there is one to run and none runs."""
        async with self._joining:
            if self._joined is not None and not self._keeper.started and not self._stop.is_set():
                await self._start_session(self._joined)

    async def _leave(self, when: Literal["after_round", "now"], *, forget: bool, held: bool = False) -> None:
        """Leave the project: with `forget` for good, with `held` until the limits allow it, else for this run."""
        self._keeper.hasten(when, held=held)
        async with self._joining:
            await self._end_session(when, forget=forget, held=held)

    async def _end_session(self, when: Literal["after_round", "now"], *, forget: bool, held: bool = False) -> None:
        await self._keeper.end(when, held=held)
        self._usable_again()
        if forget and self._joined is not None:
            await self._keep(self._store.leave_project(self._clock.now()))
            self._joined, self._project = None, None
            if self._sync is not None:
                self._sync.want_board(None)
            self.publisher.update(curve=(), leaderboard=Leaderboard())
        self._publish_projects()
        self._publish_status()

    # What the keeper of the session asks and tells (KeeperListener).

    def new_session(self, joined: JoinedProject, project: VerifiedManifest) -> Session:
        if self._http is None:
            raise RuntimeError("the engine is not running")
        session = self._tools.make_session(
            self._config, self._identity, joined, project, self._http, self._clock, self, self._guest.limits
        )
        session.post(NameChange(self._settings.display_name))
        session.post(WatcherChange(self._wants_samples))
        return session

    def on_leaving(self) -> None:
        self._publish_status()

    def on_session_unusable(self, project: VerifiedManifest, error: UserError | OSError) -> None:
        trouble = folder_trouble(error, self._config.paths.project_dir(project.project_id))
        self._usable_again()
        card = self._add_problem(trouble.code, ProblemAction.DISMISS, trouble.params)
        self._unusable = (card, trouble.reason)

    def _usable_again(self) -> None:
        if self._unusable is not None:
            self._problems.remove(self._unusable[0])
            self._unusable = None
            self._publish_problems()

    def on_session_over(self) -> None:
        self._days.session_over()
        self.publisher.update(session=None)
        self._publish_status()

    # What the session tells (SessionListener).

    def on_session_changed(self, state: SessionState) -> None:
        self._usable_again()  # it runs after all
        self._days.note_traffic(state)
        self._measure.on_traffic(state)
        self.publisher.update(session=state, today=self._days.today())
        self._publish_status()

    def on_round(self, info: RoundInfo, train_loss: float | None) -> None:
        if self._joined is None:
            return
        if info.committed:
            self._days.add_round(info.my_tokens)
        row = round_row(self._joined.project_id, info, train_loss)
        self.keep_soon("round", self._store.add_round(row))

    def on_curve_point(self, point: CurvePoint) -> None:
        if self._joined is None:
            return
        self.publisher.update(curve=extended(self.publisher.state.curve, point))
        self.keep_soon("curve", self._store.add_curve_point(self._joined.project_id, point))

    def on_receipts(self, receipts: list[SignedReceipt]) -> None:
        if self._joined is not None:
            self.keep_soon("receipts", self._queue_receipts(self._joined.hub_url, receipts))

    async def _queue_receipts(self, hub_url: str, receipts: list[SignedReceipt]) -> None:
        await self._store.queue_receipts(hub_url, receipts, self._clock.now())
        if self._sync is not None:
            self._sync.wake("receipts")

    def on_tokens_trained(self, tokens: int) -> None:
        self._days.add_trained(tokens)

    def on_problem(self, code: ProblemCode, action: ProblemAction, params: dict[str, Scalar]) -> None:
        self._add_problem(code, action, params)

    def on_mended(self, code: ProblemCode) -> None:
        if self._problems.mend(code):
            self._publish_problems()

    # The hub.

    def _start_sync(self) -> None:
        if self._http is None:
            raise RuntimeError("the engine is not running")
        parts = HubSyncParts(self._identity, self._store, self._clock, self, self._http)
        self._sync = HubSync(parts, self._settings.hub_url)
        self._sync.want_name(self._settings.display_name)
        self._sync.want_board(self._joined.project_id if self._joined else None)
        self._sync_task = self._tasks.spawn("hub", self._sync.run())

    async def _change_hub(self) -> None:
        """Another hub: what the old one listed is gone; a joined project stays with the hub it was joined at."""
        if self._sync_task is not None:
            self._sync_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({self._sync_task})
        self._catalogue = {}
        self.on_hub_mended()
        self.publisher.update(hub=HubStatus(url=self._settings.hub_url, connected=False), leaderboard=Leaderboard())
        self._publish_projects()
        self._start_sync()

    async def _refresh_hub(self) -> None:
        if self._sync is None:
            raise RuntimeError("the engine has not begun")
        try:
            await self._sync.refresh_catalogue()
        except HubError as error:
            raise ControlError(ErrorCode.HUB_UNREACHABLE, url=self._settings.hub_url, detail=error.detail) from error
        self._sync.wake()

    def on_hub_status(self, status: HubStatus) -> None:
        before = self.publisher.state.hub
        if before.connected == status.connected and before.since:
            status = msgspec.structs.replace(status, since=before.since)
        self.publisher.update(hub=status)
        self._publish_status()

    def on_catalogue(self, catalogue: Catalogue) -> None:
        self._catalogue = {entry.verified.project_id: entry for entry in catalogue.projects}
        refused = {dropped.reason for dropped in catalogue.dropped}
        for reason in sorted(refused - self._refused):  # what is known already may have been dismissed
            self._add_problem(ProblemCode.MANIFEST_REFUSED, ProblemAction.DISMISS, {"detail": reason})
        self._refused = refused
        self._publish_projects()

    def on_leaderboard(self, board: Leaderboard) -> None:
        if self._joined is not None and board.project_id == self._joined.project_id:  # not one that was left meanwhile
            self.publisher.update(leaderboard=board)

    def on_hub_trouble(self, error: HubError, lasting_seconds: float) -> None:
        code = ProblemCode.HUB_NONSENSE if isinstance(error, HubNonsense) else ProblemCode.HUB_UNREACHABLE
        url = self._settings.hub_url
        self._add_problem(code, ProblemAction.RETRY_HUB, {"url": url, "detail": error.detail[:120]})

    def on_hub_mended(self) -> None:
        gone = [self._problems.mend(code) for code in (ProblemCode.HUB_UNREACHABLE, ProblemCode.HUB_NONSENSE)]
        if any(gone):
            self._publish_problems()

    # Publishing.

    def _publish_status(self) -> None:
        state, joined = self.publisher.state, self._joined
        entry = self._catalogue.get(joined.project_id) if joined is not None and state.hub.connected else None
        peers_now = entry.peers_now if entry is not None else None
        what = Circumstances(
            joined=self._joined is not None,
            leaving=self._keeper.leaving,
            minimum_peers=self._project.manifest.training.minimum_peers if self._project else 1,
            session=state.session,
            decision=self._guest.decision,
            hub=state.hub,
            leaving_now=self._keeper.leaving_now,
            joining=self._wanted,
            others_unmet=self._unmet.count(state.session, peers_now, self._clock.monotonic()),
            unusable=self._kit.reason or (self._unusable[1] if self._unusable is not None else None),
        )
        self.publisher.update(status=status_of(what, state.status, self._clock.now()))
        self._guest.note()

    def _publish_projects(self) -> None:
        joined = self._joined.project_id if self._joined else None
        known = dict(self._catalogue)
        if joined and self._joined and self._project and joined not in known:
            known[joined] = CatalogueEntry(self._joined.signed, self._project, 0, 0)
        self.publisher.update(projects=cards(known.values(), joined, self.publisher.state.machine, self._measure.fit))

    def _publish_today(self) -> None:
        self.publisher.update(today=self._days.today())

    async def _dismiss(self, problem_id: str) -> None:
        lasting = self._problems.dismiss(problem_id)
        self._publish_problems()
        if lasting:
            await self._keep(self._store.dismiss_problem(problem_id, self._clock.now()))

    def _publish_problems(self) -> None:
        self.publisher.update(problems=self._problems.shown())

    def _add_problem(self, code: ProblemCode, action: ProblemAction, params: dict[str, Scalar]) -> str:
        problem = self._problems.add(code, action, params, self._clock.now())
        self._publish_problems()
        return problem.problem_id
