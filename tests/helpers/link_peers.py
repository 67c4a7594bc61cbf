"""Two or more networks of real aiortc links on loopback, introduced through a rendezvous in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from engine.identity.keys import Identity
from engine.signaling.memory import MemoryRendezvous, MemoryRoom
from engine.transport.base import LinkUp, NetworkEvent, PathKind, PeerNetwork, Received
from engine.transport.webrtc import WebRtcConfig, WebRtcNetwork
from tests.helpers.introductions import identities

RUN = b"r" * 32
LOOPBACK = WebRtcConfig(loopback_only=True)
BUSY_MACHINE_SECONDS = 60.0


class Peer:
    """A network with its room and its events."""

    def __init__(
        self, rendezvous: MemoryRendezvous, identity: Identity, config: WebRtcConfig = LOOPBACK, run: bytes = RUN
    ) -> None:
        self.id = identity.peer_id
        self.room: MemoryRoom = rendezvous.room(identity.peer_id)
        self.network = WebRtcNetwork(identity, run, self.room, config)
        self.interface: PeerNetwork = self.network
        self._events = self.network.events()

    async def next(self) -> NetworkEvent:
        async with asyncio.timeout(BUSY_MACHINE_SECONDS):
            return await anext(self._events)

    async def up(self, *others: "Peer") -> None:
        """Wait until the links to `others` are up."""
        waiting = {other.id for other in others}
        while waiting:
            event = await self.next()
            assert isinstance(event, LinkUp)
            assert event.path is PathKind.LOOPBACK
            waiting.remove(event.peer_id)

    async def received(self) -> Received:
        event = await self.next()
        assert isinstance(event, Received)
        return event

    async def rest(self) -> list[NetworkEvent]:
        async with asyncio.timeout(BUSY_MACHINE_SECONDS):
            return [event async for event in self._events]


@asynccontextmanager
async def started(count: int, config: WebRtcConfig = LOOPBACK) -> AsyncIterator[tuple[MemoryRendezvous, list[Peer]]]:
    rendezvous = MemoryRendezvous()
    async with AsyncExitStack() as stack:
        peers = []
        for identity in identities(count):
            peer = Peer(rendezvous, identity, config)
            stack.push_async_callback(peer.network.close)
            await peer.network.start()
            peers.append(peer)
        yield rendezvous, peers


@asynccontextmanager
async def pair(config: WebRtcConfig = LOOPBACK) -> AsyncIterator[tuple[Peer, Peer]]:
    async with started(2, config) as (_, (one, two)):
        await one.up(two)
        await two.up(one)
        yield one, two
