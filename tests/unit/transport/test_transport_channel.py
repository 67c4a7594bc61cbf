"""Back-pressure of the control lane, against a data channel in memory."""

import asyncio
import time
from typing import Any, cast

import pytest
from aiortc import RTCDataChannel

from engine.transport.base import Lane, LinkClosed, Lost
from engine.transport.channel import CHANNEL_BUFFER_BYTES, GRANT_STEP_BYTES, QUEUE_BYTES, ControlReceiver, ControlSender
from engine.transport.pacing import Pacer
from engine.wire.errors import WireError
from engine.wire.frames import DataFrame, Grant, digest_of, parse_frame
from engine.wire.limits import LANE_WINDOW_BYTES, MAX_BACKLOG_BYTES
from tests.helpers.ram_channel import RamChannel

FRAME = 16 * 1024


def sender_on(channel: RamChannel) -> ControlSender:
    return ControlSender(cast(RTCDataChannel, channel), Pacer(None, time.monotonic), FRAME)


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Running:
    def __init__(self, sender: ControlSender) -> None:
        self._sender = sender

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._sender.run())

    async def __aexit__(self, *exc: Any) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        assert self._task.cancelled()


async def test_the_channels_buffer_stays_small() -> None:
    channel = RamChannel()
    sender = sender_on(channel)
    async with Running(sender):
        await sender.send(bytes(1024 * 1024))
        await turns()
        assert 0 < channel.bufferedAmount <= CHANNEL_BUFFER_BYTES + FRAME + 32
        before = len(channel.sent)
        channel.flush()
        await turns()
        assert len(channel.sent) > before


async def test_the_receivers_window_is_never_exceeded() -> None:
    channel = RamChannel()
    sender = sender_on(channel)
    window = LANE_WINDOW_BYTES[Lane.CONTROL]
    async with Running(sender):
        await sender.send(bytes(2 * window))
        for _ in range(2 * window // FRAME):
            channel.flush()
            await turns()
        sent = sum(len(frame) for frame in channel.sent)
        assert window - FRAME - 32 <= sent <= window
        sender.granted(window // 2)
        for _ in range(2 * window // FRAME):
            channel.flush()
            await turns()
        assert window < sum(len(frame) for frame in channel.sent) <= window + window // 2


async def test_a_grant_of_what_was_not_sent_is_refused() -> None:
    sender = sender_on(RamChannel())
    with pytest.raises(WireError, match="a grant of 1 bytes where 0 are under way"):
        sender.granted(1)


async def test_a_full_queue_holds_the_sender_until_there_is_room() -> None:
    sender = sender_on(RamChannel())
    await sender.send(bytes(QUEUE_BYTES))
    waiting = asyncio.create_task(sender.send(b"more"))
    await turns()
    assert not waiting.done()
    sender.close()
    with pytest.raises(LinkClosed):
        await waiting
    with pytest.raises(LinkClosed):
        await sender.send(b"late")


async def test_a_cancelled_send_leaves_whole_messages_only() -> None:
    channel = RamChannel()
    sender = sender_on(channel)
    await sender.send(bytes(QUEUE_BYTES))
    given_up = asyncio.create_task(sender.send(b"given up"))
    await turns()
    given_up.cancel()
    await asyncio.wait([given_up])
    receiver = ControlReceiver(2 * QUEUE_BYTES)
    messages: list[bytes] = []
    async with Running(sender):
        kept = asyncio.create_task(sender.send(b"kept"))
        while len(messages) < 2:
            channel.flush()
            await turns()
            frames, channel.sent = channel.sent, []
            for raw in frames:
                frame = parse_frame(raw)
                assert isinstance(frame, DataFrame)
                message = receiver.on_frame(frame, len(raw))
                if message is not None:
                    messages.append(message)
                    receiver.consumed(len(message))
                grant = receiver.grant()
                if grant is not None:
                    sender.granted(grant.frame_bytes)
        await kept
    assert [len(message) for message in messages] == [QUEUE_BYTES, 4]


async def test_nothing_is_sent_on_a_channel_that_closed() -> None:
    channel = RamChannel()
    channel.readyState = "closed"
    sender = sender_on(channel)
    async with Running(sender):
        await sender.send(b"x")
        await turns()
    assert channel.sent == []


def frames_of(message: bytes, number: int = 0) -> list[DataFrame]:
    step, size = FRAME, len(message)
    pieces = [message[at : at + step] for at in range(0, max(1, size), step)]
    return [
        DataFrame(number, index, size, piece, digest_of(message) if index == len(pieces) - 1 else None)
        for index, piece in enumerate(pieces)
    ]


def test_more_than_was_granted_is_refused() -> None:
    receiver = ControlReceiver(64 * 1024 * 1024)
    window = LANE_WINDOW_BYTES[Lane.CONTROL]

    def flood() -> None:
        for frame in frames_of(bytes(window + 2 * FRAME)):
            receiver.on_frame(frame, len(frame.payload))

    with pytest.raises(WireError, match=f"where {window} were granted"):
        flood()


def test_grants_come_in_steps() -> None:
    receiver = ControlReceiver(64 * 1024 * 1024)
    message = bytes(GRANT_STEP_BYTES + FRAME)
    grants: list[Grant] = []
    for frame in frames_of(message):
        receiver.on_frame(frame, len(frame.payload))
        grant = receiver.grant()
        if grant is not None:
            grants.append(grant)
    assert grants == [Grant(0, GRANT_STEP_BYTES)]
    assert receiver.grant() is None


async def test_what_was_not_sent_is_named_as_lost() -> None:
    sender = sender_on(RamChannel())
    assert sender.lost() is None
    await sender.send(b"four")
    assert sender.lost() == Lost(Lane.CONTROL, 1, 4)


def test_nothing_is_granted_while_messages_pile_up() -> None:
    receiver, bound = ControlReceiver(64 * 1024), MAX_BACKLOG_BYTES[Lane.CONTROL]
    message, count, granted = bytes(64 * 1024), 0, 0
    while granted + GRANT_STEP_BYTES > count * len(message):
        for frame in frames_of(message, count):
            receiver.on_frame(frame, len(frame.payload))
        count += 1
        grant = receiver.grant()
        granted += grant.frame_bytes if grant else 0
    assert bound < count * len(message) <= bound + 2 * GRANT_STEP_BYTES
    while count * len(message) > bound:
        assert receiver.grant() is None
        receiver.consumed(len(message))
        count -= 1
    assert receiver.grant() is not None
