"""By chunks as at once: equal bytes, equal numbers, and errors that name the place in the whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.averaging.codecs.base import CHUNK_ELEMENTS, Codec, CodecError, Vector
from engine.averaging.codecs.float16 import Float16Codec
from engine.averaging.codecs.float32 import Float32Codec
from engine.averaging.codecs.int8 import QUANTISED_BLOCK_ELEMENTS, Int8Codec
from engine.averaging.codecs.layout import pieces_of
from engine.averaging.codecs.powersgd import PowerSgdCodec
from engine.averaging.codecs.streaming import ChunkDecoder, decode_chunks, encode_chunks, join

BLOCK = QUANTISED_BLOCK_ELEMENTS
SHAPES = ((100, 64), (64,), (64, 100), (9000,), (30, 40))
LENGTH = 6400 + 64 + 6400 + 9000 + 1200
CODECS: dict[str, Codec] = {
    "float32": Float32Codec(),
    "float16": Float16Codec(),
    "int8": Int8Codec(),
    "powersgd": PowerSgdCodec(pieces_of(SHAPES, 0, LENGTH, 2), 2),
}
EACH = pytest.mark.parametrize("name", CODECS)


def noise(count: int, seed: int) -> Vector:
    return np.random.default_rng(seed).normal(0.0, 1e5, count).astype(np.float32)


@EACH
@given(blocks=st.integers(1, 7), seed=st.integers(0, 99))
def test_chunks_have_the_bytes_of_the_whole(name: str, blocks: int, seed: int) -> None:
    codec, values = CODECS[name], noise(LENGTH, seed)
    chunks = list(encode_chunks(codec, values, blocks * BLOCK))
    whole = codec.encode(values)
    assert join(codec, chunks) == whole
    decoded = decode_chunks(codec, [chunk.payload for chunk in chunks], LENGTH, blocks * BLOCK)
    assert decoded.tobytes() == codec.decode(whole.payload, LENGTH).tobytes()
    assert (whole.saturated_count > 0) == (name == "float16")


@pytest.mark.parametrize("name", ["float32", "float16", "int8"])
@pytest.mark.parametrize("count", [0, 1, CHUNK_ELEMENTS - 1, CHUNK_ELEMENTS, CHUNK_ELEMENTS + 1, 3 * CHUNK_ELEMENTS])
def test_the_usual_chunks(name: str, count: int) -> None:
    codec, values = CODECS[name], noise(count, 1)
    chunks = list(encode_chunks(codec, values))
    assert [chunk.count for chunk in chunks[:-1]] == [CHUNK_ELEMENTS] * max(0, len(chunks) - 1)
    assert join(codec, chunks) == codec.encode(values)
    decoder, taken = ChunkDecoder(codec, count), 0
    for chunk in chunks:
        assert decoder.next_bytes == len(chunk.payload)
        place, decoded = decoder.feed(chunk.payload)
        assert decoded.tobytes() == codec.decode(chunk.payload, chunk.count).tobytes()
        assert place == taken
        taken += chunk.count
    decoder.finish()
    assert (decoder.next_bytes, decoder.is_complete) == (0, True)


def test_a_matrix_larger_than_a_chunk_is_a_chunk_by_itself() -> None:
    assert CODECS["powersgd"].chunks(LENGTH, BLOCK) == (
        (0, 6400),
        (6400, 6464),
        (6464, 12864),
        (12864, 21864),
        (21864, 23064),
    )
    assert CODECS["powersgd"].chunks(LENGTH) == ((0, LENGTH),)


@EACH
def test_a_chunk_of_another_size_is_refused_and_not_taken(name: str) -> None:
    codec = CODECS[name]
    chunks = [chunk.payload for chunk in encode_chunks(codec, noise(LENGTH, 3), 2 * BLOCK)]
    decoder = ChunkDecoder(codec, LENGTH, 2 * BLOCK)
    decoder.feed(chunks[0])
    for wrong in (chunks[1][:-1], chunks[1] + b"\0", b""):
        with pytest.raises(CodecError, match="bytes for"):
            decoder.feed(wrong)
    for chunk in chunks[1:]:
        decoder.feed(chunk)
    with pytest.raises(CodecError, match=f"after the last chunk at element {LENGTH}$"):
        decoder.feed(b"")


@EACH
def test_a_stream_that_ends_early_is_refused(name: str) -> None:
    codec = CODECS[name]
    chunks = list(encode_chunks(codec, noise(LENGTH, 3), 2 * BLOCK))
    place = sum(chunk.count for chunk in chunks[:-1])
    with pytest.raises(CodecError, match=f"the bytes end at element {place}$"):
        decode_chunks(codec, [chunk.payload for chunk in chunks[:-1]], LENGTH, 2 * BLOCK)


@EACH
def test_errors_name_the_place_in_the_whole(name: str) -> None:
    codec, values = CODECS[name], noise(LENGTH, 4)
    values[20_000] = np.inf
    with pytest.raises(CodecError, match=r"at element 20000$"):
        list(encode_chunks(codec, values, BLOCK))
    values[20_000] = 0.0
    chunks = [chunk.payload for chunk in encode_chunks(codec, values, BLOCK)]
    hostile = b"\xff" * len(chunks[2])
    first = sum(chunk.count for chunk in list(encode_chunks(codec, values, BLOCK))[:2])
    with pytest.raises(CodecError, match=f"at element {first}$"):
        decode_chunks(codec, [*chunks[:2], hostile], LENGTH, BLOCK)


def test_chunks_are_encoded_when_they_are_asked_for() -> None:
    values = noise(3 * BLOCK, 5)
    values[2 * BLOCK] = np.nan
    stream = encode_chunks(CODECS["int8"], values, BLOCK)
    assert [next(stream).count for _ in range(2)] == [BLOCK, BLOCK]
    with pytest.raises(CodecError):
        next(stream)


@pytest.mark.parametrize("chunk_elements", [0, -4096, 1, 4095, 6000])
def test_chunks_that_cut_blocks_are_refused(chunk_elements: int) -> None:
    with pytest.raises(ValueError, match="not whole blocks of 4096"):
        CODECS["int8"].chunks(10_000, chunk_elements)
    with pytest.raises(ValueError, match="not whole blocks"):
        ChunkDecoder(CODECS["float32"], 10_000, 0)
