"""Whole sessions in one loop: memory links, toy trainers, real model states and checkpoints, and what they told."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.checkpoints.store import CheckpointStore
from engine.contract.reasons import ProblemAction, ProblemCode, Scalar
from engine.contract.snapshot import CurvePoint, RoundInfo, SessionState
from engine.core.clock import Clock
from engine.identity.keys import Identity
from engine.ledger.receipts import Receipt, SignedReceipt
from engine.ledger.signing import open_receipt
from engine.manifest.parse import parameter_count
from engine.manifest.schema import Manifest
from engine.manifest.verify import VerifiedManifest, open_signed, seal
from engine.runtime.model import ModelState
from engine.runtime.parts import SessionParts
from engine.runtime.session import Session
from engine.runtime.session_events import LeaveRequest
from engine.transport.base import (
    Lane,
    LineFigures,
    NetworkEvent,
    PeerId,
    PeerNetwork,
    Reachability,
    SentMessage,
    Traffic,
)
from engine.transport.memory import MemoryHub
from engine.wire.codec import decode
from engine.wire.messages import PeerMessage
from tests.helpers.hub_samples import identity
from tests.helpers.tiny_project import tiny_manifest, tiny_training
from tests.helpers.toy_trainer import ToyTrainer
from tests.helpers.virtual_time import LoopClock

PUBLISHER = identity(900)
PATIENCE_SECONDS = 600.0
"""Of the loop's time: a test that needs longer has failed."""

Sent = Callable[[PeerId, PeerId, PeerMessage], None]


def project(**training: Any) -> VerifiedManifest:
    """The tiny project, for groups of two and more, with `training` changed."""
    settings = tiny_training(**{"minimum_peers": 2, "target_batch_samples": 32, **training})
    return sealed(tiny_manifest(training=settings))


def sealed(manifest: Manifest) -> VerifiedManifest:
    """As it comes from a hub."""
    return open_signed(seal(manifest, PUBLISHER))


@dataclass
class Told:
    """A `SessionListener` that keeps everything."""

    news: Callable[[], None]
    state: SessionState | None = None
    rounds: list[RoundInfo] = field(default_factory=list)
    losses: list[float | None] = field(default_factory=list)
    points: list[CurvePoint] = field(default_factory=list)
    receipts: list[SignedReceipt] = field(default_factory=list)
    tokens_trained: int = 0
    problems: list[tuple[ProblemCode, ProblemAction, dict[str, Scalar]]] = field(default_factory=list)
    mended: list[ProblemCode] = field(default_factory=list)

    def on_session_changed(self, state: SessionState) -> None:
        self.state = state
        self.news()

    def on_round(self, info: RoundInfo, train_loss: float | None) -> None:
        self.rounds.append(info)
        self.losses.append(train_loss)
        self.news()

    def on_curve_point(self, point: CurvePoint) -> None:
        self.points.append(point)

    def on_receipts(self, receipts: list[SignedReceipt]) -> None:
        self.receipts += receipts

    def on_tokens_trained(self, tokens: int) -> None:
        self.tokens_trained += tokens

    def on_problem(self, code: ProblemCode, action: ProblemAction, params: dict[str, Scalar]) -> None:
        self.problems.append((code, action, params))
        self.news()

    def on_mended(self, code: ProblemCode) -> None:
        self.mended.append(code)
        self.news()

    @property
    def committed(self) -> list[RoundInfo]:
        return [info for info in self.rounds if info.committed]

    @property
    def hashes(self) -> dict[int, str]:
        """Weights by the step that they belong to."""
        return {info.global_step: info.weights_hash for info in self.committed}

    def opened_receipts(self) -> list[Receipt]:
        """Verified."""
        return [open_receipt(signed) for signed in self.receipts]


class Rendezvous:
    """Nothing to meet at: memory links come up by themselves."""

    def __init__(self) -> None:
        self.started = self.closed = False

    async def start(self) -> None:
        self.started = True

    async def close(self) -> None:
        self.closed = True


class TappedNetwork:
    """A `PeerNetwork` that shows each message to the test just before it leaves."""

    def __init__(self, inner: PeerNetwork, me: PeerId, tap: Sent) -> None:
        self._inner, self._me, self._tap = inner, me, tap
        self.closed = False

    async def start(self) -> None:
        await self._inner.start()

    def events(self) -> AsyncIterator[NetworkEvent]:
        return self._inner.events()

    async def send(self, peer_id: PeerId, lane: Lane, message: bytes) -> SentMessage:
        self._tap(self._me, peer_id, decode(message, lane is Lane.BULK))
        return await self._inner.send(peer_id, lane, message)

    def peers(self) -> tuple[PeerId, ...]:
        return self._inner.peers()

    def stats(self, peer_id: PeerId) -> Any:
        return self._inner.stats(peer_id)

    async def drop(self, peer_id: PeerId, reason: str) -> None:
        await self._inner.drop(peer_id, reason)

    def set_upload_limit(self, bytes_per_second: int | None) -> None:
        self._inner.set_upload_limit(bytes_per_second)

    def set_limits(self, upload_bytes_per_second: int | None, download_bytes_per_second: int | None) -> None:
        self._inner.set_limits(upload_bytes_per_second, download_bytes_per_second)

    def set_relay_only(self, wanted: bool) -> None:
        self._inner.set_relay_only(wanted)

    @property
    def lacks_relay(self) -> bool:
        return self._inner.lacks_relay

    def reachability(self) -> Reachability:
        return self._inner.reachability()

    def line(self) -> LineFigures:
        return self._inner.line()

    def traffic(self) -> Traffic:
        return self._inner.traffic()

    async def close(self) -> None:
        self.closed = True
        await self._inner.close()


class Peer:
    """One session with everything around it."""

    def __init__(self, swarm: "Swarm", number: int, **trainer: Any) -> None:
        self.identity: Identity = identity(number)
        self.peer_id: PeerId = self.identity.peer_id
        self.told = Told(swarm.tell)
        self.rendezvous = Rendezvous()
        self.network = TappedNetwork(swarm.hub.network(self.peer_id), self.peer_id, swarm.sent)
        count = parameter_count(swarm.project.manifest)
        self.trainer = ToyTrainer(self.peer_id, count, **trainer)
        folder = swarm.folder / f"peer-{number}"
        self.checkpoints = CheckpointStore(folder, swarm.project.manifest_hash, count)
        self.model = ModelState(swarm.project, self.checkpoints)
        clock: Clock = LoopClock()
        self.session = Session(
            SessionParts(
                self.identity,
                swarm.project,
                self.rendezvous,
                self.network,
                self.trainer,
                self.model,
                clock,
                self.told,
            ),
            name=f"peer {number}",
        )
        self.task: asyncio.Task[None] | None = None

    @property
    def state(self) -> SessionState:
        assert self.told.state is not None, "the session has told nothing yet"
        return self.told.state

    @property
    def step(self) -> int:
        return self.told.state.global_step if self.told.state is not None else -1

    @property
    def branch(self) -> tuple[int, str]:
        return self.state.global_step, self.state.weights_hash

    def start(self) -> "Peer":
        self.task = asyncio.create_task(self.session.run(), name=f"session {self.peer_id[:8]}")
        return self

    @property
    def done(self) -> bool:
        assert self.task is not None
        return self.task.done()

    async def leave(self, when: Any = "now") -> None:
        """Ask the session to leave, and see it end in order."""
        assert self.task is not None
        self.session.post(LeaveRequest(when))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.task

    async def cancel(self) -> None:
        """As when the engine is torn down."""
        assert self.task is not None
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


class Swarm:
    """Peers of one project on one hub of memory links. Use as a context: what still runs at its end is cancelled."""

    def __init__(self, folder: Path, verified: VerifiedManifest | None = None) -> None:
        self.folder = folder
        self.project = verified if verified is not None else project()
        self.hub = MemoryHub()
        self.peers: list[Peer] = []
        self.messages: list[tuple[PeerId, PeerId, PeerMessage]] = []
        self.taps: list[Sent] = []
        self._news = asyncio.Event()

    async def __aenter__(self) -> "Swarm":
        return self

    async def __aexit__(self, *_: object) -> None:
        for peer in self.peers:
            if peer.task is not None and not peer.task.done():
                await peer.cancel()

    def add(self, number: int, **trainer: Any) -> Peer:
        """A peer that is not started."""
        peer = Peer(self, number, **trainer)
        self.peers.append(peer)
        return peer

    def start(self, *numbers: int, **trainer: Any) -> list[Peer]:
        """Peers that run."""
        return [self.add(number, **trainer).start() for number in numbers]

    def tell(self) -> None:
        """Something changed."""
        self._news.set()
        self._news = asyncio.Event()

    def sent(self, source: PeerId, target: PeerId, message: PeerMessage) -> None:
        """A message is about to leave."""
        self.messages.append((source, target, message))
        for tap in tuple(self.taps):
            tap(source, target, message)
        self.tell()

    async def until(self, true: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
        """Wait, in the loop's time, until something is true. A session that failed meanwhile raises here."""
        async with asyncio.timeout(seconds):
            while not true():
                for peer in self.peers:
                    if peer.task is not None and peer.task.done() and not peer.task.cancelled():
                        peer.task.result()
                await self._news.wait()

    async def until_step(self, step: int, *peers: Peer) -> None:
        """Until these (or all) stand at `step` or beyond, with the same weights at each step they share."""
        chosen = peers or tuple(self.peers)
        await self.until(lambda: all(peer.step >= step for peer in chosen))

    async def until_one_branch(self) -> None:
        """Wait until all stand at the same step with the same weights."""
        await self.until(lambda: len({peer.branch for peer in self.peers}) == 1)

    async def pass_time(self, seconds: float) -> None:
        """Let the loop's time go on."""
        over = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, over.set)
        await over.wait()

    async def leave_all(self, when: Any = "now") -> None:
        """All that still run leave at once."""
        await asyncio.gather(*(peer.leave(when) for peer in self.peers if not peer.done))

    def disagreements(self, *peers: Peer) -> list[int]:
        """Steps whose weights differ between two of these (or all) that committed them."""
        seen: dict[int, set[str]] = {}
        for peer in peers or self.peers:
            for step, digest in peer.told.hashes.items():
                seen.setdefault(step, set()).add(digest)
        return sorted(step for step, digests in seen.items() if len(digests) > 1)

    def committed_rounds(self) -> dict[str, RoundInfo]:
        """Every committed round once, by its id."""
        return {info.round_id: info for peer in self.peers for info in peer.told.committed}


Work = Callable[[], Awaitable[None]]
