"""Float32 keeps every bit; float16 rounds as `struct` does, saturates and counts."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.averaging.codecs import base
from engine.averaging.codecs.base import Codec, CodecError, CodecId, Vector
from engine.averaging.codecs.float16 import MAX_FLOAT16, Float16Codec
from engine.averaging.codecs.float32 import Float32Codec
from engine.averaging.codecs.int8 import Int8Codec

FLOAT32, FLOAT16, INT8 = Float32Codec(), Float16Codec(), Int8Codec()
EACH = pytest.mark.parametrize("codec", [FLOAT32, FLOAT16, INT8], ids=["float32", "float16", "int8"])
LIMIT = float(np.float32(base.MAX_MAGNITUDE))

bearable = st.floats(-LIMIT, LIMIT, width=32)
vectors = st.lists(bearable, max_size=60).map(lambda values: np.array(values, dtype=np.float32))


def vector(*values: float) -> Vector:
    return np.array(values, dtype=np.float32)


@given(vectors)
def test_float32_gives_back_the_bits(values: Vector) -> None:
    encoded = FLOAT32.encode(values)
    assert encoded.payload == struct.pack(f"<{len(values)}f", *values)
    assert FLOAT32.decode(encoded.payload, len(values)).tobytes() == values.tobytes()


@given(vectors)
def test_float16_rounds_to_nearest_even_and_counts_what_is_beyond(values: Vector) -> None:
    encoded = FLOAT16.encode(values)
    clamped = [min(max(float(value), -MAX_FLOAT16), MAX_FLOAT16) for value in values]
    assert encoded.payload == struct.pack(f"<{len(values)}e", *clamped)
    assert encoded.saturated_count == sum(abs(float(value)) > MAX_FLOAT16 for value in values)
    decoded = FLOAT16.decode(encoded.payload, len(values))
    assert decoded.tolist() == list(struct.unpack(f"<{len(values)}e", encoded.payload))


@given(st.lists(st.floats(-MAX_FLOAT16, MAX_FLOAT16, width=32), min_size=1, max_size=40))
def test_the_error_of_float16_is_bounded(numbers: list[float]) -> None:
    values = vector(*numbers)
    error = np.abs(FLOAT16.decode(FLOAT16.encode(values).payload, len(values)).astype(np.float64) - values)
    assert (error <= np.maximum(np.abs(values.astype(np.float64)) * 2.0**-11, 2.0**-25)).all()


def test_every_finite_half_survives_subnormals_and_signed_zeros_too() -> None:
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)]
    values = halves.astype(np.float32)
    encoded = FLOAT16.encode(values)
    assert encoded.payload == halves.astype("<f2").tobytes()
    assert encoded.saturated_count == 0
    assert FLOAT16.decode(encoded.payload, len(values)).tobytes() == values.tobytes()


def test_ties_between_halves_go_to_the_even_one() -> None:
    halves = np.arange(0x7BFF, dtype=np.uint16)  # up to the last but one
    lower, upper = (bits.view(np.float16).astype(np.float64) for bits in (halves, halves + np.uint16(1)))
    ties = ((lower + upper) / 2.0).astype(np.float32)  # exact: a half has 11 bits, float32 24
    written = np.frombuffer(FLOAT16.encode(ties).payload, dtype="<u2")
    assert (written == halves + halves % 2).all()


def test_the_edge_of_saturation() -> None:
    values = vector(65504.0, 65505.0, 65520.0, -1e30, 2.0**-25, -(2.0**-24))
    encoded = FLOAT16.encode(values)
    assert encoded.saturated_count == 3
    assert FLOAT16.decode(encoded.payload, 6).tolist() == [65504.0, 65504.0, 65504.0, -65504.0, 0.0, -(2.0**-24)]


def test_saturation_is_counted_over_blocks() -> None:
    values = np.full(2 * base.BLOCK_ELEMENTS + 3, 1e6, dtype=np.float32)
    assert FLOAT16.encode(values).saturated_count == len(values)


@EACH
@pytest.mark.parametrize("count", [0, 1, 4095, 4096, 4097, base.BLOCK_ELEMENTS, base.BLOCK_ELEMENTS + 1])
def test_the_size_is_known_from_the_count(codec: Codec, count: int) -> None:
    encoded = codec.encode(np.zeros(count, dtype=np.float32))
    assert (len(encoded.payload), encoded.count) == (codec.encoded_bytes(count), count)
    assert encoded.codec_id == codec.codec_id
    decoded = codec.decode(memoryview(encoded.payload), count)
    assert decoded.shape == (count,)
    assert decoded.dtype == np.float32
    assert decoded.flags.writeable


@EACH
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 2e30, -2e30])
@pytest.mark.parametrize("where", [0, 5000, base.BLOCK_ELEMENTS + 17])
def test_values_that_no_gradient_has_are_not_encoded(codec: Codec, bad: float, where: int) -> None:
    values = np.ones(base.BLOCK_ELEMENTS + 20, dtype=np.float32)
    values[where] = bad
    with pytest.raises(CodecError, match=f"at element {where}$") as caught:
        codec.encode(values)
    assert (caught.value.element, caught.value.codec_id) == (where, codec.codec_id)


@EACH
def test_only_float32_vectors_are_encoded(codec: Codec) -> None:
    with pytest.raises(CodecError, match="float64"):
        codec.encode(np.zeros(3, dtype=np.float64))
    with pytest.raises(CodecError, match="shape"):
        codec.encode(np.zeros((2, 2), dtype=np.float32))


@EACH
@pytest.mark.parametrize("change", [-1, 1, 4096])
def test_another_length_than_the_count_gives_is_refused(codec: Codec, change: int) -> None:
    payload = bytes(codec.encoded_bytes(5000) + change)
    with pytest.raises(CodecError, match="bytes for 5000 elements"):
        codec.decode(payload, 5000)


@EACH
@pytest.mark.parametrize("count", [-1, base.MAX_ELEMENTS + 1, 2**62])
def test_counts_that_no_part_has_are_refused_before_anything_is_allocated(codec: Codec, count: int) -> None:
    with pytest.raises(CodecError, match="the limit is"):
        codec.decode(b"", count)
    with pytest.raises(CodecError, match="the limit is"):
        codec.chunks(count)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e38])
def test_float32_from_a_peer_is_checked(bad: float) -> None:
    payload = bytearray(4 * (base.BLOCK_ELEMENTS + 5))
    struct.pack_into("<f", payload, 4 * (base.BLOCK_ELEMENTS + 3), bad)
    with pytest.raises(CodecError, match=f"at element {base.BLOCK_ELEMENTS + 3}$"):
        FLOAT32.decode(bytes(payload), base.BLOCK_ELEMENTS + 5)


@pytest.mark.parametrize("bits", [0x7C00, 0xFC00, 0x7C01, 0x7E00, 0xFFFF])
def test_float16_from_a_peer_is_checked(bits: int) -> None:
    payload = bytearray(2 * (base.BLOCK_ELEMENTS + 5))
    struct.pack_into("<H", payload, 2 * (base.BLOCK_ELEMENTS + 2), bits)
    with pytest.raises(CodecError, match=f"0x{bits:04x}.*at element {base.BLOCK_ELEMENTS + 2}$"):
        FLOAT16.decode(bytes(payload), base.BLOCK_ELEMENTS + 5)


@given(st.binary(max_size=300), st.integers(0, 120))
def test_any_bytes_are_decoded_to_finite_numbers_or_refused(payload: bytes, count: int) -> None:
    for codec in (FLOAT32, FLOAT16, INT8):
        exact = (payload * (codec.encoded_bytes(count) + 1))[: codec.encoded_bytes(count)]
        for given_bytes in (payload, exact):
            try:
                decoded = codec.decode(given_bytes, count)
            except CodecError:
                continue
            assert decoded.shape == (count,)
            assert (np.abs(decoded) <= LIMIT).all()


def test_an_error_names_codec_what_and_where() -> None:
    error = CodecError(CodecId.INT8, "a bad scale", 3)
    assert str(error.moved(100)) == "int8: a bad scale at element 103"
    assert str(CodecError(CodecId.FLOAT16, "no bytes").moved(8)) == "float16: no bytes at element 8"
    assert str(CodecError(99, "is not understood here")) == "codec 99: is not understood here"
