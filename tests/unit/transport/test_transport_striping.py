import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.transport.striping import Piece, Striper
from engine.wire.errors import WireError
from engine.wire.frames import DataFrame, Withdrawal, parse_frame
from engine.wire.limits import MAX_MESSAGES_AHEAD
from engine.wire.reassembly import BulkAssembler

STEP = 1024
LIMIT = 1024 * 1024


class Lane:
    """Delivers in order, and not before it is told to."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.delivered = 0


class Ends:
    """A striper, lanes, and an assembler behind them."""

    def __init__(self, lanes: int, granted: int = LIMIT) -> None:
        self.striper = Striper(granted)
        self.assembler = BulkAssembler(LIMIT)
        self.lanes: dict[int, Lane] = {}
        self.got: list[bytes] = []
        self.now = 0.0
        for number in range(lanes):
            self.open(number)

    def open(self, number: int) -> None:
        self.lanes[number] = Lane()
        self.striper.open_lane(number, self.now)

    def send(self, number: int) -> Piece | None:
        piece = self.striper.next_piece(STEP)
        if piece is not None:
            frame = piece.frame()
            self.striper.sent(number, piece, len(frame), self.now)
            self.lanes[number].frames.append(frame)
        return piece

    def deliver(self, number: int, report: bool = True) -> None:
        lane = self.lanes[number]
        frame = parse_frame(lane.frames.pop(0))
        assert isinstance(frame, DataFrame)
        lane.delivered += 1
        self.got += self.assembler.feed(frame)
        if report:
            self.striper.received(number, lane.delivered, self.now)


def some_bytes(size: int) -> bytes:
    return bytes(index * 37 % 253 for index in range(size))


@given(
    sizes=st.lists(st.integers(0, 6 * STEP), min_size=1, max_size=6),
    lanes=st.integers(1, 4),
    deaths=st.integers(0, 3),
    seed=st.integers(0, 10**6),
)
def test_messages_arrive_whole_once_and_in_order_whatever_lanes_do(
    sizes: list[int], lanes: int, deaths: int, seed: int
) -> None:
    ends, dice = Ends(lanes), random.Random(seed)
    messages = [some_bytes(size) for size in sizes]
    taken = [ends.striper.add(message) for message in messages]
    opened = lanes
    while ends.striper.busy:
        ends.now += 0.1
        working = list(ends.lanes)
        for _ in range(dice.randrange(4)):
            ends.send(dice.choice(working))
        if deaths and dice.random() < 0.2:
            # What it still carried is lost, and what it delivered last may be unreported.
            deaths -= 1
            dead = dice.choice(working)
            ends.striper.close_lane(dead)
            del ends.lanes[dead]
            ends.open(opened)
            opened += 1
        for number, lane in ends.lanes.items():
            if lane.frames and dice.random() < 0.6:
                ends.deliver(number, report=dice.random() < 0.9 or len(lane.frames) == 1)
        if dice.random() < 0.3:
            ends.striper.unstick(0.15, ends.now)
        for number, lane in ends.lanes.items():
            if not lane.frames:
                ends.striper.received(number, lane.delivered, ends.now)
    assert ends.got == messages
    assert all(outgoing.delivered for outgoing in taken)
    assert list(ends.striper.undelivered()) == []
    assert ends.striper.queued_bytes == 0
    assert ends.striper.delivered_bytes == sum(sizes)


def test_nothing_is_cut_beyond_the_grant() -> None:
    ends = Ends(1, granted=2 * STEP)
    ends.striper.add(some_bytes(4 * STEP))
    assert ends.send(0) is not None
    assert ends.send(0) is not None
    assert not ends.striper.has_piece(STEP)
    assert ends.send(0) is None
    ends.striper.granted(STEP)
    assert ends.send(0) is None
    ends.striper.granted(3 * STEP)
    assert ends.send(0) is not None
    assert ends.send(0) is None


def test_what_a_dead_lane_owed_goes_out_first_and_needs_no_grant() -> None:
    ends = Ends(2, granted=3 * STEP)
    ends.striper.add(some_bytes(5 * STEP))
    ends.send(0)
    ends.send(1)
    ends.send(1)
    ends.striper.close_lane(1)
    assert [piece.index for piece in (ends.send(0), ends.send(0)) if piece] == [1, 2]
    assert ends.send(0) is None
    assert ends.striper.sent_again_bytes == 2 * STEP


def test_a_stalled_lanes_frames_go_over_another_and_duplicates_are_no_news() -> None:
    ends = Ends(2)
    ends.striper.add(some_bytes(2 * STEP))
    ends.send(0)
    ends.send(1)
    ends.now = 0.2
    ends.deliver(1)
    ends.now = 0.3
    assert not ends.striper.unstick(0.5, ends.now)
    ends.now = 0.6
    assert ends.striper.unstick(0.5, ends.now)
    assert not ends.striper.unstick(0.5, ends.now)
    assert ends.striper.lanes()[0].stalled
    ends.send(1)
    ends.deliver(1)
    assert ends.got == [some_bytes(2 * STEP)]
    assert not ends.striper.busy
    ends.deliver(0)
    assert not ends.striper.lanes()[0].stalled
    assert len(ends.got) == 1


def test_a_lone_lane_is_never_taken_for_stuck() -> None:
    ends = Ends(1)
    ends.striper.add(some_bytes(STEP))
    ends.send(0)
    assert not ends.striper.unstick(0.5, 100.0)


def test_reports_on_more_than_was_sent_are_refused_and_old_ones_are_nothing() -> None:
    ends = Ends(1)
    ends.striper.add(some_bytes(3 * STEP))
    for _ in range(3):
        ends.send(0)
    assert ends.striper.received(0, 2, 0.0) > 0
    assert ends.striper.received(0, 1, 0.0) == 0
    assert ends.striper.received(7, 5, 0.0) == 0
    with pytest.raises(WireError, match="4 frames where 3 were sent"):
        ends.striper.received(0, 4, 0.0)


def test_grants_of_an_old_peer_tell_what_arrived() -> None:
    ends = Ends(1)
    ends.striper.add(some_bytes(2 * STEP))
    first, second = ends.send(0), ends.send(0)
    assert first is not None
    assert second is not None
    sizes = [len(frame) for frame in ends.lanes[0].frames]
    assert ends.striper.received_bytes(0, sizes[0] - 1, 0.0) == 0
    assert ends.striper.received_bytes(0, sizes[0], 0.0) == sizes[0]
    assert (first.delivered, second.delivered) == (True, False)
    with pytest.raises(WireError, match="were sent"):
        ends.striper.received_bytes(0, sum(sizes) + 1, 0.0)
    assert ends.striper.received_bytes(0, sum(sizes), 0.0) == sizes[1]
    assert not ends.striper.busy


def test_a_lanes_own_grants_are_bounded_by_what_it_carries() -> None:
    ends = Ends(1)
    ends.striper.add(some_bytes(STEP))
    ends.send(0)
    size = ends.striper.lanes()[0].in_flight_bytes
    with pytest.raises(WireError, match="are under way"):
        ends.striper.granted_back(0, size + 1)
    ends.striper.granted_back(0, size)
    ends.striper.granted_back(5, 10)
    assert ends.striper.lanes()[0].in_flight_bytes == 0


def test_cancelling_a_message_that_waits_leaves_no_trace() -> None:
    ends = Ends(1)
    first, second, third = (ends.striper.add(some_bytes(STEP + place)) for place in range(3))
    assert ends.striper.cancel(second, begun_too=False) is None
    assert second.cancelled
    while ends.send(0) is not None:
        ends.deliver(0)
    assert ends.got == [first.message, third.message]


def test_cancelling_in_flight_tells_how_much_went_out() -> None:
    ends = Ends(1)
    first, second = ends.striper.add(some_bytes(3 * STEP)), ends.striper.add(b"second")
    ends.send(0)
    assert ends.striper.cancel(first, begun_too=False) is None
    assert not first.cancelled
    withdrawal = ends.striper.cancel(first, begun_too=True)
    assert withdrawal == Withdrawal(0, STEP)
    ends.deliver(0)
    ends.got += ends.assembler.withdraw(withdrawal)
    ends.send(0)
    ends.deliver(0)
    assert ends.got == [second.message]
    assert ends.assembler.in_turn_bytes == STEP + len(second.message)
    assert ends.striper.cancel(second, begun_too=True) is None
    assert not second.cancelled


def test_messages_do_not_run_ahead_without_bound() -> None:
    ends = Ends(1)
    for _ in range(MAX_MESSAGES_AHEAD + 1):
        ends.striper.add(b"")
    for _ in range(MAX_MESSAGES_AHEAD):
        assert ends.send(0) is not None
    assert ends.send(0) is None
    ends.deliver(0)
    assert ends.send(0) is not None
