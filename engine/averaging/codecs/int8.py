"""Block-wise int8: 4100 bytes for 4096 elements.

Each block of 4096 elements (the last may be shorter) is written as its scale, float32, and one signed code an element:
scale = max |value| / 127, code = value / scale rounded to nearest, ties to even. Decoding is code * scale, one float32
multiplication rounded once. The scheme is that of block-wise absmax quantisation (Dettmers et al., arXiv 2110.02861)
with linear codes. Scales are float32: float16 ones would spare half of a thousandth and lose small gradients.

A block below SMALLEST_SCALE becomes zeros, so that scales are never subnormal: machines that flush those agree.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from engine.averaging.codecs import base
from engine.averaging.codecs.base import Codec, CodecError, CodecId, Encoded, Payload, Vector

QUANTISED_BLOCK_ELEMENTS: Final = 4096
"""Part of the format."""

MAX_CODE: Final = 127
"""Symmetric: -128 is not a code."""

SMALLEST_SCALE: Final = 2.0**-126
"""The smallest normal float32."""

LARGEST_SCALE: Final = float(np.float32(base.MAX_MAGNITUDE) / np.float32(MAX_CODE))

_SCALE: Final = np.dtype("<f4")
_BLOCK_BYTES: Final = _SCALE.itemsize + QUANTISED_BLOCK_ELEMENTS
_BLOCKS_AT_ONCE: Final = base.BLOCK_ELEMENTS // QUANTISED_BLOCK_ELEMENTS


class Int8Codec:
    """A quarter of the bytes of float32; an element's error is at most half its block's scale, and one rounding.

    Biased for what is small beside its block's largest element: use it with `feedback`.
    """

    codec_id = CodecId.INT8

    def encoded_bytes(self, count: int) -> int:
        """1 for each element and 4 for each block begun."""
        base.check_count(self.codec_id, count)
        return count + _SCALE.itemsize * -(-count // QUANTISED_BLOCK_ELEMENTS)

    def encode(self, values: Vector) -> Encoded:
        """See `Codec.encode`. The scale fits each block, so nothing saturates."""
        base.check_vector(self.codec_id, values)
        written = np.empty(self.encoded_bytes(values.shape[0]), dtype=np.uint8)
        position = 0
        for start, rows in _groups(values):
            largest = np.maximum(rows.max(axis=1), np.negative(rows.min(axis=1)))
            if not (largest <= np.float32(base.MAX_MAGNITUDE)).all():
                base.largest_magnitude(self.codec_id, rows.reshape(-1), start)
            stop = position + rows.shape[0] * (_SCALE.itemsize + rows.shape[1])
            _quantise(rows, largest, written[position:stop].reshape(rows.shape[0], -1))
            position = stop
        return Encoded(self.codec_id, written.tobytes(), values.shape[0])

    def decode(self, payload: Payload, count: int) -> Vector:
        """See `Codec.decode`. Scales are 0, or from SMALLEST_SCALE to LARGEST_SCALE; at scale 0 all codes are 0."""
        base.check_length(self.codec_id, payload, self.encoded_bytes(count), count)
        written = np.frombuffer(payload, dtype=np.uint8)
        values = np.empty(count, dtype=np.float32)
        position = 0
        for start, rows in _groups(values):
            stop = position + rows.shape[0] * (_SCALE.itemsize + rows.shape[1])
            self._restore(written[position:stop].reshape(rows.shape[0], -1), rows, start)
            position = stop
        return values

    def chunks(self, count: int, chunk_elements: int = base.CHUNK_ELEMENTS) -> tuple[tuple[int, int], ...]:
        """Whole blocks."""
        base.check_count(self.codec_id, count)
        return base.even_chunks(count, chunk_elements, QUANTISED_BLOCK_ELEMENTS)

    def part(self, start: int, stop: int) -> Codec:
        """Every run is written alike."""
        return self

    def _restore(self, written: npt.NDArray[np.uint8], rows: Vector, start: int) -> None:
        """Fill `rows` [blocks, elements] from their bytes [blocks, 4 + elements]."""
        scales = _scales(written)
        codes = written[:, _SCALE.itemsize :].view(np.int8)
        fault = self._fault(scales, codes)
        if fault:
            what, row, column = fault
            raise CodecError(self.codec_id, what, start + row * QUANTISED_BLOCK_ELEMENTS + column)
        np.multiply(codes, scales[:, None], out=rows)

    @staticmethod
    def _fault(scales: Vector, codes: npt.NDArray[np.int8]) -> tuple[str, int, int] | None:
        """What is wrong, its block and its element within the block."""
        sound = (scales >= np.float32(SMALLEST_SCALE)) & (scales <= np.float32(LARGEST_SCALE))
        empty = (scales == 0.0) & ~np.signbit(scales)
        if not (sound | empty).all():
            row = int(np.argmin(sound | empty))
            return f"a block's scale of {float(scales[row])!r}", row, 0
        if codes.size and codes.min() < -MAX_CODE:
            row, column = divmod(int(np.argmin(codes)), codes.shape[1])
            return f"the code {-MAX_CODE - 1}", row, column
        for row in np.flatnonzero(empty).tolist():
            if codes[row].any():
                return "a code that is not 0 in a block of scale 0", row, int(np.argmax(codes[row] != 0))
        return None


def _groups(values: Vector) -> list[tuple[int, Vector]]:
    """Starts and views [blocks, elements] of a contiguous vector: whole blocks, several at once, then the rest."""
    whole = values.shape[0] - values.shape[0] % QUANTISED_BLOCK_ELEMENTS
    step = _BLOCKS_AT_ONCE * QUANTISED_BLOCK_ELEMENTS
    groups = [
        (start, values[start : min(start + step, whole)].reshape(-1, QUANTISED_BLOCK_ELEMENTS))
        for start in range(0, whole, step)
    ]
    if whole < values.shape[0]:
        groups.append((whole, values[whole:].reshape(1, -1)))
    return groups


def _scales(written: npt.NDArray[np.uint8]) -> Vector:
    """The scales of blocks' bytes [blocks, 4 + elements], copied: shape [blocks]."""
    return written[:, : _SCALE.itemsize].copy().view(_SCALE)[:, 0].astype(np.float32, copy=False)


def _quantise(rows: Vector, largest: Vector, written: npt.NDArray[np.uint8]) -> None:
    """Write blocks [blocks, elements] of these largest magnitudes [blocks] as bytes [blocks, 4 + elements]."""
    with np.errstate(under="ignore"):
        scales = largest / np.float32(MAX_CODE)
        scales[scales < np.float32(SMALLEST_SCALE)] = 0.0
        divisors = np.where(scales > 0.0, scales, np.float32(np.inf))
        codes = np.divide(rows, divisors[:, None])
    np.rint(codes, out=codes)
    written[:, : _SCALE.itemsize] = scales.astype(_SCALE)[:, None].view(np.uint8)
    written[:, _SCALE.itemsize :].view(np.int8)[...] = codes
