"""The part of a session that keeps links and introduces neighbours, without the training."""

import asyncio
from collections.abc import Callable

from engine.core.tasks import TaskOwner
from engine.identity.keys import Identity
from engine.runtime.introducer import Introducer
from engine.runtime.peers import PeerTable
from engine.signaling.mesh import MeshRoom, StartedRoom
from engine.transport.base import LinkDown, LinkUp, NetworkEvent, PeerId, Received
from engine.transport.webrtc import WebRtcConfig, WebRtcNetwork
from engine.wire.messages import LineProbe, Neighbours, PassOn

PATIENCE_SECONDS = 60.0


def nothing(_: NetworkEvent) -> None:
    """Nobody watches."""


class MeshNode:
    """`run` is owned by the caller, who closes `network` afterwards."""

    def __init__(
        self,
        me: Identity,
        run: bytes,
        room: StartedRoom,
        config: WebRtcConfig,
        tasks: TaskOwner,
        *,
        on_event: Callable[[NetworkEvent], None] = nothing,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._loop_time = asyncio.get_running_loop().time
        self._clock = clock or self._loop_time
        self._on_event = on_event
        self.mesh = MeshRoom(room, me.peer_id, self._loop_time)
        self.network = WebRtcNetwork(me, run, self.mesh, config)
        self.peers = PeerTable(self.network, run, "test", tasks)
        self.introducer = Introducer(me.peer_id, self.mesh, self.peers)
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Until the network is closed."""
        await self.mesh.start()
        await self.network.start()
        async for event in self.network.events():
            await self._handle(event, self._loop_time())
            self.tell()
            self._on_event(event)
            self._news.set()

    def tell(self) -> None:
        """Let neighbours know of neighbours, when that is due."""
        self.introducer.tell(self._clock())

    async def _handle(self, event: NetworkEvent, now: float) -> None:
        match event:
            case LinkUp():
                self.peers.on_link_up(event, now)
            case LinkDown():
                self.peers.on_link_down(event)
                self.introducer.on_lost(event.peer_id)
            case Received():
                messages, ready = await self.peers.on_received(event, now)
                if ready:
                    self.introducer.on_ready(event.peer_id)
                for message in messages:
                    if isinstance(message, Neighbours | PassOn):
                        self.introducer.on_message(event.peer_id, message, now)
                    else:
                        assert isinstance(message, LineProbe)

    def ready(self) -> set[PeerId]:
        """With whom it can talk."""
        return set(self.peers.ready())

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until an event makes something true."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not true():
                self._news.clear()
                await self._news.wait()
