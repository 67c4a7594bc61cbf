"""Block-wise int8: its bound, its exact bits, and the payloads that no encoder writes."""

import hashlib
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.averaging.codecs import base
from engine.averaging.codecs.base import CodecError, Vector
from engine.averaging.codecs.int8 import (
    LARGEST_SCALE,
    MAX_CODE,
    QUANTISED_BLOCK_ELEMENTS,
    SMALLEST_SCALE,
    Int8Codec,
)

CODEC = Int8Codec()
BLOCK = QUANTISED_BLOCK_ELEMENTS
LIMIT = float(np.float32(base.MAX_MAGNITUDE))


def noise(count: int, seed: int) -> Vector:
    """Uniform in [-1, 1), by integers and elementwise arithmetic only."""
    raw = np.asarray(np.random.Philox(key=seed).random_raw(count), dtype=np.uint64) >> np.uint64(40)
    return (raw.astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)).astype(np.float32)


def one_block(scale: float, codes: list[int]) -> bytes:
    return struct.pack(f"<f{len(codes)}b", scale, *codes)


@given(st.lists(st.floats(-LIMIT, LIMIT, width=32), min_size=1, max_size=80))
def test_the_error_is_at_most_half_a_step(numbers: list[float]) -> None:
    values = np.array(numbers, dtype=np.float32)
    decoded = CODEC.decode(CODEC.encode(values).payload, len(values)).astype(np.float64)
    largest = float(np.abs(values).max())
    bound = max(0.5 * largest / MAX_CODE * (1.0 + 1e-4), SMALLEST_SCALE * MAX_CODE)
    assert (np.abs(decoded - values) <= bound).all()


@given(st.lists(st.tuples(st.integers(-127, 127), st.integers(-149, 90)), min_size=1, max_size=3), st.integers(0, 99))
def test_it_is_what_the_definition_says_block_by_block(ends: list[tuple[int, int]], seed: int) -> None:
    """Each block has its own magnitude; the reference computes each element with Python's exact rounding."""
    count = BLOCK * (len(ends) - 1) + 37
    values = noise(count, seed)
    for row, (_, exponent) in enumerate(ends):
        block = values[row * BLOCK : (row + 1) * BLOCK]
        block *= np.float32(2.0**exponent)
    payload = CODEC.encode(values).payload
    decoded = CODEC.decode(payload, count)
    for row in range(len(ends)):
        block = values[row * BLOCK : (row + 1) * BLOCK]
        scale, *codes = struct.unpack_from(f"<f{len(block)}b", payload, row * (BLOCK + 4))
        expected = np.float32(np.abs(block).max()) / np.float32(127)
        assert scale == (expected if expected >= SMALLEST_SCALE else 0.0)
        for index in (0, 1, len(block) // 2, len(block) - 1):
            assert codes[index] == (round(float(block[index] / np.float32(scale))) if scale else 0)
            assert decoded[row * BLOCK + index] == np.float32(codes[index]) * np.float32(scale)


def test_the_largest_element_of_each_block_has_the_last_code() -> None:
    values = noise(3 * BLOCK, 7) * np.float32(1e-3)
    values[[10, BLOCK + 20, 2 * BLOCK + 30]] = [3.0, -5e-3, 1e20]
    codes = np.frombuffer(CODEC.encode(values).payload, dtype=np.int8).reshape(3, BLOCK + 4)[:, 4:]
    assert [int(codes[0, 10]), int(codes[1, 20]), int(codes[2, 30])] == [127, -127, 127]
    assert np.abs(codes.astype(np.int16)).max() == 127


def test_blocks_too_small_for_a_normal_scale_become_zeros() -> None:
    values = np.full(BLOCK + 5, -(2.0**-149), dtype=np.float32)
    values[BLOCK:] = SMALLEST_SCALE * 127
    encoded = CODEC.encode(values)
    decoded = CODEC.decode(encoded.payload, len(values))
    assert not decoded[:BLOCK].any()
    assert not np.signbit(decoded[:BLOCK]).any()
    assert (decoded[BLOCK:] == values[BLOCK:]).all()


def test_the_extremes_of_the_range_survive() -> None:
    values = np.array([LIMIT, -LIMIT, 0.0, -0.0], dtype=np.float32)
    decoded = CODEC.decode(CODEC.encode(values).payload, 4)
    assert np.allclose(decoded[:2], values[:2], rtol=1e-6)
    assert decoded[2:].tobytes() == bytes(8)


def test_the_bits_are_the_same_on_every_machine() -> None:
    values = noise(5 * BLOCK + 123, 2024)
    encoded = CODEC.encode(values)
    assert CODEC.encode(values.copy()) == encoded
    decoded = CODEC.decode(encoded.payload, len(values))
    assert hashlib.sha256(encoded.payload).hexdigest()[:16] == "11e31364ac98b1a2"
    assert hashlib.sha256(decoded.astype("<f4").tobytes()).hexdigest()[:16] == "95a0e98dbfbc8a3a"


@pytest.mark.parametrize(
    "scale", [math.nan, math.inf, -math.inf, -1.0, -0.0, 2e30, LARGEST_SCALE * 1.001, SMALLEST_SCALE / 2.0]
)
def test_scales_that_no_encoder_writes_are_refused(scale: float) -> None:
    sound = one_block(1.0, [1] * BLOCK)
    payload = sound * 17 + one_block(scale, [1, 2, 3])
    with pytest.raises(CodecError, match=f"scale of .* at element {17 * BLOCK}$"):
        CODEC.decode(payload, 17 * BLOCK + 3)
    with pytest.raises(CodecError, match=f"scale of .* at element {BLOCK}$"):
        CODEC.decode(sound + one_block(scale, [0] * BLOCK) + sound, 3 * BLOCK)


def test_codes_that_no_encoder_writes_are_refused() -> None:
    sound = one_block(1.0, [1] * BLOCK)
    with pytest.raises(CodecError, match=f"code -128 at element {BLOCK + 2}$"):
        CODEC.decode(sound + one_block(1.0, [1, -127, -128]), BLOCK + 3)
    with pytest.raises(CodecError, match=f"scale 0 at element {BLOCK + 1}$"):
        CODEC.decode(sound + one_block(0.0, [0, -1, 0]), BLOCK + 3)


def test_the_largest_sound_scale_stays_within_the_limit() -> None:
    decoded = CODEC.decode(one_block(LARGEST_SCALE, [127, -127]), 2)
    assert np.isfinite(decoded).all()
    assert abs(float(decoded[0])) <= base.MAX_MAGNITUDE * (1.0 + 2.0**-23)
