"""The bulk lane's two halves against data channels in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from aiortc import RTCDataChannel

from engine.transport.base import Lane, LinkClosed, Lost
from engine.transport.bulk import (
    LANE_GRANT_STEP_BYTES,
    MIN_IN_FLIGHT_BYTES,
    OLD_GRANT_STEP_BYTES,
    QUEUE_BYTES,
    BulkReceiver,
    BulkSender,
)
from engine.transport.ledbat import DelayController
from engine.transport.pacing import DownloadLimit, Unpaced
from engine.wire.errors import WireError
from engine.wire.frames import DataFrame, Grant, Report, Withdrawal, digest_of, parse_frame
from engine.wire.limits import INITIAL_GRANT_BYTES, LANE_WINDOW_BYTES, MAX_BACKLOG_BYTES
from tests.helpers.ram_channel import RamChannel

FRAME = 14 * 1160

WINDOW = LANE_WINDOW_BYTES[Lane.BULK]
LIMIT = 64 * 1024 * 1024


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Pair:
    """A sender, lanes, and a receiver."""

    def __init__(self, lanes: int, controller: DelayController | None = None) -> None:
        self.clock = Clock()
        self.withdrawn: list[Withdrawal] = []
        self.sender = BulkSender(Unpaced(), controller, FRAME, self.withdrawn.append, self.clock)
        self.receiver = BulkReceiver(LIMIT, None, self.clock)
        self.channels = [RamChannel() for _ in range(lanes)]
        for number, channel in enumerate(self.channels):
            self.sender.open_lane(number, cast(RTCDataChannel, channel))
            self.receiver.open_lane(number)
        self.got: list[bytes] = []
        self.probes = 0

    def carry(self, *numbers: int) -> None:
        """What these lanes were given arrives; their own grants come back."""
        for number in numbers:
            channel = self.channels[number]
            frames, channel.sent = channel.sent, []
            for raw in frames:
                frame = parse_frame(raw)
                assert isinstance(frame, DataFrame)
                for message in self.receiver.on_frame(number, frame, len(raw)):
                    self.got.append(message)
                    self.receiver.consumed(len(message))
                if (grant := self.receiver.lane_grant(number)) is not None:
                    self.sender.on_lane_grant(number, grant)
            channel.flush()

    def report(self) -> Report:
        self.probes += 1
        report = self.receiver.report(self.probes, self.probes)
        self.sender.on_report(report, self.clock.now - 0.01, self.clock.now)
        return report

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.sender.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()

    async def until_delivered(self, count: int) -> None:
        for _ in range(5000):
            if len(self.got) >= count:
                return
            self.carry(*range(len(self.channels)))
            self.report()
            await turns(3)
        raise AssertionError(f"{len(self.got)} of {count} messages came")


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_messages_go_over_all_lanes_but_the_first_and_arrive_in_order() -> None:
    pair = Pair(4)
    pair.sender.knows_lanes()
    pair.report()
    used: set[int] = set()
    messages = [bytes([place]) * 300_000 for place in range(3)]
    async with pair.running():
        sent = [await pair.sender.send(message) for message in messages]
        await turns()
        used |= {number for number, channel in enumerate(pair.channels) if channel.sent}
        await pair.until_delivered(3)
        pair.report()
    assert used == {1, 2, 3}
    assert pair.got == messages
    assert all(message.delivered for message in sent)
    assert not pair.sender.busy.is_set()
    assert pair.sender.lost() is None


async def test_alone_the_first_lane_carries() -> None:
    pair = Pair(1)
    pair.sender.knows_lanes()
    async with pair.running():
        await pair.sender.send(b"alone")
        await pair.until_delivered(1)
    assert pair.got == [b"alone"]


async def test_a_dead_lane_loses_nothing() -> None:
    pair = Pair(3)
    pair.sender.knows_lanes()
    async with pair.running():
        await pair.sender.send(bytes(200_000))
        await turns()
        assert pair.channels[1].sent
        pair.channels[1].sent = []
        pair.sender.close_lane(1)
        pair.receiver.close_lane(1)
        for _ in range(200):
            pair.carry(2)
            pair.report()
            await turns(3)
    assert pair.got == [bytes(200_000)]


async def test_nothing_is_sent_before_the_peer_is_known() -> None:
    pair = Pair(2)
    async with pair.running():
        await pair.sender.send(b"x")
        await turns()
        assert not any(channel.sent for channel in pair.channels)
        assert not pair.sender.peer_is_known
        pair.sender.is_old()
        await turns()
    assert not pair.sender.peer_knows_lanes
    assert [len(channel.sent) for channel in pair.channels] == [0, 1]


async def test_an_old_peer_gets_one_lane_within_its_window() -> None:
    pair = Pair(1)
    pair.sender.is_old()
    message = bytes(3 * WINDOW // 2)
    async with pair.running():
        await pair.sender.send(message)
        sent = 0
        for _ in range(2 * WINDOW // FRAME):
            sent += sum(len(frame) for frame in pair.channels[0].sent)
            for raw in pair.channels[0].sent:
                frame = parse_frame(raw)
                assert isinstance(frame, DataFrame)
                pair.got += pair.receiver.on_frame(0, frame, len(raw))
            pair.channels[0].sent = []
            pair.channels[0].flush()
            await turns(3)
        assert WINDOW * 7 // 8 <= sent <= WINDOW
        grant = pair.receiver.old_grant(at_message_end=True)
        assert grant == Grant(1, sent)
        pair.sender.on_grant(grant)
        for _ in range(2 * WINDOW // FRAME):
            pair.carry(0)
            await turns(3)
    assert pair.got == [message]


async def test_a_lane_that_grants_nothing_is_given_little() -> None:
    pair = Pair(5)
    pair.sender.knows_lanes()
    pair.report()
    async with pair.running():
        await pair.sender.send(bytes(WINDOW))
        for _ in range(400):
            for channel in pair.channels:
                channel.flush()
            await turns(3)
    for channel in pair.channels[1:]:
        assert sum(len(frame) for frame in channel.sent) <= 2 * MIN_IN_FLIGHT_BYTES


async def test_a_full_queue_holds_the_sender_and_the_end_wakes_it() -> None:
    pair = Pair(1)
    await pair.sender.send(bytes(QUEUE_BYTES))
    waiting = asyncio.create_task(pair.sender.send(b"more"))
    await turns()
    assert not waiting.done()
    assert pair.sender.lost() == Lost(Lane.BULK, 1, QUEUE_BYTES)
    pair.sender.close()
    with pytest.raises(LinkClosed):
        await waiting
    with pytest.raises(LinkClosed):
        await pair.sender.send(b"late")


async def test_cancelling_while_waiting_leaves_nothing_behind() -> None:
    pair = Pair(2)
    pair.sender.knows_lanes()
    await pair.sender.send(bytes(QUEUE_BYTES))
    given_up = asyncio.create_task(pair.sender.send(b"given up"))
    await turns()
    given_up.cancel()
    await asyncio.wait([given_up])
    async with pair.running():
        kept = asyncio.create_task(pair.sender.send(b"kept"))
        await pair.until_delivered(2)
        await kept
    assert [len(message) for message in pair.got] == [QUEUE_BYTES, 4]


async def test_a_message_is_withdrawn_in_flight() -> None:
    pair = Pair(2)
    pair.sender.knows_lanes()
    async with pair.running():
        first = await pair.sender.send(bytes(INITIAL_GRANT_BYTES + 100_000))
        second = await pair.sender.send(b"second")
        for _ in range(4):
            pair.carry(1)
            await turns()
        assert first.cancel()
        (withdrawal,) = pair.withdrawn
        assert 0 < withdrawal.sent_bytes < INITIAL_GRANT_BYTES
        assert pair.receiver.on_withdrawal(withdrawal) == []
        await pair.until_delivered(1)
        pair.report()
        assert second.delivered
        assert not second.cancel()
        assert first.cancel()
    assert pair.got == [b"second"]


async def test_a_small_rate_makes_small_frames_and_a_grown_one_large_frames() -> None:
    controller = DelayController(0.0)
    pair = Pair(2, controller)
    pair.sender.knows_lanes()
    async with pair.running():
        await pair.sender.send(bytes(1_000_000))
        await turns()
        pair.clock.now += 1.0
        await turns()
        assert [len(frame) for frame in pair.channels[1].sent] == [1160]
    assert pair.sender.probe_seconds == pytest.approx(0.05, abs=0.05)


def frames_of(message: bytes, number: int = 0) -> list[DataFrame]:
    step, size = 16_000, len(message)
    pieces = [message[at : at + step] for at in range(0, max(1, size), step)]
    return [
        DataFrame(number, index, size, piece, digest_of(message) if index == len(pieces) - 1 else None)
        for index, piece in enumerate(pieces)
    ]


@pytest.mark.parametrize("reports", [True, False])
def test_more_than_the_window_is_refused(reports: bool) -> None:
    receiver = BulkReceiver(LIMIT, None, Clock())
    if reports:
        receiver.report(1, 1)

    def flood() -> None:
        for frame in frames_of(bytes(2 * WINDOW + FRAME)):
            receiver.on_frame(0, frame, len(frame.payload))

    with pytest.raises(WireError, match="were granted"):
        flood()


def test_what_overtook_a_gap_never_exceeds_the_window() -> None:
    receiver = BulkReceiver(LIMIT, None, Clock())

    def flood() -> None:
        for place, frame in enumerate(frames_of(bytes(3 * WINDOW))[1:]):
            receiver.on_frame(0, frame, len(frame.payload))
            assert receiver.report(place, place).granted_bytes <= WINDOW

    with pytest.raises(WireError, match="were granted"):
        flood()


def test_bulk_is_granted_to_an_old_peer_in_steps_and_at_the_end() -> None:
    receiver = BulkReceiver(LIMIT, None, Clock())
    grants = []
    for frame in frames_of(bytes(OLD_GRANT_STEP_BYTES + 50_000)):
        messages = receiver.on_frame(0, frame, len(frame.payload))
        grant = receiver.old_grant(at_message_end=bool(messages))
        grants += [grant.frame_bytes] if grant else []
    assert grants[0] >= OLD_GRANT_STEP_BYTES
    assert sum(grants) == OLD_GRANT_STEP_BYTES + 50_000
    assert receiver.old_grant(at_message_end=True) is None


def test_lanes_are_granted_back_in_steps() -> None:
    receiver = BulkReceiver(LIMIT, None, Clock())
    frames = frames_of(bytes(8 * 16_000))
    assert [receiver.on_frame(0, frame, 16_000) and None for frame in frames[:4]] == [[]] * 4
    assert receiver.lane_grant(0) is None  # nobody asked for reports, so it is an old peer
    receiver.report(1, 1)
    grant = receiver.lane_grant(0)
    assert grant is not None
    assert grant.frame_bytes == 64_000 >= LANE_GRANT_STEP_BYTES
    assert receiver.lane_grant(0) is None


def test_nothing_more_is_granted_while_messages_pile_up() -> None:
    receiver = BulkReceiver(LIMIT, None, Clock())
    granted, waiting = receiver.report(0, 0).granted_bytes, 0
    for number in range(20):
        if waiting > MAX_BACKLOG_BYTES[Lane.BULK]:
            break
        for frame in frames_of(bytes(2**20), number):
            receiver.on_frame(0, frame, len(frame.payload))
        waiting += 2**20
        granted = receiver.report(number, 0).granted_bytes
    assert receiver.report(99, 0).granted_bytes == granted
    receiver.consumed(waiting)
    assert receiver.report(99, 0).granted_bytes == waiting + WINDOW


def test_a_download_cap_holds_the_grants() -> None:
    clock = Clock()
    limit = DownloadLimit(100_000, clock)
    receivers = [BulkReceiver(LIMIT, limit, clock) for _ in range(2)]
    numbers = [0, 0]
    received = 0
    for step in range(2000):
        clock.now = step * 0.025
        for place, receiver in enumerate(receivers):
            granted = receiver.report(step, step).granted_bytes
            while (numbers[place] + 1) * 16_000 <= granted:
                (frame,) = frames_of(bytes(16_000), numbers[place])
                receiver.consumed(sum(map(len, receiver.on_frame(0, frame, 16_016))))
                numbers[place] += 1
                received += 16_000
    assert 0.95 * 100_000 * 50 <= received <= 1.05 * 100_000 * 50 + 2 * INITIAL_GRANT_BYTES
    assert min(numbers) * 16_000 >= 0.2 * received
    limit.set_rate(None)
    assert receivers[0].report(0, 0).granted_bytes == numbers[0] * 16_000 + WINDOW


def test_a_frame_of_a_lane_that_was_closed_is_passed_over() -> None:
    receiver = BulkReceiver(LIMIT, None, Clock())
    receiver.open_lane(3)
    (frame,) = frames_of(b"late")
    receiver.close_lane(3)
    assert receiver.on_frame(3, frame, 20) == []
    assert receiver.on_frame(0, frame, 20) == [b"late"]
