"""Which matrices a run of the flat vector holds. PowerSGD compresses those; what lies between goes as it is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from engine.averaging.codecs.base import CHUNK_ELEMENTS

Shape: TypeAlias = tuple[int, ...]

MAX_RANK: Final = 64
"""Of a low-rank approximation: above, decoding costs more than a home's line spares."""

MIN_SAVING: Final = 2
"""A matrix whose factors are not this many times smaller goes uncompressed."""

NO_TENSOR: Final = -1


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive elements: a matrix [rows, columns], row by row, of tensor `tensor`; or a plain run [1, columns]."""

    rows: int
    columns: int
    tensor: int = NO_TENSOR

    @property
    def count(self) -> int:
        """Its elements."""
        return self.rows * self.columns

    @property
    def is_matrix(self) -> bool:
        """Whether it is compressed."""
        return self.tensor != NO_TENSOR


def pieces_of(shapes: Sequence[Shape], start: int, stop: int, rank: int) -> tuple[Piece, ...]:
    """The pieces of the run [start, stop) of the vector that concatenates tensors of these shapes.

    A tensor [n, ...] counts as a matrix [n, rest]. Of one that the run cuts, the whole rows within are the matrix.
    Equal input gives equal pieces: sender and receiver compute them from the manifest and the roll.

    Raises:
        ValueError: a run outside the vector, a dimension below 1, or a rank that is not from 1 to MAX_RANK.
    """
    if not 1 <= rank <= MAX_RANK:
        raise ValueError(f"a rank of {rank} is not from 1 to {MAX_RANK}")
    if any(dimension < 1 for shape in shapes for dimension in shape):
        raise ValueError("a tensor has a dimension below 1")
    sizes = [math.prod(shape) for shape in shapes]
    if not 0 <= start <= stop <= sum(sizes):
        raise ValueError(f"the run [{start}, {stop}) is not within {sum(sizes)} elements")
    pieces: list[Piece] = []
    begin = 0
    for tensor, (shape, size) in enumerate(zip(shapes, sizes, strict=True)):
        first, last = max(start, begin) - begin, min(stop, begin + size) - begin
        if first < last:
            columns = size // shape[0] if shape else 1
            pieces += _pieces_of_tensor(tensor, columns, first, last, rank)
        begin += size
    return _joined(pieces)


def _pieces_of_tensor(tensor: int, columns: int, first: int, last: int, rank: int) -> list[Piece]:
    """Of the elements [first, last) of a tensor: the rest of a row, whole rows, the beginning of a row."""
    first_row, last_row = -(-first // columns), last // columns
    rows = last_row - first_row
    if rows < 1 or MIN_SAVING * rank * (rows + columns) > rows * columns:
        return [Piece(1, last - first)]
    return [
        Piece(1, first_row * columns - first),
        Piece(rows, columns, tensor),
        Piece(1, last - last_row * columns),
    ]


def _joined(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Without empty pieces; plain neighbours as one."""
    result: list[Piece] = []
    for piece in pieces:
        if not piece.count:
            continue
        if result and not piece.is_matrix and not result[-1].is_matrix:
            result[-1] = Piece(1, result[-1].columns + piece.columns)
        else:
            result.append(piece)
    return tuple(result)


def chunk_runs(pieces: Sequence[Piece], chunk_elements: int = CHUNK_ELEMENTS) -> tuple[tuple[int, int], ...]:
    """Runs of whole pieces, each as long as fits `chunk_elements`; a larger piece is a run by itself.

    Raises:
        ValueError: `chunk_elements` is below 1.
    """
    if chunk_elements < 1:
        raise ValueError(f"chunks of {chunk_elements} elements")
    runs: list[tuple[int, int]] = []
    start = stop = 0
    for piece in pieces:
        if stop > start and stop + piece.count - start > chunk_elements:
            runs.append((start, stop))
            start = stop
        stop += piece.count
    return (*runs, (start, stop)) if stop > start else tuple(runs)
