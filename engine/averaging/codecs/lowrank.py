"""The linear algebra of PowerSGD: orthonormal columns, products in a fixed order, the starts that a sender keeps."""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.averaging.codecs.base import BLOCK_ELEMENTS, Vector

Matrix: TypeAlias = npt.NDArray[np.float32]

DEPENDENT: Final = 1e-6
"""A column of which projections leave less than this fraction adds no direction that float32 can tell: it becomes 0."""

_SEED: Final = 0x706F74
_SMALLEST_NORM: Final = 2.0**-100


def orthonormal(columns: Matrix) -> Matrix:
    """Gram-Schmidt, each column projected twice (Giraud et al., 2005), in float64; shape [m, r] as given.

    Columns have the length 1; those that depend on the ones before, or are 0, become 0.
    """
    result = columns.astype(np.float64, order="F")
    for k in range(result.shape[1]):
        column, before = result[:, k], result[:, :k]
        norm = float(np.linalg.norm(column))
        for _ in range(2):
            column -= before @ (before.T @ column)
        left = float(np.linalg.norm(column))
        if norm < _SMALLEST_NORM or left < DEPENDENT * norm:
            column[...] = 0.0
        else:
            column /= left
    return result.astype(np.float32, order="C")


def product(left: Matrix, right: Matrix, out: Vector) -> None:
    """Fill `out` [m * n] with left @ right.T, left [m, r], right [n, r]: the same bits on every machine.

    Column after column, each product and each sum rounded alone; blocks of rows only keep the work in the cache.
    """
    rows, columns = left.shape[0], right.shape[0]
    target = out.reshape(rows, columns)
    lines = np.ascontiguousarray(right.T)
    step = max(1, BLOCK_ELEMENTS // columns)
    scratch = np.empty((step, columns), dtype=np.float32)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for start in range(0, rows, step):
            block = target[start : start + step]
            factors, work = left[start : start + step], scratch[: block.shape[0]]
            np.multiply(factors[:, 0, None], lines[0], out=block)
            for k in range(1, lines.shape[0]):
                np.multiply(factors[:, k, None], lines[k], out=work)
                np.add(block, work, out=block)


class WarmStart:
    """The sender's directions from round to round, by tensor: r columns [columns of the tensor, r], 4 bytes each.

    They belong to a tensor, not to a part: other partitions of the vector go on from the same directions. A part
    that holds some rows of a tensor and another part with the others overwrite one another's; both serve as a start.
    Parts and means have one each.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self._kept: dict[int, Matrix] = {}

    @property
    def memory_bytes(self) -> int:
        """What is kept now: at most 4 * rank * the sum of the tensors' columns."""
        return sum(columns.nbytes for columns in self._kept.values())

    def start(self, tensor: int, columns: int) -> Matrix:
        """Where the iteration begins, shape [columns, rank]: what was kept, or a fixed sequence of numbers."""
        kept = self._kept.get(tensor)
        if kept is not None and kept.shape[0] == columns:
            return kept
        return _first_directions(tensor, columns, self.rank)

    def keep(self, tensor: int, directions: Matrix) -> None:
        """Begin here next time; columns of length 0 begin afresh. Shape [columns, rank]."""
        norms = np.linalg.norm(directions.astype(np.float64), axis=0)
        empty = norms < _SMALLEST_NORM
        scaled = directions / np.where(empty, 1.0, norms)
        fresh = _first_directions(tensor, directions.shape[0], self.rank)
        self._kept[tensor] = np.where(empty, fresh, scaled).astype(np.float32)


def _first_directions(tensor: int, columns: int, rank: int) -> Matrix:
    """Uniform in [-1, 1) from a Philox 4x64-10 stream keyed by the tensor (Salmon et al., SC 2011)."""
    stream = np.random.Philox(key=np.array([_SEED, tensor], dtype=np.uint64))
    raw = np.asarray(stream.random_raw(columns * rank), dtype=np.uint64) >> np.uint64(40)
    unit = raw.astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)
    return unit.reshape(columns, rank)
