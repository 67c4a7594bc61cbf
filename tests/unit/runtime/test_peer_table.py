"""Linked peers of a session: hello first, bounded queues, and no waiting for a slow line."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from engine.core.tasks import TaskOwner
from engine.runtime.peers import MAX_QUEUED_MESSAGES, PeerTable
from engine.transport.base import Lane, LinkClosed, LinkDown, LinkStats, LinkUp, NetworkEvent, PathKind, Received
from engine.wire.codec import decode, encode
from engine.wire.limits import HELLO_DEADLINE_SECONDS
from engine.wire.messages import PROTOCOL_VERSION, Chunk, Goodbye, PeerHello, PeerMessage
from tests.helpers.virtual_time import virtual_time

ANN, BEN = "a" * 52, "b" * 52
RUN = b"\x01" * 32


class SlowNetwork:
    """Sends wait while `open` is clear; everything is noted."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.gone: set[str] = set()
        self.sent: list[tuple[str, Lane, PeerMessage]] = []
        self.dropped: list[tuple[str, str]] = []

    async def start(self) -> None:
        return

    async def events(self) -> AsyncIterator[NetworkEvent]:
        for event in ():
            yield event

    async def send(self, peer_id: str, lane: Lane, message: bytes) -> None:
        await self.open.wait()
        if peer_id in self.gone:
            raise LinkClosed(peer_id)
        self.sent.append((peer_id, lane, decode(message, lane is Lane.BULK)))

    def peers(self) -> tuple[str, ...]:
        return ()

    def stats(self, peer_id: str) -> LinkStats | None:
        return None

    async def drop(self, peer_id: str, reason: str) -> None:
        self.dropped.append((peer_id, reason))

    def set_upload_limit(self, bytes_per_second: int | None) -> None:
        return

    async def close(self) -> None:
        return


@asynccontextmanager
async def table_on(network: SlowNetwork) -> AsyncIterator[PeerTable]:
    async with TaskOwner("test") as tasks:
        yield PeerTable(network, RUN, "potluck test", tasks)


def hello(version: int = PROTOCOL_VERSION, run: bytes = RUN) -> bytes:
    return encode(PeerHello(protocol_version=version, manifest_hash=run, software="x"))


async def introduce(table: PeerTable, peer: str, now: float = 0.0) -> None:
    table.on_link_up(LinkUp(peer, PathKind.MEMORY), now)
    messages, ready = await table.on_received(Received(peer, Lane.CONTROL, hello()), now)
    assert (messages, ready) == ([], True)


async def settle() -> None:
    """Let what is ready run."""
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(0.001, done.set)
    await done.wait()


@virtual_time
async def test_a_peer_counts_from_its_hello_and_is_greeted_before() -> None:
    network = SlowNetwork()
    async with table_on(network) as table:
        table.on_link_up(LinkUp(ANN, PathKind.MEMORY), 0.0)
        table.send(ANN, Goodbye(reason="too early"))
        table.broadcast(Goodbye(reason="too early"))
        assert table.ready() == ()
        await settle()
        assert [type(message) for _, _, message in network.sent] == [PeerHello]
        messages, ready = await table.on_received(Received(ANN, Lane.CONTROL, hello()), 0.0)
        assert (messages, ready, table.ready()) == ([], True, (ANN,))
        messages, ready = await table.on_received(Received(ANN, Lane.CONTROL, encode(Goodbye(reason="x"))), 0.0)
        assert (messages, ready) == ([Goodbye(reason="x")], False)


@virtual_time
async def test_messages_go_in_their_lanes_in_order() -> None:
    network = SlowNetwork()
    async with table_on(network) as table:
        await introduce(table, ANN)
        chunk = Chunk(state_hash=bytes(32), index=1, payload=b"x")
        for message in (Goodbye(reason="1"), chunk, Goodbye(reason="2")):
            table.send(ANN, message)
        await settle()
        control = [message for _, lane, message in network.sent if lane is Lane.CONTROL]
        assert [getattr(message, "reason", "hello") for message in control] == ["hello", "1", "2"]
        assert [message for _, lane, message in network.sent if lane is Lane.BULK] == [chunk]


@virtual_time
async def test_a_full_queue_drops_that_link_and_no_other() -> None:
    network = SlowNetwork()
    async with table_on(network) as table:
        await introduce(table, ANN)
        await introduce(table, BEN)
        await settle()
        network.open.clear()
        for number in range(MAX_QUEUED_MESSAGES + 2):
            table.send(ANN, Goodbye(reason=str(number)))
        assert table.ready() == (BEN,)
        network.open.set()
        await settle()
        assert [peer for peer, _ in network.dropped] == [ANN]
        table.send(ANN, Goodbye(reason="nobody there"))
        table.send(BEN, Goodbye(reason="still there"))
        await settle()
        assert network.sent[-1][0] == BEN
        assert not any(peer == ANN and isinstance(message, Goodbye) for peer, _, message in network.sent)


@pytest.mark.parametrize(
    "data", [b"", b"garbage", hello(version=99), hello(run=bytes(32)), encode(Goodbye(reason="no hello"))]
)
def test_a_breach_drops_the_link_once(data: bytes) -> None:
    @virtual_time
    async def run() -> None:
        network = SlowNetwork()
        async with table_on(network) as table:
            table.on_link_up(LinkUp(ANN, PathKind.MEMORY), 0.0)
            for _ in range(3):
                assert await table.on_received(Received(ANN, Lane.CONTROL, data), 0.0) == ([], False)
            assert await table.on_received(Received(ANN, Lane.CONTROL, hello()), 0.0) == ([], False)
            assert len(network.dropped) == 1
            assert table.ready() == ()

    run()


@virtual_time
async def test_a_late_hello_drops_the_link_once() -> None:
    network = SlowNetwork()
    async with table_on(network) as table:
        table.on_link_up(LinkUp(ANN, PathKind.MEMORY), 0.0)
        await introduce(table, BEN)
        await table.check_deadlines(HELLO_DEADLINE_SECONDS)
        assert network.dropped == []
        for _ in range(3):
            await table.check_deadlines(HELLO_DEADLINE_SECONDS + 1)
        assert [peer for peer, _ in network.dropped] == [ANN]
        assert table.ready() == (BEN,)


@virtual_time
async def test_a_link_that_comes_back_starts_anew() -> None:
    network = SlowNetwork()
    async with table_on(network) as table:
        await introduce(table, ANN)
        await settle()
        assert table.on_link_down(LinkDown(ANN, "gone"))
        assert not table.on_link_down(LinkDown(ANN, "gone"))
        assert table.ready() == ()
        await introduce(table, ANN, now=50.0)
        assert table.ready() == (ANN,)
        await settle()
        assert [type(message) for _, _, message in network.sent] == [PeerHello, PeerHello]


@virtual_time
async def test_a_link_that_closes_while_sending_is_no_fault() -> None:
    network = SlowNetwork()
    async with table_on(network) as table:
        await introduce(table, ANN)
        await settle()
        network.gone.add(ANN)
        table.send(ANN, Goodbye(reason="x"))
        await settle()
        table.send(ANN, Goodbye(reason="y"))
        await settle()
        assert not any(isinstance(message, Goodbye) for _, _, message in network.sent)


@virtual_time
async def test_flushing_waits_for_control_only_so_long() -> None:
    network = SlowNetwork()
    async with table_on(network) as table:
        await table.flush(1.0)
        await introduce(table, ANN)
        table.send(ANN, Goodbye(reason="x"))
        await table.flush(1.0)
        assert any(isinstance(message, Goodbye) for _, _, message in network.sent)
        network.open.clear()
        table.send(ANN, Goodbye(reason="stuck"))
        before = asyncio.get_running_loop().time()
        await table.flush(1.0)
        assert asyncio.get_running_loop().time() - before <= 1.1
        network.open.set()
