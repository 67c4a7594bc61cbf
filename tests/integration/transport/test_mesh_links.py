"""Real links of peers that introduce one another while their hub is away."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count

import pytest

from engine.core.tasks import TaskOwner
from engine.signaling.memory import MemoryRendezvous
from engine.transport.webrtc import WebRtcConfig
from tests.helpers.introductions import identities
from tests.helpers.mesh_node import MeshNode

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

RUN = b"r" * 32
PEERS = identities(3)
ANN, BEN, CLEO = (identity.peer_id for identity in PEERS)
CONFIG = WebRtcConfig(loopback_only=True, connect_timeout_seconds=3.0)


@asynccontextmanager
async def three_nodes(rendezvous: MemoryRendezvous) -> AsyncIterator[list[MeshNode]]:
    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(TaskOwner("nodes", close_seconds=20.0))
        ticks = count(0.0, 10.0)  # neighbours may be told with every event
        nodes = [
            MeshNode(me, RUN, rendezvous.room(me.peer_id), CONFIG, tasks, clock=lambda: next(ticks)) for me in PEERS
        ]
        for node in nodes:
            stack.push_async_callback(node.network.close)
            tasks.spawn("node", node.run())
        yield nodes


async def test_two_peers_meet_through_a_third_when_the_hub_is_away() -> None:
    rendezvous = MemoryRendezvous()
    apart = {BEN, CLEO}
    rendezvous.tamper = lambda sender, target, payload: None if {sender, target} == apart else payload
    async with three_nodes(rendezvous) as (ann, ben, cleo):
        await ann.until(lambda: ann.ready() == apart)
        await ben.until(lambda: ben.mesh.neighbours.carriers(CLEO) == (ANN,))
        for peer in (ANN, BEN, CLEO):
            rendezvous.cut(peer)
        before = len(rendezvous.carried)
        await ben.until(lambda: CLEO in ben.ready())
        await cleo.until(lambda: BEN in cleo.ready())
        assert len(rendezvous.carried) == before
        assert ann.ready() == apart


async def test_a_link_that_breaks_without_the_hub_is_made_again() -> None:
    rendezvous = MemoryRendezvous()
    async with three_nodes(rendezvous) as (ann, ben, cleo):
        await ann.until(lambda: len(ann.ready()) == 2)
        await ben.until(lambda: len(ben.ready()) == 2)
        await cleo.until(lambda: len(cleo.ready()) == 2)
        await ben.until(lambda: ANN in ben.mesh.neighbours.carriers(CLEO))
        for peer in (ANN, BEN, CLEO):
            rendezvous.cut(peer)
        await ben.network.drop(CLEO, "the test breaks it")
        await ben.until(lambda: CLEO not in ben.ready())
        await ben.until(lambda: CLEO in ben.ready())
