import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.transport.base import MAX_MESSAGE_BYTES
from engine.wire import frames
from engine.wire.errors import WireError
from engine.wire.frames import (
    DIGEST_BYTES,
    HEADER,
    MAX_FRAME_BYTES,
    DataFrame,
    FrameAssembler,
    FrameSplitter,
    Grant,
    KeepAlive,
    LaneSignal,
    LaneStep,
    Probe,
    Report,
    Withdrawal,
    encode_grant,
    encode_keep_alive,
    encode_probe,
    encode_report,
    encode_signal,
    encode_withdrawal,
    parse_frame,
)
from engine.wire.limits import MAX_BULK_BYTES, MAX_FRAME_PAYLOAD_BYTES, MAX_LANES, MIN_FRAME_PAYLOAD_BYTES

SMALL = MIN_FRAME_PAYLOAD_BYTES
LIMIT = 64 * 1024


def data_frame(raw: bytes) -> DataFrame:
    frame = parse_frame(raw)
    assert isinstance(frame, DataFrame)
    return frame


def feed_all(assembler: FrameAssembler, raws: list[bytes]) -> list[bytes]:
    whole = [assembler.feed(data_frame(raw)) for raw in raws]
    return [message for message in whole if message is not None]


def test_the_largest_bulk_message_is_the_transports() -> None:
    assert MAX_BULK_BYTES == MAX_MESSAGE_BYTES


def test_a_frame_fits_what_every_implementation_takes() -> None:
    assert MAX_FRAME_BYTES <= 65536


@given(
    messages=st.lists(
        st.integers(0, 5 * SMALL).map(lambda n: bytes(i * 31 % 251 for i in range(n))), min_size=1, max_size=5
    ),
    payload_bytes=st.integers(SMALL, 3 * SMALL),
)
def test_messages_come_out_as_they_went_in(messages: list[bytes], payload_bytes: int) -> None:
    splitter, assembler = FrameSplitter(payload_bytes), FrameAssembler(LIMIT)
    got: list[bytes] = []
    for message in messages:
        raws = list(splitter.split(message))
        assert len(raws) == max(1, -(-len(message) // payload_bytes))
        got += feed_all(assembler, raws)
    assert got == messages
    assert assembler.held_bytes == 0


@pytest.mark.parametrize("size", [0, 1, SMALL - 1, SMALL, SMALL + 1, 2 * SMALL])
def test_sizes_at_the_edges(size: int) -> None:
    message = bytes(size)
    assert feed_all(FrameAssembler(LIMIT), list(FrameSplitter(SMALL).split(message))) == [message]


def test_no_frame_exceeds_the_limit() -> None:
    raws = list(FrameSplitter(MAX_FRAME_PAYLOAD_BYTES).split(bytes(3 * MAX_FRAME_PAYLOAD_BYTES)))
    assert max(len(raw) for raw in raws) <= MAX_FRAME_BYTES


def test_a_message_over_the_limit_is_refused_at_its_first_frame() -> None:
    assembler = FrameAssembler(2 * SMALL)
    first = next(iter(FrameSplitter(SMALL).split(bytes(2 * SMALL + 1))))
    with pytest.raises(WireError, match="exceeds 2048"):
        assembler.feed(data_frame(first))
    assert assembler.held_bytes == 0


@pytest.mark.parametrize(
    ("order", "complaint"),
    [
        ([0, 0], "frame 0 of message 0 came where frame 1 of message 0 was due"),
        ([0, 2], "frame 2 of message 0 came where frame 1"),
        ([1], "frame 1 of message 0 came where frame 0"),
        ([0, 1, 2, 2], "frame 2 of message 0 came where frame 0 of message 1"),
    ],
)
def test_repeated_and_reordered_frames_are_refused(order: list[int], complaint: str) -> None:
    raws = list(FrameSplitter(SMALL).split(bytes(3 * SMALL)))
    assembler = FrameAssembler(LIMIT)
    with pytest.raises(WireError, match=complaint):
        feed_all(assembler, [raws[i] for i in order])


def test_a_changed_byte_breaks_the_digest() -> None:
    raw = bytearray(next(iter(FrameSplitter().split(b"hello"))))
    raw[HEADER.size] ^= 1
    with pytest.raises(WireError, match="does not match its digest"):
        FrameAssembler(LIMIT).feed(data_frame(bytes(raw)))


def test_a_frame_that_contradicts_the_size_is_refused() -> None:
    assembler = FrameAssembler(LIMIT)
    assembler.feed(DataFrame(0, 0, 5000, bytes(SMALL), None))
    with pytest.raises(WireError, match="says 4000 bytes, an earlier frame said 5000"):
        assembler.feed(DataFrame(0, 1, 4000, bytes(SMALL), None))


def test_a_message_that_ends_early_is_refused() -> None:
    with pytest.raises(WireError, match="ended at 3 of 5 bytes"):
        FrameAssembler(LIMIT).feed(DataFrame(0, 0, 5, b"abc", bytes(DIGEST_BYTES)))


def test_more_than_was_announced_is_refused() -> None:
    with pytest.raises(WireError, match="is not the last"):
        FrameAssembler(LIMIT).feed(DataFrame(0, 0, SMALL, bytes(SMALL), None))


def test_a_frame_that_is_all_header_is_refused() -> None:
    with pytest.raises(WireError, match="less than 1024"):
        FrameAssembler(LIMIT).feed(DataFrame(0, 0, 5000, b"x", None))


def test_the_numbers_of_a_lane_end() -> None:
    splitter = FrameSplitter()
    splitter._next = 2**32
    with pytest.raises(WireError, match="used up"):
        splitter.split(b"")


@pytest.mark.parametrize("payload_bytes", [0, SMALL - 1, MAX_FRAME_PAYLOAD_BYTES + 1])
def test_a_splitter_outside_the_protocol_is_our_fault(payload_bytes: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        FrameSplitter(payload_bytes)


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (b"", "empty"),
        (bytes(MAX_FRAME_BYTES + 1), "exceeds"),
        (b"\x00\x00", "unknown kind 0"),
        (b"\xff" * 20, "unknown kind 255"),
        (b"\x01\x00\x00", "truncated to 3 bytes"),
        (frames.HEADER.pack(1, 1, 0, 7, 0, 3) + b"abc", "the last frame of message 7 is truncated"),
        (frames.HEADER.pack(1, 2, 0, 0, 0, 0), "bits set"),
        (frames.HEADER.pack(1, 0, 9, 0, 0, 0), "bits set"),
        (frames.SHORT.pack(2, 2, 0, 5), "lane 2, which does not exist"),
        (frames.SHORT.pack(2, 0, 1, 5), "bits set"),
        (frames.SHORT.pack(3, 1, 0, 5), "bits set"),
        (frames.SHORT.pack(3, 0, 0, 5) + b"x", "has 9 bytes, not 8"),
    ],
)
def test_malformed_frames_say_what_is_wrong(raw: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        parse_frame(raw)


@given(lane=st.integers(0, 1), number=st.integers(0, 2**32 - 1), is_pong=st.booleans())
def test_the_links_own_frames_round_trip(lane: int, number: int, is_pong: bool) -> None:
    assert parse_frame(encode_grant(Grant(lane, number))) == Grant(lane, number)
    assert parse_frame(encode_keep_alive(KeepAlive(number, is_pong))) == KeepAlive(number, is_pong)


@given(st.lists(st.binary(max_size=3000), max_size=20))
def test_random_bytes_are_refused_and_never_grow_memory(raws: list[bytes]) -> None:
    assembler = FrameAssembler(4096)
    for raw in raws:
        try:
            frame = parse_frame(raw)
            if isinstance(frame, DataFrame):
                assembler.feed(frame)
        except WireError:
            break
        assert assembler.held_bytes <= 4096


frame_fields = st.builds(
    DataFrame,
    message=st.integers(0, 2),
    index=st.integers(0, 3),
    message_bytes=st.sampled_from([0, 1, SMALL, 2 * SMALL, 3 * SMALL, 2**32 - 1]),
    payload=st.sampled_from([b"", b"x", bytes(SMALL), bytes(2 * SMALL)]),
    digest=st.sampled_from(
        [None, bytes(16), frames.digest_of(b""), frames.digest_of(b"x"), frames.digest_of(bytes(SMALL))]
    ),
)


@given(st.lists(frame_fields, max_size=30))
def test_any_order_of_plausible_frames_stays_within_bounds(sequence: list[DataFrame]) -> None:
    assembler = FrameAssembler(3 * SMALL)
    for frame in sequence:
        try:
            message = assembler.feed(frame)
        except WireError:
            break
        assert assembler.held_bytes <= 3 * SMALL
        if message is not None:
            assert frame.digest == frames.digest_of(message)


U16, U32, U64 = st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)


@given(U32)
def test_probes_come_back_as_they_went(number: int) -> None:
    assert parse_frame(encode_probe(Probe(number))) == Probe(number)


@given(U32, U64, U32, U64, st.lists(st.tuples(U16, U32), max_size=MAX_LANES).map(tuple))
def test_reports_come_back_as_they_went(
    number: int, clock: int, probes: int, granted: int, counts: tuple[tuple[int, int], ...]
) -> None:
    report = Report(number, clock, probes, granted, counts)
    assert parse_frame(encode_report(report)) == report


@given(st.sampled_from([LaneStep.OFFER, LaneStep.ANSWER]), st.integers(1, 2**16 - 1), st.text("v=0 a\r\n", max_size=99))
def test_lane_signals_come_back_as_they_went(step: LaneStep, lane: int, sdp: str) -> None:
    signal = LaneSignal(step, lane, sdp)
    assert parse_frame(encode_signal(signal)) == signal


@given(U32, U32)
def test_withdrawals_come_back_as_they_went(message: int, sent_bytes: int) -> None:
    withdrawal = Withdrawal(message, sent_bytes)
    assert parse_frame(encode_withdrawal(withdrawal)) == withdrawal


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x05" + bytes(8), "has 9 bytes, not 8"),
        (b"\x05\x01" + bytes(6), "bits set"),
        (b"\x06" + bytes(20), "truncated"),
        (b"\x06\x01" + bytes(26), "on 1 lanes has 28 bytes"),
        (b"\x06\x11" + bytes(26 + 8 * 17), "on 17 lanes"),
        (b"\x07\x00\x00\x00v=0", "first lane"),
        (b"\x07\x00\x00\x01\xff", "text that does not belong"),
        (b"\x09\x00\x00\x01v=0", "text that does not belong"),
        (b"\x08\x00", "a lane signal of 2 bytes"),
        (b"\x07\x00\x00\x01" + b"a" * 24577, "a lane signal of 24581 bytes"),
        (b"\x0a" + bytes(10), "has 11 bytes, not 12"),
        (b"\x0b" + bytes(7), "unknown kind 11"),
    ],
)
def test_malformed_frames_of_the_link_are_refused(raw: bytes, text: str) -> None:
    with pytest.raises(WireError, match=text):
        parse_frame(raw)
