import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.wire.errors import WireError
from engine.wire.frames import DataFrame, FrameSplitter, Withdrawal, digest_of, parse_frame
from engine.wire.limits import MAX_FRAME_PAYLOAD_BYTES, MAX_MESSAGES_AHEAD, MIN_FRAME_PAYLOAD_BYTES
from engine.wire.reassembly import BulkAssembler

SMALL = MIN_FRAME_PAYLOAD_BYTES
LIMIT = 64 * 1024


def frames_of(messages: list[bytes], payload_bytes: int = SMALL) -> list[DataFrame]:
    splitter = FrameSplitter(payload_bytes)
    frames = [parse_frame(raw) for message in messages for raw in splitter.split(message)]
    return [frame for frame in frames if isinstance(frame, DataFrame)]


def some_bytes(size: int) -> bytes:
    return bytes(index * 31 % 251 for index in range(size))


@given(
    sizes=st.lists(st.integers(0, 5 * SMALL), min_size=1, max_size=6),
    payload_bytes=st.integers(SMALL, 3 * SMALL),
    repeats=st.integers(0, 5),
    dice=st.randoms(use_true_random=False),
)
def test_any_order_and_any_repetition_gives_the_messages_once_and_in_order(
    sizes: list[int], payload_bytes: int, repeats: int, dice: random.Random
) -> None:
    messages = [some_bytes(size) for size in sizes]
    frames = frames_of(messages, payload_bytes)
    frames += dice.choices(frames, k=repeats)
    dice.shuffle(frames)
    assembler, got = BulkAssembler(LIMIT), []
    for frame in frames:
        got += assembler.feed(frame)
        assert assembler.held_bytes >= assembler.early_bytes >= 0
    assert got == messages
    assert assembler.held_bytes == 0
    assert assembler.in_turn_bytes == sum(sizes)


def test_what_lies_behind_a_missing_byte_is_counted_as_early() -> None:
    first, second, third, fourth = frames_of([some_bytes(2 * SMALL), some_bytes(2 * SMALL)])
    assembler = BulkAssembler(LIMIT)
    for frame in (second, third, fourth):
        assert assembler.feed(frame) == []
    assert (assembler.early_bytes, assembler.in_turn_bytes) == (3 * SMALL, 0)
    assert len(assembler.feed(first)) == 2
    assert (assembler.early_bytes, assembler.in_turn_bytes) == (0, 4 * SMALL)


@given(
    sizes=st.lists(st.integers(0, 4 * SMALL), min_size=2, max_size=5),
    victim=st.integers(0, 4),
    dice=st.randoms(use_true_random=False),
)
def test_a_withdrawn_message_is_left_out_and_the_count_of_bytes_goes_on(
    sizes: list[int], victim: int, dice: random.Random
) -> None:
    messages, victim = [some_bytes(size) for size in sizes], victim % len(sizes)
    frames = frames_of(messages)
    sent = [frame for frame in frames if frame.message != victim or (frame.index == 0 and frame.digest is None)]
    sent_bytes = sum(len(frame.payload) for frame in sent if frame.message == victim)
    dice.shuffle(sent)
    at = dice.randrange(len(sent) + 1)
    assembler, got = BulkAssembler(LIMIT), []
    for place in range(len(sent) + 1):
        if place == at:
            got += assembler.withdraw(Withdrawal(victim, sent_bytes))
        if place < len(sent):
            got += assembler.feed(sent[place])
    assert got == [message for number, message in enumerate(messages) if number != victim]
    assert assembler.held_bytes == 0
    assert assembler.in_turn_bytes == sum(sizes) - sizes[victim] + sent_bytes


def test_a_withdrawal_of_what_was_handed_out_changes_nothing() -> None:
    assembler = BulkAssembler(LIMIT)
    for frame in frames_of([b"done"]):
        assert assembler.feed(frame) == [b"done"]
    assert assembler.withdraw(Withdrawal(0, 4)) == []
    assert assembler.in_turn_bytes == 4


def data(message: int, index: int, total: int, payload: bytes, digest: bytes | None = None) -> DataFrame:
    return DataFrame(message, index, total, payload, digest)


PIECE = bytes(SMALL)


@pytest.mark.parametrize(
    ("frames", "text"),
    [
        ([data(0, 0, LIMIT + 1, PIECE)], "exceeds 65536"),
        ([data(MAX_MESSAGES_AHEAD, 0, 10, b"", bytes(16))], "where message 0 was due"),
        ([data(0, 0, 3 * SMALL, PIECE), data(0, 1, 4 * SMALL, PIECE)], "an earlier frame said"),
        ([data(0, 0, LIMIT, bytes(SMALL - 1))], "less than 1024"),
        ([data(0, 0, LIMIT, bytes(MAX_FRAME_PAYLOAD_BYTES + 1))], "more than 61440"),
        ([data(0, 1, SMALL, PIECE), data(0, 0, SMALL, PIECE)], "more than the 1024 bytes"),
        ([data(0, 1, 2 * SMALL, b"", bytes(16)), data(0, 2, 2 * SMALL, PIECE)], "frame 1 is the last"),
        ([data(0, 1, 2 * SMALL, b"", bytes(16)), data(0, 0, 2 * SMALL, b"", bytes(16))], "frame 1 is the last"),
        ([data(0, 2, 3 * SMALL, PIECE), data(0, 1, 3 * SMALL, b"", bytes(16))], "a later one came before"),
        ([data(0, 0, 2 * SMALL, PIECE), data(0, 1, 2 * SMALL, b"x", bytes(16))], "ended at 1025 of 2048"),
        ([data(0, 0, 1, b"x", bytes(16))], "does not match its digest"),
    ],
)
def test_frames_that_make_no_sense_are_refused(frames: list[DataFrame], text: str) -> None:
    assembler = BulkAssembler(LIMIT)
    for frame in frames[:-1]:
        assembler.feed(frame)
    with pytest.raises(WireError, match=text):
        assembler.feed(frames[-1])


def test_withdrawals_are_bounded() -> None:
    assembler = BulkAssembler(LIMIT)
    with pytest.raises(WireError, match="exceeds 65536"):
        assembler.withdraw(Withdrawal(0, LIMIT + 1))
    with pytest.raises(WireError, match="where message 0 was due"):
        assembler.withdraw(Withdrawal(MAX_MESSAGES_AHEAD, 0))


def test_claims_are_not_allocated() -> None:
    assembler = BulkAssembler(64 * 1024 * 1024)
    assembler.feed(data(0, 2**32 - 1, 64 * 1024 * 1024, b"tail", digest_of(b"")))
    assert assembler.held_bytes == 4
