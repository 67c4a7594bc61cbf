import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.transport.base import (
    MAX_MESSAGE_BYTES,
    Lane,
    LinkClosed,
    LinkDown,
    LinkUp,
    NetworkEvent,
    PathKind,
    PeerNetwork,
    Received,
)
from engine.transport.memory import MemoryHub, MemoryNetwork
from engine.wire.limits import MAX_BACKLOG_BYTES

UP_A, UP_B = LinkUp("a", PathKind.MEMORY), LinkUp("b", PathKind.MEMORY)


async def started(hub: MemoryHub, *names: str) -> list[MemoryNetwork]:
    networks = [hub.network(name) for name in names]
    for network in networks:
        await network.start()
    return networks


async def take(events: AsyncIterator[NetworkEvent], count: int) -> list[NetworkEvent]:
    async with asyncio.timeout(5):
        return [await anext(events) for _ in range(count)]


def as_interface(network: MemoryNetwork) -> PeerNetwork:
    """Holds the class to the protocol when types are checked."""
    return network


async def test_messages_arrive_in_order_in_both_lanes() -> None:
    a, b = await started(MemoryHub(), "a", "b")
    here, there = as_interface(a).events(), b.events()
    assert await take(here, 1) == [UP_B]
    assert await take(there, 1) == [UP_A]
    await a.send("b", Lane.CONTROL, b"1")
    await a.send("b", Lane.BULK, b"")
    await a.send("b", Lane.CONTROL, b"2")
    assert await take(there, 3) == [
        Received("a", Lane.CONTROL, b"1"),
        Received("a", Lane.BULK, b""),
        Received("a", Lane.CONTROL, b"2"),
    ]
    stats = a.stats("b")
    assert stats is not None
    assert (stats.bytes_sent, stats.path) == (2, PathKind.MEMORY)
    assert a.peers() == ("b",)


async def test_faults_and_their_ends() -> None:
    hub = MemoryHub()
    a, b, c = await started(hub, "a", "b", "c")
    events = a.events()
    await take(events, 2)
    hub.drop_link("a", "b", "cable pulled")
    assert await take(events, 1) == [LinkDown("b", "cable pulled")]
    with pytest.raises(LinkClosed):
        await a.send("b", Lane.CONTROL, b"x")
    hub.restore_link("b", "a")
    assert await take(events, 1) == [UP_B]
    hub.isolate("a")
    assert await take(events, 2) == [LinkDown("b", "isolated"), LinkDown("c", "isolated")]
    assert b.peers() == ("c",)
    hub.rejoin("a")
    await take(events, 2)
    hub.partition({"a"}, {"b", "c"})
    assert await take(events, 2) == [LinkDown("b", "partitioned"), LinkDown("c", "partitioned")]
    hub.heal()
    await take(events, 2)
    await c.drop("a", "misbehaves")
    assert await take(events, 1) == [LinkDown("c", "misbehaves")]


async def test_a_muted_peer_is_connected_and_silent() -> None:
    hub = MemoryHub()
    a, b = await started(hub, "a", "b")
    events = b.events()
    await take(events, 1)
    hub.mute("a")
    await a.send("b", Lane.CONTROL, b"lost")
    hub.unmute("a")
    await a.send("b", Lane.CONTROL, b"heard")
    assert await take(events, 1) == [Received("a", Lane.CONTROL, b"heard")]


async def test_closing_tells_the_others_and_ends_the_events() -> None:
    a, b = await started(MemoryHub(), "a", "b")
    await a.close()
    await a.close()
    assert [event async for event in a.events()] == [UP_B, LinkDown("b", "closed")]
    assert await take(b.events(), 2) == [UP_A, LinkDown("a", "closed")]


async def test_a_second_network_of_one_peer_takes_over() -> None:
    hub = MemoryHub()
    a, b = await started(hub, "a", "b")
    again = hub.network("a")
    await again.start()
    assert await take(b.events(), 3) == [UP_A, LinkDown("a", "replaced"), UP_A]
    assert a.peers() == ()
    await a.close()
    assert b.peers() == ("a",)


async def test_a_slow_consumer_holds_the_sender() -> None:
    a, b = await started(MemoryHub(), "a", "b")
    big = bytes(MAX_BACKLOG_BYTES[Lane.BULK] + 1)
    await a.send("b", Lane.BULK, big)
    waiting = asyncio.create_task(a.send("b", Lane.BULK, b"next"))
    await a.send("b", Lane.CONTROL, b"control passes")
    assert not waiting.done()
    events = b.events()
    await take(events, 3)
    async with asyncio.timeout(5):
        await waiting
    assert await take(events, 1) == [Received("a", Lane.BULK, b"next")]


async def test_a_waiting_sender_learns_of_the_end() -> None:
    hub = MemoryHub()
    a, _ = await started(hub, "a", "b")
    await a.send("b", Lane.BULK, bytes(MAX_BACKLOG_BYTES[Lane.BULK] + 1))
    waiting = asyncio.create_task(a.send("b", Lane.BULK, b"next"))
    await a.send("b", Lane.CONTROL, b"x")
    hub.drop_link("a", "b")
    with pytest.raises(LinkClosed):
        await waiting


async def test_what_cannot_be_sent() -> None:
    a, _ = await started(MemoryHub(), "a", "b")
    with pytest.raises(LinkClosed):
        await a.send("nobody", Lane.CONTROL, b"x")
    with pytest.raises(ValueError, match="exceeds"):
        await a.send("b", Lane.BULK, bytes(MAX_MESSAGE_BYTES + 1))
    assert a.stats("nobody") is None
