import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.training.pipe import FrameReader, PipeError, decode_from_worker, decode_to_worker, encode_frame
from engine.training.protocol import (
    MAX_FRAME_BYTES,
    Accumulated,
    Failed,
    Freeze,
    FromWorker,
    Pong,
    Throttle,
    ToWorker,
    Train,
    Write,
)

TO_WORKER: list[ToWorker] = [
    Train(global_step=3, keep=True),
    Freeze(),
    Throttle(duty=0.5, threads=2),
    Write(global_step=3, prompt="é", max_tokens=9),
]
FROM_WORKER: list[FromWorker] = [
    Pong(number=4),
    Accumulated(global_step=1, samples=2, tokens=3, loss_sum=4.5, busy_seconds=0.5),
    Failed(kind="internal", detail="x"),
]


@given(st.lists(st.integers(1, 40), max_size=200))
def test_frames_survive_any_cutting(cuts: list[int]) -> None:
    stream = b"".join(encode_frame(message) for message in TO_WORKER)
    reader = FrameReader()
    bodies: list[bytes] = []
    for cut in [*cuts, len(stream)]:
        piece, stream = stream[:cut], stream[cut:]
        bodies += reader.feed(piece)
    assert [decode_to_worker(body) for body in bodies] == TO_WORKER
    assert reader.pending_bytes == 0


def test_answers_survive_too() -> None:
    bodies = FrameReader().feed(b"".join(encode_frame(message) for message in FROM_WORKER))
    assert [decode_from_worker(body) for body in bodies] == FROM_WORKER


@pytest.mark.parametrize("length", [0, MAX_FRAME_BYTES + 1, 2**32 - 1])
def test_impossible_lengths_are_refused_before_their_bytes_come(length: int) -> None:
    with pytest.raises(PipeError, match=str(length)):
        FrameReader().feed(length.to_bytes(4, "little"))


def test_directions_are_not_mixed_up() -> None:
    (body,) = FrameReader().feed(encode_frame(Pong(number=1)))
    with pytest.raises(PipeError):
        decode_to_worker(body)
    (body,) = FrameReader().feed(encode_frame(Freeze()))
    with pytest.raises(PipeError):
        decode_from_worker(body)


@given(st.binary(min_size=1, max_size=60))
def test_random_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(PipeError):
        decode_from_worker(body)


def test_a_message_too_long_for_a_frame_is_refused_by_its_sender() -> None:
    with pytest.raises(PipeError, match="at most"):
        encode_frame(Write(global_step=0, prompt="x" * MAX_FRAME_BYTES, max_tokens=1))
