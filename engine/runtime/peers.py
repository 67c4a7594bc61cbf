"""Linked peers of one session: what each may say, and queues so that a slow line never holds up the session."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from typing import Final

from engine.core.tasks import TaskOwner
from engine.transport.base import Lane, LinkClosed, LinkDown, LinkUp, PeerId, PeerNetwork, Received
from engine.wire.codec import encode, lane_of
from engine.wire.connection import PeerConnection
from engine.wire.errors import WireError
from engine.wire.messages import PROTOCOL_VERSION, PeerHello, PeerMessage

log = logging.getLogger(__name__)

MAX_QUEUED_MESSAGES: Final = 512
"""More waiting for one peer means that it takes nothing any more: the link is dropped."""


class _Outbox:
    """One lane's queue to one peer, and the task that empties it."""

    def __init__(self, network: PeerNetwork, peer_id: PeerId, lane: Lane) -> None:
        self._network, self._peer_id, self._lane = network, peer_id, lane
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(MAX_QUEUED_MESSAGES)

    def put(self, data: bytes) -> bool:
        """Whether there was room."""
        try:
            self._queue.put_nowait(data)
        except asyncio.QueueFull:
            return False
        return True

    async def emptied(self) -> None:
        """Waits until everything was handed to the link."""
        await self._queue.join()

    async def run(self) -> None:
        """Send in order until the link goes down or the task is cancelled."""
        try:
            while True:
                data = await self._queue.get()
                await self._network.send(self._peer_id, self._lane, data)
                self._queue.task_done()
        except LinkClosed:
            log.debug("link to %s closed while sending", self._peer_id[:8])


class PeerTable:
    """Everyone with a link that is up; `ready` ones have said a hello that fits ours."""

    def __init__(self, network: PeerNetwork, manifest_hash: bytes, software: str, tasks: TaskOwner) -> None:
        self._network = network
        self._hello = PeerHello(protocol_version=PROTOCOL_VERSION, manifest_hash=manifest_hash, software=software)
        self._tasks = tasks
        self._connections: dict[PeerId, PeerConnection] = {}
        self._outboxes: dict[PeerId, dict[Lane, _Outbox]] = defaultdict(dict)
        self._senders: dict[PeerId, list[asyncio.Task[None]]] = {}

    def ready(self) -> tuple[PeerId, ...]:
        """Peers that may be sent anything, sorted."""
        return tuple(sorted(peer for peer, connection in self._connections.items() if connection.ready))

    def on_link_up(self, event: LinkUp, now: float) -> None:
        """Greet the peer; it counts once its own hello fits."""
        self.forget(event.peer_id)
        connection = PeerConnection(self._hello, now)
        self._connections[event.peer_id] = connection
        for lane in Lane:
            outbox = _Outbox(self._network, event.peer_id, lane)
            self._outboxes[event.peer_id][lane] = outbox
            task = self._tasks.spawn(f"send to {event.peer_id[:8]} {lane.name}", outbox.run())
            self._senders.setdefault(event.peer_id, []).append(task)
        self._put(event.peer_id, Lane.CONTROL, connection.hello())

    def on_link_down(self, event: LinkDown) -> bool:
        """Whether the peer had been ready."""
        was_ready = event.peer_id in self.ready()
        self.forget(event.peer_id)
        return was_ready

    async def on_received(self, event: Received, now: float) -> tuple[list[PeerMessage], bool]:
        """The peer's valid messages, and whether it became ready just now. A breach drops its link."""
        connection = self._connections.get(event.peer_id)
        if connection is None:
            return [], False
        was_ready = connection.ready
        try:
            messages = connection.on_message(event.lane is Lane.BULK, event.message, now)
        except WireError as error:
            log.info("refusing %s: %s", event.peer_id[:8], error)
            self.forget(event.peer_id)  # what still waits of it is not heard either
            await self._network.drop(event.peer_id, str(error)[:120])
            return [], False
        return messages, connection.ready and not was_ready

    async def check_deadlines(self, now: float) -> None:
        """Drop links whose peer never said hello."""
        for peer_id, connection in tuple(self._connections.items()):
            try:
                connection.check_deadline(now)
            except WireError as error:
                log.info("refusing %s: %s", peer_id[:8], error)
                self.forget(peer_id)
                await self._network.drop(peer_id, str(error)[:120])

    def send(self, peer_id: PeerId, message: PeerMessage) -> None:
        """Queue a message; one to a peer without a link is dropped, since its LinkDown says what that means."""
        connection = self._connections.get(peer_id)
        if connection is not None and connection.ready:
            self._enqueue(peer_id, message)

    def broadcast(self, message: PeerMessage) -> None:
        """Queue a message to every ready peer."""
        for peer_id in self.ready():
            self._enqueue(peer_id, message)

    async def flush(self, seconds: float) -> None:
        """Give queued control messages this long to leave."""
        waiting = [outboxes[Lane.CONTROL].emptied() for outboxes in self._outboxes.values()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*waiting)

    def forget(self, peer_id: PeerId) -> None:
        """Drop what belonged to a link."""
        self._connections.pop(peer_id, None)
        self._outboxes.pop(peer_id, None)
        for task in self._senders.pop(peer_id, []):
            task.cancel()

    def _enqueue(self, peer_id: PeerId, message: PeerMessage) -> None:
        self._put(peer_id, Lane.BULK if lane_of(message) else Lane.CONTROL, encode(message))

    def _put(self, peer_id: PeerId, lane: Lane, data: bytes) -> None:
        if not self._outboxes[peer_id][lane].put(data):
            log.info("%s takes no more messages; dropping the link", peer_id[:8])
            self._tasks.spawn(f"drop {peer_id[:8]}", self._network.drop(peer_id, "it takes no more messages"))
            self.forget(peer_id)
