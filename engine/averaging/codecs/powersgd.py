"""PowerSGD (Vogels et al., arXiv 1905.13727) as a codec for parts: a matrix M [m, n] goes as P [m, r] and Q [n, r].

One power iteration a round: P = orthogonalised M Q', with Q' from the sender's round before, then Q = M^T P. Both are
sent, so that receivers need neither the sender's start nor shared dice. Decoding is the sum over k = 0 ... r-1 of the
outer products P[:, k] Q[:, k]^T: one multiplication and one addition an element and k, each rounded alone, so all
receivers hold the same bits. Encoding uses the machine's matrix products, whose last bits are nobody else's affair.

Biased: use it with `feedback`, which is what makes it converge (the paper's algorithm 2).
Plain runs and matrices that gain nothing go as float32.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from engine.averaging.codecs import base, layout
from engine.averaging.codecs.base import Codec, CodecError, CodecId, Encoded, Payload, Vector
from engine.averaging.codecs.layout import Piece
from engine.averaging.codecs.lowrank import WarmStart, orthonormal, product

MAX_DIRECTION: Final = 1.0 + 2.0**-10
"""An element of P: its columns have the length 1, or 0."""

_WIRE: Final = np.dtype("<f4")


class PowerSgdCodec:
    """For one run of the vector, given as its pieces.

    Encoding changes nothing: call `keep_start` with what was sent once the round stands.

    Raises:
        ValueError: a rank that is not from 1 to MAX_RANK.
    """

    codec_id = CodecId.POWERSGD

    def __init__(self, pieces: Sequence[Piece], rank: int, warm: WarmStart | None = None) -> None:
        if not 1 <= rank <= layout.MAX_RANK:
            raise ValueError(f"a rank of {rank} is not from 1 to {layout.MAX_RANK}")
        self._pieces = tuple(pieces)
        self._rank = rank
        self._warm = warm if warm is not None else WarmStart(rank)
        if self._warm.rank != rank:
            raise ValueError(f"directions of rank {self._warm.rank} for a rank of {rank}")
        self._count = sum(piece.count for piece in self._pieces)

    def encoded_bytes(self, count: int) -> int:
        """4 * rank * (rows + columns) for each matrix, 4 for each other element."""
        base.check_count(self.codec_id, count)
        if count != self._count:
            raise CodecError(self.codec_id, f"{count} elements for a layout of {self._count}")
        return sum(self._piece_bytes(piece) for piece in self._pieces)

    def encode(self, values: Vector) -> Encoded:
        """See `Codec.encode`."""
        base.check_vector(self.codec_id, values)
        self.encoded_bytes(values.shape[0])
        written: list[bytes] = []
        position = 0
        for piece in self._pieces:
            run = values[position : position + piece.count]
            self._check_range(run, position)
            written += [part.astype(_WIRE, copy=False).tobytes() for part in self._factors(piece, run, position)]
            position += piece.count
        return Encoded(self.codec_id, b"".join(written), values.shape[0])

    def decode(self, payload: Payload, count: int) -> Vector:
        """See `Codec.decode`. Elements of P are at most MAX_DIRECTION, those of Q and of the result MAX_MAGNITUDE."""
        base.check_length(self.codec_id, payload, self.encoded_bytes(count), count)
        numbers = np.frombuffer(payload, dtype=_WIRE).astype(np.float32, copy=False)
        values = np.empty(count, dtype=np.float32)
        position = read = 0
        for piece in self._pieces:
            run = values[position : position + piece.count]
            written = numbers[read : read + self._piece_bytes(piece) // _WIRE.itemsize]
            if piece.is_matrix:
                left, right = self._split(piece, written)
                self._check_factors(left, right, position)
                product(left, right, run)
            else:
                run[...] = written
            self._check_range(run, position)
            position += piece.count
            read += written.shape[0]
        return values

    def keep_start(self, payload: Payload) -> None:
        """Begin the next round's iteration at the Q of this payload of ours.

        Raises:
            CodecError: it has another length than this layout's.
        """
        base.check_length(self.codec_id, payload, self.encoded_bytes(self._count), self._count)
        numbers = np.frombuffer(payload, dtype=_WIRE).astype(np.float32, copy=False)
        read = 0
        for piece in self._pieces:
            written = numbers[read : read + self._piece_bytes(piece) // _WIRE.itemsize]
            if piece.is_matrix:
                self._warm.keep(piece.tensor, self._split(piece, written)[1])
            read += written.shape[0]

    def chunks(self, count: int, chunk_elements: int = base.CHUNK_ELEMENTS) -> tuple[tuple[int, int], ...]:
        """Whole matrices; one that is larger than a chunk is a chunk by itself."""
        self.encoded_bytes(count)
        return layout.chunk_runs(self._pieces, chunk_elements)

    def part(self, start: int, stop: int) -> Codec:
        """The codec for the pieces within [start, stop); it shares the kept directions.

        Raises:
            ValueError: a run that cuts a piece.
        """
        edges = [0]
        for piece in self._pieces:
            edges.append(edges[-1] + piece.count)
        if start not in edges or stop not in edges or start > stop:
            raise ValueError(f"the run [{start}, {stop}) is not of whole pieces")
        return PowerSgdCodec(self._pieces[edges.index(start) : edges.index(stop)], self._rank, self._warm)

    def _piece_bytes(self, piece: Piece) -> int:
        elements = self._rank * (piece.rows + piece.columns) if piece.is_matrix else piece.count
        return elements * _WIRE.itemsize

    def _factors(self, piece: Piece, run: Vector, position: int) -> list[npt.NDArray[np.float32]]:
        """P and Q of a matrix, or the run itself."""
        if not piece.is_matrix:
            return [run]
        matrix = run.reshape(piece.rows, piece.columns)
        with np.errstate(all="ignore"):
            left = orthonormal(matrix @ self._warm.start(piece.tensor, piece.columns))
            right = matrix.T @ left
        self._check_factors(left, right, position)
        return [left, right]

    def _split(self, piece: Piece, written: Vector) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        middle = piece.rows * self._rank
        return written[:middle].reshape(piece.rows, self._rank), written[middle:].reshape(piece.columns, self._rank)

    def _check_factors(self, left: npt.NDArray[np.float32], right: npt.NDArray[np.float32], position: int) -> None:
        for name, factor, limit in (("P", left, MAX_DIRECTION), ("Q", right, base.MAX_MAGNITUDE)):
            largest = max(float(factor.max()), -float(factor.min()))
            if not largest <= limit:
                what = f"a factor {name} with elements of {largest!r}, the limit is {limit:.4g}, in the matrix"
                raise CodecError(self.codec_id, what, position)

    def _check_range(self, run: Vector, position: int) -> None:
        for start in range(0, run.shape[0], base.BLOCK_ELEMENTS):
            base.largest_magnitude(self.codec_id, run[start : start + base.BLOCK_ELEMENTS], position + start)
