"""One project being trained: the task that takes every decision, fed by one queue.

Network, worker and commands post events; `run` handles one at a time, asks the PURE machines what follows, and carries
it out. Nothing here waits for a peer: what goes to peers is queued (`peers.PeerTable`), what comes back is an event.
"""

import asyncio
import contextlib
import logging
import math
import secrets
from collections.abc import AsyncIterator
from typing import Final

from engine.averaging.effects import Committed, Discarded, Missed, RoundMessage, RoundResult, RoundSetup
from engine.averaging.kernels import NonFiniteGradient, mean_of
from engine.checkpoints.errors import CheckpointError
from engine.contract.reasons import ProblemAction, ProblemCode
from engine.contract.version import PRODUCT_VERSION
from engine.core.tasks import TaskOwner
from engine.runtime.catch_up import Donor, Fetch, FetchFailed
from engine.runtime.introducer import Introducer
from engine.runtime.link_book import LinkBook
from engine.runtime.measuring import Measuring
from engine.runtime.parts import SessionParts
from engine.runtime.peers import PeerTable
from engine.runtime.report import SessionReport, agreeing_count, peer_rows
from engine.runtime.round_book import RoundBook
from engine.runtime.round_driver import RoundDriver
from engine.runtime.session_events import (
    LeaveRequest,
    Limits,
    NameChange,
    SessionCommand,
    SessionEvent,
    WatcherChange,
    WorkerRestart,
    work_of,
)
from engine.runtime.trainer import TrainerEvent, TrainerGivenUp, TrainerLost, TrainerReady, TrainerWantsRest
from engine.runtime.work import Work
from engine.swarm.progress import CatchUp, Lead, SwarmView
from engine.training.protocol import Accumulated, Evaluated, Frozen, Written
from engine.transport.base import LinkDown, LinkUp, NetworkEvent, PeerId, Received
from engine.wire.messages import (
    Accept,
    Chunk,
    ChunkRequest,
    Decline,
    Discard,
    Goodbye,
    LineProbe,
    Neighbours,
    PassOn,
    PeerMessage,
    Progress,
    Propose,
    StateOffer,
    StateRequest,
    StateUnavailable,
)

log = logging.getLogger(__name__)

PROGRESS_SECONDS: Final = 3.0
"""A peer says how far it is at least this often."""
MIN_PROGRESS_SECONDS: Final = 0.25
LEAVE_SECONDS: Final = 30.0
"""A polite leave waits this long for the round that carries the last work."""
ROUND_SHOWN_AFTER_SECONDS: Final = 3.0
"""A shorter round is part of training; a longer one is worth telling."""
GOODBYE_SECONDS: Final = 1.0
MAX_DONORS: Final = 3
TELL_SECONDS: Final = 0.25
"""While events wait, the state is told this often: a round brings thousands of them."""
MAX_WAITING_EVENTS: Final = 256
FREEZE_PATIENCE_FRACTION: Final = 0.8
"""Of the time that a leader gives: a worker that has not frozen by then is left out, its engine is not."""

_GIVEN_UP_CODES: Final = {
    "model_mismatch": ProblemCode.MODEL_MISMATCH,
    "data_unavailable": ProblemCode.DATA_UNAVAILABLE,
}


class Session:
    """Takes part in one project from `run`'s start to its end. `post` may be called at any time."""

    def __init__(self, parts: SessionParts, name: str = "", limits: Limits | None = None) -> None:
        manifest = parts.project.manifest
        self._parts = parts
        self._me = parts.identity.peer_id
        self._name = name
        self._queue: asyncio.Queue[SessionEvent] = asyncio.Queue()
        self._room = asyncio.Semaphore(MAX_WAITING_EVENTS)
        self._tasks = TaskOwner("session", close_seconds=10.0)
        self._peers = PeerTable(parts.network, parts.project.manifest_hash, f"potluck {PRODUCT_VERSION}", self._tasks)
        self._introducer = Introducer(self._me, parts.mesh, self._peers)
        self._links = LinkBook(parts.network, parts.clock)
        self._swarm = SwarmView(self._me, manifest.training.target_batch_samples, manifest.training.minimum_peers)
        self._book = RoundBook(parts.identity, parts.project, parts.model, parts.clock)
        patience_seconds = FREEZE_PATIENCE_FRACTION * self._book.config.deadlines.gather_seconds
        self._work = Work(parts.trainer, parts.model, patience_seconds)
        self._donor = Donor(self._peers)
        self._round: RoundDriver | None = None
        self._fetch: Fetch | None = None
        self._report = SessionReport()
        self._measuring = Measuring(parts, self._report, self._book)
        self._limits = limits if limits is not None else Limits(duty=1.0, threads=1)
        self._known: dict[PeerId, Progress] = {}
        self._fetch_whole = False  # the steps alone did not lead to the swarm's weights
        self._sequence = 0
        self._said_at = self._told_at = -math.inf
        self._say_soon = True
        self._say_at_once = True
        self._leave_by: float | None = None
        self._ended = False

    def post(self, event: SessionEvent) -> None:
        """Hand over an event or a command; it is handled in order."""
        self._queue.put_nowait(event)

    def worker_memory_bytes(self) -> int | None:
        """Resident memory of the training process."""
        return self._parts.trainer.memory_bytes()

    def has_gpu(self) -> bool | None:
        """Whether the worker can use a graphics processor; None before one looked."""
        return self._parts.trainer.has_gpu

    async def run(self) -> None:
        """Until left. Closes the network and the trainer, and saves a checkpoint when it ends in order.

        Raises:
            CheckpointError, OSError: the project's folder cannot be used.
        """
        parts = self._parts
        async with contextlib.AsyncExitStack() as closing:  # each is closed, whatever happens to another
            closing.push_async_callback(parts.trainer.close)
            closing.push_async_callback(parts.rendezvous.close)
            closing.push_async_callback(parts.network.close)
            async with self._tasks:
                await self._load()
                self._tasks.spawn("network", self._pump(parts.network.events()))
                self._tasks.spawn("worker", self._pump(parts.trainer.events()))
                self._links.limit(self._limits)
                await self._work.limit(self._limits)
                await parts.trainer.start()
                await parts.rendezvous.start()
                await parts.network.start()
                await self._decide_until_left()
                await self._save()
                self._peers.broadcast(Goodbye(reason="left"))
                await self._peers.flush(GOODBYE_SECONDS)

    async def _load(self) -> None:
        model = self._parts.model
        await model.load()
        for damaged in model.damaged:
            self._parts.listener.on_problem(
                ProblemCode.CHECKPOINT_UNREADABLE,
                ProblemAction.DISMISS,
                {"path": str(damaged.path), "detail": damaged.reason},
            )

    # The loop.

    async def _pump(self, events: AsyncIterator[NetworkEvent] | AsyncIterator[TrainerEvent]) -> None:
        async for event in events:
            await self._room.acquire()  # a flood waits at its source, not in memory
            self._queue.put_nowait(event)
        if not self._ended:
            raise RuntimeError("the network or the trainer ended by itself")  # closing it tells the cause

    async def _decide_until_left(self) -> None:
        while not self._ended:
            event = await self._next_event()
            if event is not None:
                await self._handle(event)
            await self._advance()
            if self._queue.empty() or self._now() - self._told_at >= TELL_SECONDS:
                self._tell()

    async def _next_event(self) -> SessionEvent | None:
        """The next event, or None when something is due before one comes."""
        now = self._now()
        deadlines = [now + self._swarm.next_check_seconds(now)]
        waited_for = [self._leave_by]
        if self._round is not None:
            waited_for.append(self._round.next_deadline())
            if not self._round.frozen:
                waited_for.append(self._work.next_deadline())
        if self._fetch is not None:
            waited_for.append(self._fetch.next_deadline())
        deadlines += [at for at in waited_for if at is not None]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(deadlines) - now)):
                event = await self._queue.get()
                if not isinstance(event, SessionCommand):
                    self._room.release()
                return event
        return None

    def _now(self) -> float:
        return self._parts.clock.monotonic()

    # Events.

    async def _handle(self, event: SessionEvent) -> None:
        now = self._now()
        match event:
            case LinkUp():
                self._links.on_up(event, now)
                self._peers.on_link_up(event, now)
            case LinkDown():
                self._on_link_down(event, now)
            case Received():
                await self._on_received(event, now)
            case TrainerReady() | TrainerLost() | TrainerGivenUp():
                await self._on_trainer(event, now)
            case Accumulated():
                self._on_accumulated(event, now)
            case Frozen():
                await self._on_frozen(event, now)
            case Evaluated():
                self._measuring.on_evaluated(event)
                self._say_soon = True
            case Written():
                self._measuring.on_written(event)
            case TrainerWantsRest():
                if self._round is None:
                    await self._work.rest(now)
            case _:
                await self._on_command(event, now)

    def _on_link_down(self, event: LinkDown, now: float) -> None:
        log.info("link to %s is down: %s", event.peer_id[:8], event.reason)
        self._links.on_down(event)
        self._peers.on_link_down(event)
        self._lose_peer(event.peer_id, now)

    def _lose_peer(self, peer: PeerId, now: float) -> None:
        self._swarm.on_peer_lost(peer)
        self._introducer.on_lost(peer)
        self._known.pop(peer, None)
        if self._round is not None:
            self._round.on_peer_lost(peer, now)
        if self._fetch is not None:
            self._fetch.on_peer_lost(peer)

    async def _on_received(self, event: Received, now: float) -> None:
        messages, became_ready = await self._peers.on_received(event, now)
        if became_ready:
            self._swarm.on_peer_up(event.peer_id, now)
            self._introducer.on_ready(event.peer_id)
            self._peers.send(event.peer_id, self._progress(now))
        for message in messages:
            await self._on_message(event.peer_id, message, now)

    async def _on_message(self, peer: PeerId, message: PeerMessage, now: float) -> None:
        match message:
            case Progress():
                self._on_progress(peer, message, now)
            case Goodbye():
                self._lose_peer(peer, now)
                await self._parts.network.drop(peer, "it left")
            case Propose():
                await self._on_propose(peer, message, now)
            case StateRequest():
                await self._donor.on_request(peer, message, self._parts.model, now)
            case ChunkRequest():
                self._donor.on_chunk_request(peer, message, now)
            case StateOffer() | StateUnavailable() | Chunk():
                if self._fetch is not None:
                    self._fetch.on_message(peer, message, self._parts.model.state.parameter_count)
            case Neighbours() | PassOn():
                self._introducer.on_message(peer, message, now)
            case LineProbe():
                pass  # the transport has measured it
            case _:
                self._on_round_message(peer, message, now)

    def _on_progress(self, peer: PeerId, progress: Progress, now: float) -> None:
        self._swarm.on_progress(peer, progress, now)
        self._known[peer] = progress
        self._measuring.on_progress(progress)

    async def _on_propose(self, peer: PeerId, message: Propose, now: float) -> None:
        refusal = self._why_not(peer, message, now)
        if refusal:
            self._peers.send(peer, Decline(round_id=message.round_id, reason=refusal))
            return
        if self._round is not None:
            self._round.abort("yields to another leader", now)
            await self._advance_round(self._round, now)
        setup = RoundSetup(
            round_id=message.round_id,
            leader=peer,
            global_step=message.global_step,
            weights_hash=message.weights_hash,
            attempt=message.attempt,
        )
        self._begin_round(setup, now)

    def _why_not(self, peer: PeerId, message: Propose, now: float) -> str:
        """Why a proposal is declined, or ""."""
        if self._fetch is not None:
            return "catching up"
        if not self._takes_part():
            return "paused"
        if self._round is not None and not (self._round.yields and self._swarm.outranks(peer, now)):
            return "in another round"
        return self._swarm.judge(peer, message, now)

    def _takes_part(self) -> bool:
        """Computing, or with work from before a pause that the next round should carry."""
        return self._limits.duty > 0.0 or self._work.totals.samples > 0

    def _on_round_message(self, peer: PeerId, message: PeerMessage, now: float) -> None:
        if not isinstance(message, RoundMessage):
            return
        if self._round is not None and message.round_id == self._round.setup.round_id:
            self._round.on_message(peer, message, now)
        elif isinstance(message, Accept):  # it was too late for the roll: let it go on at once
            self._peers.send(peer, Discard(round_id=message.round_id, reason="the round began without you"))

    async def _on_trainer(self, event: TrainerReady | TrainerLost | TrainerGivenUp, now: float) -> None:
        if isinstance(event, TrainerReady):
            self._work.on_ready()
            self._report.worker_gave_up = ""
            await self._resume_training(keep=True)
            await self._measuring.on_worker_ready()
            return
        self._work.on_lost(frozen=self._round is not None and self._round.frozen)
        self._report.speed.restart()
        self._say_soon = True
        if isinstance(event, TrainerGivenUp):
            self._report.worker_gave_up = event.kind
            code = _GIVEN_UP_CODES.get(event.kind, ProblemCode.WORKER_FAILED)
            self._parts.listener.on_problem(
                code, ProblemAction.RESTART_WORKER, {"detail": event.detail[:300], "restarts": event.restarts}
            )

    def _on_accumulated(self, event: Accumulated, now: float) -> None:
        more = self._work.on_accumulated(event)
        if more is None:
            return
        if more:
            self._parts.listener.on_tokens_trained(more)
        self._report.speed.on_accumulated(event, now)
        self._say_soon = True

    async def _on_frozen(self, event: Frozen, now: float) -> None:
        if not self._work.on_frozen(event):
            return
        if self._round is None:
            if not await self._work.rests(event):
                await self._resume_training(keep=True)
            return
        self._round.on_frozen(event, now)

    async def _on_command(self, event: SessionEvent, now: float) -> None:
        match event:
            case Limits():
                await self._on_limits(event)
            case LeaveRequest(when=when):
                self._report.leaving = True
                by = now + (LEAVE_SECONDS if when == "after_round" else 0.0)
                self._leave_by = by if self._leave_by is None else min(by, self._leave_by)
            case WatcherChange(wants_samples=wants):
                await self._measuring.on_watcher(wants)
            case NameChange(name=name):
                self._name, self._say_soon = name, True
            case WorkerRestart():
                await self._parts.trainer.start_again()
            case _:
                log.error("an event of no known kind: %r", event)

    async def _on_limits(self, limits: Limits) -> None:
        before, self._limits = self._limits, limits
        self._links.limit(self._limits)
        if work_of(before) != work_of(limits):
            await self._work.limit(limits)
            self._report.speed.restart()
            self._say_soon = True

    # What follows from the events.

    async def _advance(self) -> None:
        now = self._now()
        if self._round is not None:
            await self._advance_round(self._round, now)
        if self._fetch is not None:
            await self._advance_fetch(self._fetch, now)
        await self._peers.check_deadlines(now)
        self._introducer.tell(now)
        self._links.probe(self._peers, now)
        await self._rest_while_alone()
        self._say_progress(now)
        if self._leave_by is not None and now >= self._leave_by:
            await self._end(now)
        elif self._round is None and self._fetch is None:
            if self._leave_by is not None and not self._has_work_to_hand_in():
                self._ended = True
                return
            await self._follow_swarm(now)

    async def _end(self, now: float) -> None:
        """Without waiting for anything; a round in progress is told."""
        self._ended, self._fetch = True, None
        if self._round is not None:
            self._round.abort("leaves the project", now)
            await self._advance_round(self._round, now)

    def _has_work_to_hand_in(self) -> bool:
        """There is something accumulated, and enough others to take it."""
        return self._work.totals.samples > 0 and self._enough_peers()

    def _enough_peers(self) -> bool:
        return len(self._peers.ready()) + 1 >= self._parts.project.manifest.training.minimum_peers

    async def _rest_while_alone(self) -> None:
        """More work than a round takes is worth nothing while too few computers are here for a round."""
        target = self._parts.project.manifest.training.target_batch_samples
        idle = self._round is None and self._fetch is None
        if await self._work.halt(idle and self._work.totals.samples >= target and not self._enough_peers()):
            self._report.speed.restart()
            self._say_soon = True

    async def _follow_swarm(self, now: float) -> None:
        match self._swarm.decide(now):
            case Lead(attempt=attempt, candidates=candidates) if self._takes_part():
                setup = RoundSetup(
                    round_id=secrets.token_bytes(16),
                    leader=self._me,
                    global_step=self._parts.model.global_step,
                    weights_hash=self._parts.model.weights_hash,
                    candidates=candidates,
                    attempt=attempt,
                )
                self._begin_round(setup, now)
                await self._advance()
            case CatchUp(donors=donors) if self._limits.duty > 0.0:
                await self._begin_fetch(donors, now)
            case _:
                pass

    def _begin_round(self, setup: RoundSetup, now: float) -> None:
        self._round = RoundDriver(self._me, self._book, setup, self._peers, self._links.figures, now)

    async def _advance_round(self, driver: RoundDriver, now: float) -> None:
        if (at := driver.next_deadline()) is not None and now >= at:
            driver.on_timer(now)
        outcome = await driver.advance(self._work, self._parts.clock)
        if outcome is None:
            return
        self._round = None
        match outcome:
            case Committed(result=result):
                await self._on_committed(result, driver)
            case Discarded(reason=reason, blame=blame):
                self._on_discarded(driver, reason, blame)
                if driver.frozen or not self._work.responds(now):  # else it resumes when the freeze is answered
                    await self._resume_training(keep=True)
            case Missed(reason=reason):
                log.info("missed a round: %s", reason)
                await self._resume_training(keep=False)
        self._say_soon = True

    async def _on_committed(self, result: RoundResult, driver: RoundDriver) -> None:
        model, report = self._parts.model, self._report
        try:
            await model.apply(mean_of(result))
        except NonFiniteGradient as error:
            # Every member computes the same, so all of them refuse it alike.
            self._on_discarded(driver, str(error), None)
            await self._resume_training(keep=False)
            return
        now = self._now()
        self._work.spend()
        self._say_at_once, self._told_at = True, -math.inf  # every step is told
        entry = self._book.committed(result, driver, now)
        report.rounds_committed += 1
        report.tokens_committed += entry.info.tokens
        report.my_tokens_committed += entry.info.my_tokens
        report.last_round, report.train_loss = entry.info, result.train_loss
        await self._resume_training(keep=False)
        self._parts.listener.on_round(entry.info, result.train_loss)
        self._parts.listener.on_curve_point(entry.point)
        if entry.receipts:
            self._parts.listener.on_receipts(entry.receipts)
        await self._measuring.after_step(result.roll)
        if model.global_step % model.manifest.training.checkpoint_every_steps == 0:
            await self._save()

    def _on_discarded(self, driver: RoundDriver, reason: str, blame: PeerId | None) -> None:
        now = self._now()
        log.info("round %s discarded: %s", driver.setup.round_id.hex()[:8], reason)
        self._swarm.on_round_discarded(blame, now)
        self._report.rounds_discarded += 1
        info = self._book.discarded(driver, reason, now)
        self._report.last_round = info
        self._parts.listener.on_round(info, None)

    async def _resume_training(self, *, keep: bool) -> None:
        """Let the worker accumulate at the present step, unless the swarm is elsewhere."""
        if self._fetch is None:
            self._report.speed.restart()
            await self._work.resume(keep=keep)

    async def _begin_fetch(self, donors: tuple[PeerId, ...], now: float) -> None:
        await self._work.freeze(now)
        self._work.spend()
        step = None if self._fetch_whole else self._parts.model.global_step
        self._fetch = Fetch(donors[:MAX_DONORS], step, self._peers, now)
        self._report.catch_up_fraction = 0.0

    async def _advance_fetch(self, fetch: Fetch, now: float) -> None:
        try:
            done = await fetch.poll(self._parts.model, now)
        except FetchFailed as error:
            self._fetch_failed(error)
            await self._resume_training(keep=False)
            return
        self._report.catch_up_fraction = fetch.fraction
        if done:
            log.info("caught up: now at step %d", self._parts.model.global_step)
            for donor in fetch.donors:
                self._swarm.on_caught_up(donor)
            self._book.packer.forget()
            self._fetch, self._report.catch_up_fraction, self._fetch_whole = None, None, False
            self._say_at_once = True
            await self._resume_training(keep=False)

    def _fetch_failed(self, error: FetchFailed) -> None:
        log.info("could not catch up: %s", error)
        if not error.steps_differ:
            self._swarm.on_catch_up_failed(error.peer_id, self._now())
        self._fetch, self._report.catch_up_fraction, self._fetch_whole = None, None, True

    async def _save(self) -> None:
        try:
            await self._parts.model.save()
        except CheckpointError as error:
            log.info("no checkpoint: %s", error)
            self._parts.listener.on_problem(
                ProblemCode.CHECKPOINT_DISK_FULL,
                ProblemAction.DISMISS,
                {"path": str(error.path.parent), "detail": error.reason},
            )
            return
        self._report.checkpoint_at = self._parts.clock.now()
        self._parts.listener.on_mended(ProblemCode.CHECKPOINT_DISK_FULL)

    # What others hear.

    def _say_progress(self, now: float) -> None:
        progress = self._progress(now)
        self._swarm.set_mine(progress, now)
        waited = now - self._said_at
        if self._say_at_once or waited >= PROGRESS_SECONDS or (self._say_soon and waited >= MIN_PROGRESS_SECONDS):
            self._said_at, self._say_soon, self._say_at_once = now, False, False
            self._peers.broadcast(progress)

    def _progress(self, now: float) -> Progress:
        model = self._parts.model
        measured, line = self._measuring.mine, self._links.figures()
        self._sequence += 1
        rate = self._report.speed.samples_per_second if self._work.computing else None
        return Progress(
            sequence=self._sequence,
            global_step=model.global_step,
            weights_hash=model.weights_hash,
            samples=self._work.totals.samples,
            samples_per_second=rate or 0.0,
            upload_bytes_per_second=line[0],
            download_bytes_per_second=line[1],
            training=self._takes_part() and self._fetch is None,
            name=self._name,
            held_out_loss=measured[1] if measured else None,
            held_out_step=measured[0] if measured else None,
        )

    def _tell(self) -> None:
        now = self._told_at = self._now()
        estimate = self._swarm.estimate(now)
        parts, known = self._parts, self._known
        parts.listener.on_session_changed(
            self._report.session_state(
                parts,
                self._work.totals.samples,
                (estimate.samples_now, estimate.samples_per_second),
                peer_rows(parts.network, self._peers, known),
                agreeing_count(self._peers, known, parts.model),
                self._round is not None and now - self._round.started_at > ROUND_SHOWN_AFTER_SECONDS,
                self._links,
                self._links.figures(),
            )
        )
