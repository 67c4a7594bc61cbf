"""PowerSGD: what it keeps, its exact bits, its layout from shapes, hostile payloads, warm starts."""

import hashlib
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.averaging.codecs import base, layout
from engine.averaging.codecs.base import CodecError, CodecId, Vector
from engine.averaging.codecs.layout import Piece, Shape, chunk_runs, pieces_of
from engine.averaging.codecs.lowrank import Matrix, WarmStart, orthonormal, product
from engine.averaging.codecs.powersgd import MAX_DIRECTION, PowerSgdCodec

SHAPES: tuple[Shape, ...] = ((40, 30), (7,), (), (24, 4, 8), (5, 3))
LENGTH = 1200 + 7 + 1 + 768 + 15
PIECES = (Piece(40, 30, 0), Piece(1, 8), Piece(24, 32, 3), Piece(1, 15))


def noise(count: int, seed: int) -> Vector:
    """Uniform in [-1, 1), by integers and elementwise arithmetic only."""
    raw = np.asarray(np.random.Philox(key=seed).random_raw(count), dtype=np.uint64) >> np.uint64(40)
    return (raw.astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)).astype(np.float32)


def low_rank(rows: int, columns: int, rank: int, seed: int) -> Vector:
    """A matrix of exactly this rank, as a vector of small multiples of 2^-10."""
    dice = np.random.default_rng(seed)
    left, right = dice.integers(-8, 9, (rows, rank)), dice.integers(-8, 9, (rank, columns))
    return ((left @ right) * 2.0**-10).astype(np.float32).reshape(-1)


# Layout.


def test_tensors_become_matrices_and_what_lies_between_one_run() -> None:
    assert pieces_of(SHAPES, 0, LENGTH, rank=2) == PIECES


def test_of_a_tensor_that_is_cut_the_whole_rows_are_a_matrix() -> None:
    assert pieces_of(SHAPES, 45, 1100, rank=2) == (Piece(1, 15), Piece(34, 30, 0), Piece(1, 20))
    assert pieces_of(SHAPES, 60, 1200, rank=2) == (Piece(38, 30, 0),)


def test_a_matrix_that_gains_too_little_is_not_compressed() -> None:
    assert pieces_of(((40, 30),), 0, 1200, rank=8) == (Piece(40, 30, 0),)
    assert pieces_of(((40, 30),), 0, 1200, rank=9) == (Piece(1, 1200),)
    assert pieces_of(((40, 30),), 10, 25, rank=1) == (Piece(1, 15),)


@given(
    st.lists(st.lists(st.integers(1, 9), max_size=3).map(tuple), min_size=1, max_size=5),
    st.integers(1, 3),
    st.data(),
)
def test_the_pieces_cover_the_run_exactly(shapes: list[Shape], rank: int, data: st.DataObject) -> None:
    length = sum(math.prod(shape) for shape in shapes)
    start = data.draw(st.integers(0, length))
    stop = data.draw(st.integers(start, length))
    pieces = pieces_of(shapes, start, stop, rank)
    assert sum(piece.count for piece in pieces) == stop - start
    assert all(piece.count for piece in pieces)
    assert not any(not a.is_matrix and not b.is_matrix for a, b in itertools.pairwise(pieces))
    chunk_elements = data.draw(st.integers(1, 60))
    runs = chunk_runs(pieces, chunk_elements)
    assert [run[0] for run in runs[1:]] == [run[1] for run in runs[:-1]]
    assert sum(stop - start for start, stop in runs) == stop - start
    largest = max((piece.count for piece in pieces), default=0)
    assert all(stop - start <= max(chunk_elements, largest) for start, stop in runs)


@pytest.mark.parametrize(
    ("shapes", "start", "stop", "rank"),
    [(SHAPES, 0, LENGTH + 1, 2), (SHAPES, -1, 5, 2), (SHAPES, 6, 5, 2), (SHAPES, 0, 5, 0), (SHAPES, 0, 5, 65)],
)
def test_runs_and_ranks_that_make_no_sense_are_refused(
    shapes: tuple[Shape, ...], start: int, stop: int, rank: int
) -> None:
    with pytest.raises(ValueError, match=r"run|rank"):
        pieces_of(shapes, start, stop, rank)


def test_empty_dimensions_and_empty_chunks_are_refused() -> None:
    with pytest.raises(ValueError, match="dimension"):
        pieces_of(((3, 0),), 0, 0, 1)
    with pytest.raises(ValueError, match="chunks of 0"):
        chunk_runs(PIECES, 0)


# The algebra.


@given(st.integers(1, 30), st.integers(1, 6), st.integers(0, 999))
def test_columns_become_orthonormal_or_zero(rows: int, rank: int, seed: int) -> None:
    columns = noise(rows * rank, seed).reshape(rows, rank)
    result = orthonormal(columns).astype(np.float64)
    gram = result.T @ result
    kept = np.diag(gram) > 0.5
    assert np.allclose(gram, np.diag(kept.astype(np.float64)), atol=1e-5)
    assert kept.sum() == min(rows, rank)


def test_dependent_and_empty_columns_become_zero() -> None:
    one = noise(20, 1)
    result = orthonormal(np.stack([one, 3 * one, np.zeros_like(one), noise(20, 2)], axis=1))
    assert [bool(result[:, k].any()) for k in range(4)] == [True, False, False, True]


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 5), st.integers(0, 999))
def test_the_product_rounds_each_step_alone_in_order(rows: int, columns: int, rank: int, seed: int) -> None:
    left = noise(rows * rank, seed).reshape(rows, rank)
    right = noise(columns * rank, seed + 1).reshape(columns, rank)
    out = np.empty(rows * columns, dtype=np.float32)
    product(left, right, out)
    row, column = seed % rows, seed % columns
    total = left[row, 0] * right[column, 0]
    for k in range(1, rank):
        total = total + left[row, k] * right[column, k]
    assert out[row * columns + column] == total
    assert np.allclose(out.reshape(rows, columns), left @ right.T, atol=1e-5)


def test_blocks_of_rows_change_no_bit_of_the_product() -> None:
    left, right = noise(300 * 3, 1).reshape(300, 3), noise(1000 * 3, 2).reshape(1000, 3)
    whole, apart = np.empty(300_000, dtype=np.float32), np.empty(300_000, dtype=np.float32)
    product(left, right, whole)  # in blocks of 65 rows
    for row in range(300):
        product(left[row : row + 1], right, apart[row * 1000 : (row + 1) * 1000])
    assert whole.tobytes() == apart.tobytes()


def test_starts_are_fixed_kept_at_length_one_and_renewed_where_empty() -> None:
    warm = WarmStart(2)
    first = warm.start(5, 30)
    assert first.tobytes() == WarmStart(2).start(5, 30).tobytes()
    assert first.tobytes() != warm.start(6, 30).tobytes()
    assert warm.memory_bytes == 0
    directions: Matrix = np.zeros((30, 2), dtype=np.float32)
    directions[:, 1] = 1e25
    warm.keep(5, directions)
    kept = warm.start(5, 30)
    assert np.allclose(kept[:, 0], first[:, 0])
    assert np.allclose(kept[:, 1], 30**-0.5)
    assert warm.memory_bytes == 4 * 2 * 30
    assert warm.start(5, 31).shape == (31, 2)


# The codec.


def test_a_matrix_of_the_rank_comes_back_and_plain_runs_are_exact() -> None:
    values = np.concatenate([low_rank(40, 30, 2, 1), noise(8, 3), low_rank(24, 32, 2, 4), noise(15, 5)])
    codec = PowerSgdCodec(PIECES, rank=2)
    encoded = codec.encode(values)
    assert encoded.codec_id is CodecId.POWERSGD
    assert len(encoded.payload) == codec.encoded_bytes(LENGTH) == 4 * (2 * 70 + 8 + 2 * 56 + 15)
    decoded = codec.decode(encoded.payload, LENGTH)
    assert np.allclose(decoded, values, atol=1e-5)
    assert decoded[1200:1208].tobytes() == values[1200:1208].tobytes()
    assert decoded[-15:].tobytes() == values[-15:].tobytes()


@given(st.integers(0, 999), st.integers(1, 4))
def test_the_error_is_never_larger_than_the_matrix_and_not_below_the_best(seed: int, rank: int) -> None:
    values = noise(1200, seed)
    codec = PowerSgdCodec([Piece(40, 30, 0)], rank)
    error = np.linalg.norm(codec.decode(codec.encode(values).payload, 1200).astype(np.float64) - values)
    singular = np.linalg.svd(values.reshape(40, 30).astype(np.float64), compute_uv=False)
    best = math.sqrt(float(np.square(singular[rank:]).sum()))
    assert best * (1.0 - 1e-5) <= error <= float(np.linalg.norm(values)) * (1.0 + 1e-5)


def test_rounds_of_one_matrix_come_near_the_best_approximation() -> None:
    values = noise(1200, 9)
    codec = PowerSgdCodec([Piece(40, 30, 0)], rank=3)
    errors = []
    for _ in range(60):
        encoded = codec.encode(values)
        errors.append(float(np.linalg.norm(codec.decode(encoded.payload, 1200) - values)))
        codec.keep_start(encoded.payload)
    singular = np.linalg.svd(values.reshape(40, 30).astype(np.float64), compute_uv=False)
    best = math.sqrt(float(np.square(singular[3:]).sum()))
    assert errors[-1] < errors[0]
    assert errors[-1] < best * 1.01


def test_encoding_changes_nothing_until_the_start_is_kept() -> None:
    codec, values = PowerSgdCodec(PIECES, rank=2), noise(LENGTH, 1)
    first = codec.encode(values)
    assert codec.encode(values.copy()) == first
    codec.keep_start(first.payload)
    assert codec.encode(values) != first


def test_a_start_survives_another_partition() -> None:
    warm = WarmStart(2)
    whole = PowerSgdCodec(pieces_of(SHAPES, 0, LENGTH, 2), 2, warm)
    whole.keep_start(whole.encode(noise(LENGTH, 1)).payload)
    part, fresh = (PowerSgdCodec(pieces_of(SHAPES, 60, 1200, 2), 2, start) for start in (warm, None))
    assert part.encode(noise(1140, 2)) != fresh.encode(noise(1140, 2))


def test_zeros_stay_zeros_and_do_not_lose_the_directions() -> None:
    codec = PowerSgdCodec(PIECES, rank=2)
    encoded = codec.encode(np.zeros(LENGTH, dtype=np.float32))
    assert not codec.decode(encoded.payload, LENGTH).any()
    codec.keep_start(encoded.payload)
    values = np.concatenate([low_rank(40, 30, 2, 1), np.zeros(LENGTH - 1200, dtype=np.float32)])
    assert np.allclose(codec.decode(codec.encode(values).payload, LENGTH), values, atol=1e-5)


def test_decoding_has_the_same_bits_on_every_machine_whoever_decodes() -> None:
    """The payload is made by hand: the bits of an encoder are its own affair."""
    factors = [noise(80, 1) * np.float32(0.3), noise(60, 2), noise(8, 3), noise(48, 4) * np.float32(0.3)]
    payload = b"".join(part.astype("<f4").tobytes() for part in (*factors, noise(64, 5), noise(15, 6)))
    warm = WarmStart(2)
    warm.keep(0, noise(60, 7).reshape(30, 2))
    decoded = PowerSgdCodec(PIECES, 2).decode(payload, LENGTH)
    assert PowerSgdCodec(PIECES, 2, warm).decode(payload, LENGTH).tobytes() == decoded.tobytes()
    assert hashlib.sha256(decoded.astype("<f4").tobytes()).hexdigest()[:16] == "448302cc7f06fdf1"


# Hostile payloads.


@pytest.mark.parametrize(
    ("index", "number", "match"),
    [
        (0, math.nan, "factor P .* element 0$"),
        (5, -math.inf, "factor P .* element 0$"),
        (79, 1.01, "factor P .* element 0$"),
        (80, math.inf, "factor Q .* element 0$"),
        (139, -2e30, "factor Q .* element 0$"),
        (142, math.nan, "value of nan.* element 1202$"),
        (148, 2.0, "factor P .* element 1208$"),
        (148 + 112, 1e38, "value of 9.9.* element 1976$"),
    ],
)
def test_factors_that_no_encoder_writes_are_refused(index: int, number: float, match: str) -> None:
    codec = PowerSgdCodec(PIECES, rank=2)
    numbers = np.frombuffer(codec.encode(noise(LENGTH, 1)).payload, dtype="<f4").copy()
    numbers[index] = number
    with pytest.raises(CodecError, match=match):
        codec.decode(numbers.tobytes(), LENGTH)


def test_factors_within_their_limits_whose_product_is_not_are_refused() -> None:
    payload = np.full(2 * 70, MAX_DIRECTION, dtype="<f4")
    payload[80:] = np.float32(base.MAX_MAGNITUDE)
    with pytest.raises(CodecError, match=r"at element 0$"):
        PowerSgdCodec([Piece(40, 30, 0)], rank=2).decode(payload.tobytes(), 1200)


@pytest.mark.parametrize("change", [-4, 1, 400])
def test_truncated_and_padded_payloads_are_refused(change: int) -> None:
    codec = PowerSgdCodec(PIECES, rank=2)
    payload = bytes(codec.encoded_bytes(LENGTH) + change)
    with pytest.raises(CodecError, match="bytes for"):
        codec.decode(payload, LENGTH)
    with pytest.raises(CodecError, match="bytes for"):
        codec.keep_start(payload)


def test_counts_and_values_that_are_not_the_layouts_are_refused() -> None:
    codec = PowerSgdCodec(PIECES, rank=2)
    with pytest.raises(CodecError, match=f"{LENGTH - 1} elements for a layout of {LENGTH}"):
        codec.decode(b"", LENGTH - 1)
    with pytest.raises(CodecError, match="for a layout"):
        codec.encode(np.zeros(3, dtype=np.float32))
    values = noise(LENGTH, 1)
    values[1300] = np.nan
    with pytest.raises(CodecError, match=r"at element 1300$"):
        codec.encode(values)


def test_ranks_that_do_not_fit_are_refused() -> None:
    for rank in (0, layout.MAX_RANK + 1):
        with pytest.raises(ValueError, match="rank"):
            PowerSgdCodec(PIECES, rank)
    with pytest.raises(ValueError, match="directions of rank 3"):
        PowerSgdCodec(PIECES, 2, WarmStart(3))


@pytest.mark.parametrize(("start", "stop"), [(0, 100), (1200, 1201), (1208, 1200)])
def test_a_part_is_of_whole_pieces(start: int, stop: int) -> None:
    with pytest.raises(ValueError, match="whole pieces"):
        PowerSgdCodec(PIECES, 2).part(start, stop)
