"""Error feedback: unbiased over rounds, unchanged by rounds that fail, bounded in memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.averaging.codecs.base import Codec, CodecError, Vector
from engine.averaging.codecs.feedback import MeanFeedback, PartFeedback
from engine.averaging.codecs.float16 import Float16Codec
from engine.averaging.codecs.float32 import Float32Codec
from engine.averaging.codecs.int8 import Int8Codec
from engine.averaging.codecs.layout import Piece
from engine.averaging.codecs.powersgd import PowerSgdCodec

INT8, FLOAT16, FLOAT32 = Int8Codec(), Float16Codec(), Float32Codec()
LENGTH = 10_000


def noise(count: int, seed: int) -> Vector:
    return np.random.default_rng(seed).normal(0.0, 1.0, count).astype(np.float32)


def feedbacks() -> list[PartFeedback | MeanFeedback]:
    return [PartFeedback(LENGTH), MeanFeedback()]


def one_round(feedback: PartFeedback | MeanFeedback, codec: Codec, values: Vector, start: int = 0) -> Vector:
    feedback.begin()
    decoded = feedback.encode(codec, start, values).decoded
    feedback.commit()
    return decoded


@pytest.mark.parametrize("codec", [INT8, FLOAT16], ids=["int8", "float16"])
@pytest.mark.parametrize("feedback", feedbacks(), ids=["part", "mean"])
def test_the_mean_of_many_rounds_is_what_was_meant(feedback: PartFeedback | MeanFeedback, codec: Codec) -> None:
    """The same small values beside a large one: alone, int8 loses them in every round, and float16 their last bits."""
    values = noise(LENGTH, 1) * np.float32(1e-3)
    values[::4096] = 1.0
    rounds = 100
    plain = codec.decode(codec.encode(values).payload, LENGTH).astype(np.float64) - values
    total = np.zeros(LENGTH)
    for _ in range(rounds):
        total += one_round(feedback, codec, values)
    error = total / rounds - values
    assert np.abs(error).max() < np.abs(plain).max() / 20
    assert np.linalg.norm(error) < np.linalg.norm(plain) / 20
    feedback.forget()


@given(st.lists(st.integers(0, 999), min_size=1, max_size=12))
def test_what_arrived_is_what_was_meant_but_for_one_rounds_error(seeds: list[int]) -> None:
    feedback = PartFeedback(500)
    meant = arrived = np.zeros(500)
    largest = 0.0
    for seed in seeds:
        values = noise(500, seed)
        meant = meant + values
        arrived = arrived + one_round(feedback, INT8, values)
        largest = max(largest, float(np.abs(values).max()))
    step = largest * (1.0 + 1.0 / 100.0) / 127.0
    assert np.abs(meant - arrived).max() <= 0.51 * step


def test_powersgd_delivers_a_full_matrix_over_rounds() -> None:
    codec, feedback = PowerSgdCodec([Piece(40, 30, 0)], rank=2), PartFeedback(1200)
    values = noise(1200, 2)
    total, rounds = np.zeros(1200), 300
    for _ in range(rounds):
        feedback.begin()
        sent = feedback.encode(codec, 0, values)
        codec.keep_start(sent.encoded.payload)
        feedback.commit()
        total += sent.decoded
    lost = np.linalg.norm(codec.decode(codec.encode(values).payload, 1200) - values)
    assert np.linalg.norm(total / rounds - values) < lost / 10


def test_what_saturated_comes_later() -> None:
    feedback, values = PartFeedback(4), np.zeros(4, dtype=np.float32)
    values[1] = 100_000.0
    assert one_round(feedback, FLOAT16, values)[1] == 65504.0
    assert one_round(feedback, FLOAT16, np.zeros(4, dtype=np.float32))[1] == 34496.0


@pytest.mark.parametrize("feedback", feedbacks(), ids=["part", "mean"])
def test_a_round_that_failed_changes_nothing(feedback: PartFeedback | MeanFeedback) -> None:
    one_round(feedback, INT8, noise(LENGTH, 1))
    feedback.begin()
    first = feedback.encode(INT8, 0, noise(LENGTH, 2)).encoded
    feedback.abort()
    assert not feedback.is_open
    feedback.begin()
    assert feedback.encode(INT8, 0, noise(LENGTH, 2)).encoded == first
    feedback.commit()
    feedback.begin()
    assert feedback.encode(INT8, 0, noise(LENGTH, 2)).encoded != first
    feedback.abort()
    feedback.abort()


def test_only_accepted_parts_count() -> None:
    feedback = PartFeedback(LENGTH)
    feedback.begin()
    one = feedback.encode(INT8, 0, noise(4000, 1))
    feedback.encode(INT8, 4000, noise(6000, 2))
    feedback.commit([(0, 4000)])
    feedback.begin()
    residual = feedback.encode(FLOAT32, 0, np.zeros(LENGTH, dtype=np.float32)).decoded
    assert residual[:4000].tobytes() == (noise(4000, 1) - one.decoded).tobytes()
    assert not residual[4000:].any()


def test_a_parts_chunks_are_accepted_with_it() -> None:
    whole, chunked, values = PartFeedback(LENGTH), PartFeedback(LENGTH), noise(9000, 3)
    for _ in range(3):
        whole.begin()
        chunked.begin()
        at_once = whole.encode(INT8, 500, values)
        chunks = [chunked.encode(INT8, 500 + a, values[a:b]) for a, b in INT8.chunks(9000, 4096)]
        assert b"".join(chunk.encoded.payload for chunk in chunks) == at_once.encoded.payload
        whole.commit([(500, 9500)])
        chunked.commit([(500, 9500)])


@given(st.integers(0, LENGTH - 1), st.integers(0, LENGTH - 1))
def test_a_members_memory_survives_another_partition(cut: int, other: int) -> None:
    feedback, values = PartFeedback(LENGTH), noise(LENGTH, 4)
    feedback.begin()
    sent = [feedback.encode(INT8, a, values[a:b]).decoded for a, b in ((0, cut), (cut, LENGTH))]
    feedback.commit()
    feedback.begin()
    zeros = np.zeros(LENGTH, dtype=np.float32)
    later = [feedback.encode(FLOAT32, a, zeros[a:b]).decoded for a, b in ((0, other), (other, LENGTH))]
    assert np.concatenate(later).tobytes() == (values - np.concatenate(sent)).tobytes()


def test_an_aggregator_keeps_what_its_new_partition_shares_with_the_last() -> None:
    feedback, values = MeanFeedback(), noise(1000, 5)
    lost = values - one_round(feedback, INT8, values, start=100)
    feedback.begin()
    residual = feedback.encode(FLOAT32, 600, np.zeros(1000, dtype=np.float32)).decoded
    assert residual[:500].tobytes() == lost[500:].tobytes()
    assert not residual[500:].any()
    feedback.commit()
    feedback.begin()
    assert not feedback.encode(FLOAT32, 100, np.zeros(500, dtype=np.float32)).decoded.any()


def test_memory_is_what_is_stated() -> None:
    part, mean = PartFeedback(LENGTH), MeanFeedback()
    assert (part.memory_bytes, mean.memory_bytes) == (0, 0)
    for feedback, at_rest in ((part, 4 * LENGTH), (mean, 4 * 2000)):
        for start in (0, 1000, 3000):
            feedback.begin()
            feedback.encode(INT8, start, noise(2000, 1))
            assert feedback.memory_bytes <= at_rest + 4 * 2000
            feedback.commit()
            assert feedback.memory_bytes == at_rest
        feedback.forget()
        assert feedback.memory_bytes == 0


def test_to_forget_is_to_begin_afresh() -> None:
    for feedback in feedbacks():
        one_round(feedback, INT8, noise(LENGTH, 1))
        feedback.begin()
        feedback.forget()
        assert not feedback.is_open
        assert (
            one_round(feedback, INT8, noise(LENGTH, 2)).tobytes()
            == one_round(PartFeedback(LENGTH), INT8, noise(LENGTH, 2)).tobytes()
        )


def test_a_part_that_could_not_be_encoded_may_be_encoded_again() -> None:
    feedback = PartFeedback(LENGTH)
    feedback.begin()
    values = noise(LENGTH, 1)
    values[7] = np.nan
    with pytest.raises(CodecError, match=r"at element 7$"):
        feedback.encode(INT8, 0, values)
    values[7] = 0.0
    feedback.encode(FLOAT16, 0, values)
    feedback.commit()


def test_the_order_of_calls_is_held() -> None:
    feedback, values = PartFeedback(LENGTH), noise(100, 1)
    for call in (feedback.commit, lambda: feedback.encode(INT8, 0, values)):
        with pytest.raises(ValueError, match="no round is open"):
            call()
    feedback.begin()
    with pytest.raises(ValueError, match="a round is open"):
        feedback.begin()
    feedback.encode(INT8, 100, values)
    feedback.encode(INT8, 100, values[:0])
    for start in (100, 1, 199):
        with pytest.raises(ValueError, match="encoded in this round"):
            feedback.encode(INT8, start, values)
    for start in (-1, LENGTH - 99):
        with pytest.raises(ValueError, match=r"vector|within"):
            feedback.encode(INT8, start, values)
    for run in ((100, 199), (101, 300), (200, 400)):
        with pytest.raises(ValueError, match="nothing was encoded within"):
            feedback.commit([run])
    assert feedback.is_open
    feedback.commit([(0, 200)])
    with pytest.raises(ValueError, match="a vector of 0"):
        PartFeedback(0)
