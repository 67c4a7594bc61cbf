"""Real links of peers that introduce one another while their hub is away."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from engine.core.tasks import TaskOwner
from engine.identity.keys import Identity
from engine.runtime.introducer import TELL_SECONDS, Introducer
from engine.runtime.peers import PeerTable
from engine.signaling.memory import MemoryRendezvous
from engine.signaling.mesh import MeshRoom
from engine.transport.base import LinkDown, LinkUp, Received
from engine.transport.webrtc import WebRtcConfig, WebRtcNetwork
from engine.wire.messages import Neighbours, PassOn
from tests.helpers.introductions import identities

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

RUN = b"r" * 32
ANN, BEN, CLEO = identities(3)
PATIENCE_SECONDS = 60.0


class Node:
    """The part of a session that keeps links and introduces."""

    def __init__(self, me: Identity, rendezvous: MemoryRendezvous, tasks: TaskOwner) -> None:
        self.room = rendezvous.room(me.peer_id)
        self.mesh = MeshRoom(self.room, me.peer_id, asyncio.get_running_loop().time)
        self.network = WebRtcNetwork(me, RUN, self.mesh, WebRtcConfig(loopback_only=True, connect_timeout_seconds=3.0))
        self.peers = PeerTable(self.network, RUN, "test", tasks)
        self.introducer = Introducer(me.peer_id, self.mesh, self.peers)
        self.told_at = 0.0
        self.news = asyncio.Event()

    async def run(self) -> None:
        await self.mesh.start()
        await self.network.start()
        async for event in self.network.events():
            now = asyncio.get_running_loop().time()
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
                        assert isinstance(message, Neighbours | PassOn)
                        self.introducer.on_message(event.peer_id, message, now)
            self.told_at += TELL_SECONDS  # as if that much time had passed
            self.introducer.tell(self.told_at)
            self.news.set()

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not true():
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def three_nodes(rendezvous: MemoryRendezvous) -> AsyncIterator[list[Node]]:
    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(TaskOwner("nodes", close_seconds=20.0))
        nodes = [Node(me, rendezvous, tasks) for me in (ANN, BEN, CLEO)]
        for node in nodes:
            stack.push_async_callback(node.network.close)
            tasks.spawn("node", node.run())
        yield nodes


async def test_two_peers_meet_through_a_third_when_the_hub_is_away() -> None:
    rendezvous = MemoryRendezvous()
    apart = {BEN.peer_id, CLEO.peer_id}
    rendezvous.tamper = lambda sender, target, payload: None if {sender, target} == apart else payload
    async with three_nodes(rendezvous) as (ann, ben, cleo):
        await ann.until(lambda: set(ann.peers.ready()) == apart)
        await ben.until(lambda: ben.mesh.neighbours.carriers(CLEO.peer_id) == (ANN.peer_id,))
        for identity in (ANN, BEN, CLEO):
            rendezvous.cut(identity.peer_id)
        before = len(rendezvous.carried)
        await ben.until(lambda: CLEO.peer_id in ben.peers.ready())
        await cleo.until(lambda: BEN.peer_id in cleo.peers.ready())
        assert len(rendezvous.carried) == before
        assert set(ann.peers.ready()) == apart


async def test_a_link_that_breaks_without_the_hub_is_made_again() -> None:
    rendezvous = MemoryRendezvous()
    async with three_nodes(rendezvous) as (ann, ben, cleo):
        for node in (ann, ben, cleo):
            await node.until(lambda node=node: len(node.peers.ready()) == 2)  # type: ignore[misc]
        await ben.until(lambda: ANN.peer_id in ben.mesh.neighbours.carriers(CLEO.peer_id))
        for identity in (ANN, BEN, CLEO):
            rendezvous.cut(identity.peer_id)
        await ben.network.drop(CLEO.peer_id, "the test breaks it")
        await ben.until(lambda: CLEO.peer_id not in ben.peers.ready())
        await ben.until(lambda: CLEO.peer_id in ben.peers.ready())
