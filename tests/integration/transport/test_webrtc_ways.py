"""A network that is told which ways it may take."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from engine.signaling.memory import MemoryRendezvous
from engine.transport.base import LinkDown, LinkEnd, LinkUp
from engine.transport.webrtc import WebRtcConfig, WebRtcNetwork
from tests.helpers.introductions import identities

pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]

RUN = b"r" * 32
ANN, BEN = identities(2)


@pytest.fixture
async def pair() -> AsyncIterator[tuple[WebRtcNetwork, WebRtcNetwork]]:
    rendezvous = MemoryRendezvous()
    config = WebRtcConfig(loopback_only=True)
    networks = [WebRtcNetwork(me, RUN, rendezvous.room(me.peer_id), config) for me in (ANN, BEN)]
    for network in networks:
        await network.start()
    yield networks[0], networks[1]
    for network in networks:
        await network.close()


async def test_links_that_send_from_a_lost_address_end_and_come_back(
    pair: tuple[WebRtcNetwork, WebRtcNetwork],
) -> None:
    for network in pair:
        events = network.events()
        async with asyncio.timeout(30):
            assert isinstance(await anext(events), LinkUp)
    gone = frozenset({"127.0.0.1"})  # what a link on loopback sends from
    pair[0].on_addresses(gone, frozenset())
    events = pair[0].events()
    async with asyncio.timeout(30):
        down = await anext(events)
        assert isinstance(down, LinkDown)
        assert down.code is LinkEnd.MOVED
        assert isinstance(await anext(events), LinkUp)


async def test_an_address_more_ends_nothing(pair: tuple[WebRtcNetwork, WebRtcNetwork]) -> None:
    async with asyncio.timeout(30):
        assert isinstance(await anext(pair[0].events()), LinkUp)
    pair[0].on_addresses(frozenset({"127.0.0.1"}), frozenset({"127.0.0.1", "192.168.1.2"}))
    assert pair[0].peers() == (BEN.peer_id,) or pair[0].peers() == (ANN.peer_id,)


async def test_without_a_relay_a_hidden_computer_tries_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "engine.transport.webrtc")
    rendezvous = MemoryRendezvous()
    ann = WebRtcNetwork(ANN, RUN, rendezvous.room(ANN.peer_id), WebRtcConfig())
    ben = WebRtcNetwork(BEN, RUN, rendezvous.room(BEN.peer_id), WebRtcConfig())
    small, large = (ann, ben) if ANN.peer_id < BEN.peer_id else (ben, ann)
    small.set_relay_only(True)
    assert not small.lacks_relay  # the room is not entered yet
    await small.start()
    async with asyncio.timeout(30):
        while "no relay" not in caplog.text:
            await asyncio.sleep(0)
    assert small.lacks_relay
    assert rendezvous.carried == []
    await small.close()
    await large.close()


async def test_on_loopback_there_is_no_address_to_hide(pair: tuple[WebRtcNetwork, WebRtcNetwork]) -> None:
    async with asyncio.timeout(30):
        assert isinstance(await anext(pair[0].events()), LinkUp)
    pair[0].set_relay_only(True)
    assert not pair[0].lacks_relay
    assert len(pair[0].peers()) == 1
