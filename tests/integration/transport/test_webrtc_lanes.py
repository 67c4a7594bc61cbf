"""Links of several lanes, on loopback: real aiortc associations, introduced over the link's first one."""

import asyncio
import os
from collections.abc import Callable

import pytest

from engine.transport.association import BULK, LINE, Association
from engine.transport.base import Lane, LinkDown, LinkEnd, Received
from engine.transport.config import WebRtcConfig
from engine.transport.link import Link
from engine.wire.limits import MAX_UNDELIVERED_BYTES
from tests.helpers.introductions import identities
from tests.helpers.link_peers import BUSY_MACHINE_SECONDS, Peer, pair, started

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

MEGABYTE = 1024 * 1024


def link_of(peer: Peer) -> Link:
    (link,) = peer.network._links.values()
    return link


async def until(condition: Callable[[], bool]) -> None:
    """Asks again at each turn of the event loop, in which packets come in."""
    async with asyncio.timeout(BUSY_MACHINE_SECONDS):
        while not condition():
            await asyncio.sleep(0)


def lanes_of(peer: Peer, other: Peer) -> int:
    stats = peer.network.stats(other.id)
    return stats.lanes if stats else 0


async def open_lanes(one: Peer, two: Peer, count: int) -> None:
    """Send bulk until the link has `count` lanes at both ends, and until it all came."""
    sent = 0
    while min(lanes_of(one, two), lanes_of(two, one)) < count:
        await one.network.send(two.id, Lane.BULK, bytes(MEGABYTE))
        sent += 1
        assert len((await two.received()).message) == MEGABYTE
    assert sent > 0


async def test_bulk_opens_lanes_and_arrives_whole_in_order_both_ways() -> None:
    async with pair(WebRtcConfig(loopback_only=True, max_lanes=4, max_loopback_lanes=4)) as (one, two):
        assert lanes_of(one, two) == 1
        await open_lanes(one, two, 2)
        messages = [os.urandom(size) for size in (3 * MEGABYTE, 1, 500_000, 0, 2 * MEGABYTE)]
        for sender, receiver in ((one, two), (two, one)):
            sending = asyncio.create_task(_send_all(sender, receiver, messages))
            for message in messages:
                assert await receiver.received() == Received(sender.id, Lane.BULK, message)
            await sending
        assert lanes_of(one, two) <= 4
        traffic = one.network.traffic()
        assert traffic.local_sent_bytes > sum(map(len, messages))
        assert traffic.local_received_bytes > sum(map(len, messages))
        assert traffic.sent_bytes == traffic.received_bytes == 0


async def _send_all(sender: Peer, receiver: Peer, messages: list[bytes]) -> None:
    for message in messages:
        await sender.network.send(receiver.id, Lane.BULK, message)


async def test_with_lanes_control_does_not_wait_behind_bulk() -> None:
    async with pair() as (one, two):
        await open_lanes(one, two, 2)
        await one.network.send(two.id, Lane.BULK, bytes(4 * MEGABYTE))
        await one.network.send(two.id, Lane.CONTROL, b"first")
        assert (await two.received()).message == b"first"
        assert len((await two.received()).message) == 4 * MEGABYTE


async def test_a_lane_that_dies_in_flight_loses_nothing() -> None:
    async with pair(WebRtcConfig(loopback_only=True, max_lanes=3, max_loopback_lanes=3)) as (one, two):
        await open_lanes(one, two, 2)
        message = os.urandom(4 * MEGABYTE)
        await one.network.send(two.id, Lane.BULK, message)
        lanes = link_of(one)._lanes
        assert lanes is not None
        for association in lanes.associations():
            await association.dispose()
        assert (await two.received()).message == message
        await two.network.send(one.id, Lane.CONTROL, b"well")
        assert (await one.received()).message == b"well"


async def test_a_lane_that_goes_mute_holds_nothing_up() -> None:
    async with pair(WebRtcConfig(loopback_only=True, max_lanes=3, max_loopback_lanes=3)) as (one, two):
        await open_lanes(one, two, 2)
        lanes = link_of(one)._lanes
        assert lanes is not None
        for association in lanes.associations():
            mute(association)
        message = os.urandom(MEGABYTE)
        await one.network.send(two.id, Lane.BULK, message)
        assert (await two.received()).message == message


def mute(association: Association) -> None:
    """As if a router forgot it: nothing that this end sends over it arrives."""
    assert association._connection is not None
    assert association._connection.sctp is not None
    for protocol in association._connection.sctp.transport.transport._connection._protocols:
        protocol.transport.sendto = lambda data, addr: None


async def test_a_message_is_taken_back_in_flight() -> None:
    async with pair(WebRtcConfig(loopback_only=True, cap_local_links=True)) as (one, two):
        await open_lanes(one, two, 2)
        one.network.set_limits(1_000_000, None)
        first = await one.network.send(two.id, Lane.BULK, bytes(8 * MEGABYTE))
        second = await one.network.send(two.id, Lane.BULK, b"second")
        receiver = link_of(two)._bulk_in
        assert receiver is not None
        await until(lambda: receiver._assembler.held_bytes > 0)
        assert first.cancel()
        assert (await two.received()).message == b"second"
        assert receiver._assembler.held_bytes == 0
        assert not first.delivered
        await until(lambda: second.delivered)


def forget_the_line_channel(peer: Peer) -> None:
    """What a peer that knows of one lane only does with probes and reports: it never sees them, and sends none."""
    rise = peer.network.link_is_up

    def without_line(link: Link) -> None:
        first = link._first
        assert first is not None
        first.channels[LINE].remove_all_listeners()
        first.channels[LINE].send = lambda data: None  # type: ignore[method-assign]
        rise(link)

    peer.network.link_is_up = without_line  # type: ignore[method-assign]


async def test_a_peer_of_one_lane_gets_frames_and_gives_grants_as_ever() -> None:
    async with started(0) as (rendezvous, _):
        config = WebRtcConfig(loopback_only=True, old_peer_seconds=0.0)
        new, old = (Peer(rendezvous, identity, config) for identity in identities(2))
        forget_the_line_channel(old)
        for peer in (new, old):
            await peer.network.start()
        try:
            await new.up(old)
            await old.up(new)
            message = os.urandom(6 * MEGABYTE)
            await new.network.send(old.id, Lane.BULK, message)
            assert (await old.received()).message == message
            await old.network.send(new.id, Lane.BULK, message)
            assert (await new.received()).message == message
            assert lanes_of(new, old) == lanes_of(old, new) == 1
            assert new.network.stats(old.id).round_trip_seconds is not None  # type: ignore[union-attr]
        finally:
            await asyncio.gather(new.network.close(), old.network.close())


async def test_an_endless_data_channel_message_closes_the_link_before_memory_fills() -> None:
    async with pair() as (one, two):
        first = link_of(one)._first
        assert first is not None
        assert first._connection is not None
        sctp = first._connection.sctp
        assert sctp is not None
        # A message larger than any that a session description allows, as a hostile implementation would send it.
        sctp._remote_max_message_size = 0
        first.channels[BULK].send(bytes(8 * MAX_UNDELIVERED_BYTES))
        event = await two.next()
        assert isinstance(event, LinkDown)
        assert event.code is LinkEnd.MEMORY
        assert isinstance(await one.next(), LinkDown)


async def test_what_was_lost_is_named() -> None:
    async with pair(WebRtcConfig(loopback_only=True, cap_local_links=True)) as (one, two):
        one.network.set_limits(10_000, None)
        for size in (MEGABYTE, 5):
            await one.network.send(two.id, Lane.BULK, bytes(size))
        await one.network.drop(two.id, "stale")
        event = await one.next()
        assert isinstance(event, LinkDown)
        assert event.code is LinkEnd.DROPPED
        (lost,) = event.lost
        assert (lost.lane, lost.count, lost.total_bytes) == (Lane.BULK, 2, MEGABYTE + 5)


async def test_a_download_cap_is_held_by_the_receiver() -> None:
    async with pair(WebRtcConfig(loopback_only=True, cap_local_links=True)) as (one, two):
        two.network.set_limits(None, 1)
        await one.network.send(two.id, Lane.BULK, bytes(MEGABYTE))
        receiver, sender = link_of(two)._bulk_in, link_of(one)._bulk_out
        assert receiver is not None
        assert sender is not None
        granted = receiver._granted
        probes = link_of(two)._line
        seen = probes.received
        await until(lambda: probes.received > seen + 5)
        assert receiver._assembler.held_bytes <= receiver._granted < granted + 100_000 < MEGABYTE
        two.network.set_limits(None, None)
        assert len((await two.received()).message) == MEGABYTE


@pytest.mark.parametrize("channel", [BULK, LINE])
async def test_frames_in_the_wrong_channel_close_the_link(channel: int) -> None:
    async with pair() as (one, two):
        first = link_of(one)._first
        assert first is not None
        first.channels[channel].send(b"\x03\x00\x00\x00\x00\x00\x00\x01")
        event = await two.next()
        assert isinstance(event, LinkDown)
        assert event.code is LinkEnd.PROTOCOL
        assert "a KeepAlive in the" in event.reason
