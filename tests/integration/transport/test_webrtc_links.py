"""Real aiortc links on loopback, introduced through a rendezvous in memory."""

import asyncio
import os
from contextlib import AsyncExitStack

import pytest

from engine.transport.association import BULK
from engine.transport.base import (
    MAX_MESSAGE_BYTES,
    Lane,
    LinkClosed,
    LinkDown,
    PathKind,
    Received,
)
from engine.transport.webrtc import WebRtcConfig
from engine.wire.messages import MAX_CONTROL_BYTES
from tests.helpers.introductions import identities
from tests.helpers.link_peers import BUSY_MACHINE_SECONDS, Peer, pair, started

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


@pytest.mark.parametrize("size", [0, 1, 16 * 1024, 1024 * 1024])
async def test_messages_arrive_whole_both_ways(size: int) -> None:
    message = os.urandom(size)
    async with pair() as (one, two):
        for sender, receiver in ((one, two), (two, one)):
            await sender.network.send(receiver.id, Lane.BULK, message)
            assert await receiver.received() == Received(sender.id, Lane.BULK, message)
            short = message[:MAX_CONTROL_BYTES]
            await sender.network.send(receiver.id, Lane.CONTROL, short)
            assert await receiver.received() == Received(sender.id, Lane.CONTROL, short)


async def test_five_megabytes_both_ways_at_once_and_the_line_is_measured() -> None:
    message = os.urandom(5 * 1024 * 1024)
    async with pair() as (one, two):
        await one.network.send(two.id, Lane.BULK, message)
        await two.network.send(one.id, Lane.BULK, message)
        assert (await two.received()).message == message
        assert (await one.received()).message == message
        stats, other = one.network.stats(two.id), two.network.stats(one.id)
        assert stats is not None
        assert other is not None
        assert stats.bytes_sent > len(message)
        assert stats.bytes_received > len(message)
        assert stats.upload_bytes_per_second is not None
        assert stats.upload_bytes_per_second > 0
        assert other.download_bytes_per_second is not None
        assert stats.path is PathKind.LOOPBACK


async def test_three_peers_all_meet() -> None:
    async with started(3) as (_, peers):
        for peer in peers:
            await peer.up(*(other for other in peers if other is not peer))
            assert peer.network.peers() == tuple(sorted(other.id for other in peers if other is not peer))
        for sender in peers:
            for receiver in peers:
                if sender is not receiver:
                    await sender.network.send(receiver.id, Lane.CONTROL, sender.id.encode())
        for peer in peers:
            got = {(await peer.received()).message.decode() for _ in range(2)}
            assert got == {other.id for other in peers if other is not peer}


async def test_order_holds_within_each_lane() -> None:
    async with pair() as (one, two):
        for number in range(100):
            lane = Lane(number % 2)
            await one.network.send(two.id, lane, number.to_bytes(2, "big") * (1 + 30 * number))
        numbers: dict[Lane, list[int]] = {Lane.CONTROL: [], Lane.BULK: []}
        for _ in range(100):
            event = await two.received()
            numbers[event.lane].append(int.from_bytes(event.message[:2], "big"))
        assert numbers[Lane.CONTROL] == list(range(0, 100, 2))
        assert numbers[Lane.BULK] == list(range(1, 100, 2))


async def test_control_overtakes_bulk() -> None:
    async with pair() as (one, two):
        await one.network.send(two.id, Lane.BULK, bytes(1024 * 1024))
        await one.network.send(two.id, Lane.CONTROL, b"first")
        assert (await two.received()).message == b"first"
        assert len((await two.received()).message) == 1024 * 1024


async def test_round_trips_are_measured() -> None:
    async with pair(WebRtcConfig(loopback_only=True, keep_alive_seconds=0.02)) as (one, two):
        # Answers to later messages come after the pongs to earlier pings: both travel in the control channel.
        stats = one.network.stats(two.id)
        while stats is not None and stats.round_trip_seconds is None:
            await one.network.send(two.id, Lane.CONTROL, b"?")
            await two.received()
            stats = one.network.stats(two.id)
        assert stats is not None
        assert stats.round_trip_seconds is not None
        assert 0 < stats.round_trip_seconds < BUSY_MACHINE_SECONDS


async def test_a_dropped_link_is_told_on_both_sides_and_comes_back() -> None:
    async with pair() as (one, two):
        await one.network.send(two.id, Lane.CONTROL, b"goodbye")
        await one.network.drop(two.id, "stale")
        assert await one.next() == LinkDown(two.id, "stale")
        with pytest.raises(LinkClosed):
            await one.network.send(two.id, Lane.CONTROL, b"x")
        assert (await two.received()).message == b"goodbye"
        assert isinstance(await two.next(), LinkDown)
        await one.up(two)
        await two.up(one)
        await two.network.send(one.id, Lane.CONTROL, b"again")
        assert (await one.received()).message == b"again"


async def test_a_peer_that_dies_without_a_word_is_noticed() -> None:
    config = WebRtcConfig(loopback_only=True, keep_alive_seconds=0.05, silence_seconds=0.4)
    async with pair(config) as (one, two):
        # As if the process was killed: its sockets are gone, nothing is said.
        for link in two.network._links.values():
            assert link._first is not None
            assert link._first._connection is not None
            ice = link._first._connection.sctp.transport.transport._connection
            for protocol in ice._protocols:
                protocol.transport.sendto = lambda data, addr: None
        event = await one.next()
        assert isinstance(event, LinkDown)
        assert "no sign of life" in event.reason


async def test_a_waiting_sender_learns_of_the_end() -> None:
    async with pair(WebRtcConfig(loopback_only=True, cap_local_links=True)) as (one, two):
        one.network.set_upload_limit(1)
        await one.network.send(two.id, Lane.BULK, bytes(4 * 1024 * 1024))
        waiting = asyncio.create_task(one.network.send(two.id, Lane.BULK, bytes(4 * 1024 * 1024)))
        await two.network.close()
        async with asyncio.timeout(BUSY_MACHINE_SECONDS):
            with pytest.raises(LinkClosed):
                await waiting
        assert isinstance(await one.next(), LinkDown)


async def test_closing_while_sending_ends_everything() -> None:
    async with pair() as (one, two):
        for sender, receiver in ((one, two), (two, one)):
            await sender.network.send(receiver.id, Lane.BULK, bytes(8 * 1024 * 1024))
        await one.network.close()
        await one.network.close()
        assert LinkDown(two.id, "this computer leaves") in await one.rest()
        assert one.network.peers() == ()
        assert one.network.stats(two.id) is None
        with pytest.raises(LinkClosed):
            await one.network.send(two.id, Lane.CONTROL, b"x")


async def test_closing_before_anything_connected() -> None:
    async with started(2) as (_, (one, _two)):
        await one.network.close()
        assert [event for event in await one.rest() if isinstance(event, Received)] == []


async def test_messages_beyond_the_limits_are_our_fault() -> None:
    async with pair() as (one, two):
        with pytest.raises(ValueError, match="bulk message"):
            await one.network.send(two.id, Lane.BULK, bytes(MAX_MESSAGE_BYTES + 1))
        with pytest.raises(ValueError, match="control message"):
            await one.network.send(two.id, Lane.CONTROL, bytes(MAX_CONTROL_BYTES + 1))


async def test_a_receivers_limit_closes_the_link_and_says_why() -> None:
    async with started(0) as (rendezvous, _), AsyncExitStack() as stack:
        first, second = identities(2)
        strict = Peer(rendezvous, first, WebRtcConfig(loopback_only=True, max_bulk_bytes=1000))
        other = Peer(rendezvous, second)
        for peer in (strict, other):
            stack.push_async_callback(peer.network.close)
            await peer.network.start()
        await strict.up(other)
        await other.up(strict)
        await other.network.send(strict.id, Lane.BULK, bytes(1001))
        event = await strict.next()
        assert isinstance(event, LinkDown)
        assert event.reason == "it broke the protocol: message 0 of 1001 bytes exceeds 1000"
        assert isinstance(await other.next(), LinkDown)


@pytest.mark.parametrize(
    "garbage", [b"", b"\x07", b"\x01" * 40, b"\x02\x01\x00\x00\x00\x00\xff\xff", "text", bytes(range(256))]
)
async def test_garbage_from_a_peer_closes_its_link_only(garbage: bytes | str) -> None:
    async with pair() as (one, two):
        (link,) = one.network._links.values()
        link._first.channels[BULK].send(garbage)
        event = await two.next()
        assert isinstance(event, LinkDown)
        assert event.reason.startswith("it broke the protocol")
        assert isinstance(await one.next(), LinkDown)
        # Both are well and meet again.
        await one.up(two)


async def test_a_channel_that_nobody_agreed_on_closes_the_link() -> None:
    async with pair() as (one, two):
        (link,) = one.network._links.values()
        assert link._first is not None
        link._first._connection.createDataChannel("back door")
        event = await two.next()
        assert isinstance(event, LinkDown)
        assert "nobody agreed on" in event.reason


async def test_a_link_outlives_the_room() -> None:
    async with started(2) as (rendezvous, (one, two)):
        await one.up(two)
        await two.up(one)
        rendezvous.cut(one.id)
        rendezvous.cut(two.id)
        await one.network.send(two.id, Lane.CONTROL, b"still here")
        assert (await two.received()).message == b"still here"
        rendezvous.restore(one.room)
        rendezvous.restore(two.room)
        await two.network.send(one.id, Lane.CONTROL, b"and still")
        assert (await one.received()).message == b"and still"


async def test_a_restarted_peer_is_connected_anew() -> None:
    async with started(2) as (rendezvous, (one, two)):
        await one.up(two)
        await two.up(one)
        await one.network.close()
        assert isinstance(await two.next(), LinkDown)
        again = Peer(rendezvous, identities(2)[0])
        await again.network.start()
        try:
            await again.up(two)
            await two.up(again)
        finally:
            await again.network.close()
