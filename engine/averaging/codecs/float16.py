"""IEEE 754 binary16, little-endian: two bytes an element, 11 significant bits from 6.1e-5 to 65504.

Rounding is to nearest, ties to even, which numpy promises on every machine; subnormals (multiples of 2^-24) are kept.
What is larger than 65504 becomes 65504 with its sign and is counted: a sender whose counter rises should scale, or
take another codec. (DeDLOC, arXiv 2106.10207, clamps in the same way without a count.)
"""

from typing import Final

import numpy as np

from engine.averaging.codecs import base
from engine.averaging.codecs.base import Codec, CodecError, CodecId, Encoded, Payload, Vector

MAX_FLOAT16: Final = 65504.0

_WIRE: Final = np.dtype("<f2")
_EXPONENT: Final = np.uint16(0x7C00)
"""All its bits set: an infinity or a NaN."""


class Float16Codec:
    """Half the bytes of float32, at a relative error of at most 2^-11."""

    codec_id = CodecId.FLOAT16

    def encoded_bytes(self, count: int) -> int:
        """2 for each element."""
        base.check_count(self.codec_id, count)
        return count * _WIRE.itemsize

    def encode(self, values: Vector) -> Encoded:
        """See `Codec.encode`. `saturated_count` is the number of elements of a magnitude above MAX_FLOAT16."""
        base.check_vector(self.codec_id, values)
        halves = np.empty(values.shape[0], dtype=_WIRE)
        saturated_count = 0
        for start in range(0, values.shape[0], base.BLOCK_ELEMENTS):
            block = values[start : start + base.BLOCK_ELEMENTS]
            if base.largest_magnitude(self.codec_id, block, start) > MAX_FLOAT16:
                saturated_count += int(np.count_nonzero(np.abs(block) > np.float32(MAX_FLOAT16)))
                block = np.clip(block, np.float32(-MAX_FLOAT16), np.float32(MAX_FLOAT16))
            with np.errstate(under="ignore"):
                halves[start : start + base.BLOCK_ELEMENTS] = block
        return Encoded(self.codec_id, halves.tobytes(), values.shape[0], saturated_count)

    def decode(self, payload: Payload, count: int) -> Vector:
        """See `Codec.decode`; exact."""
        base.check_length(self.codec_id, payload, self.encoded_bytes(count), count)
        bits = np.frombuffer(payload, dtype="<u2")
        values = np.empty(count, dtype=np.float32)
        for start in range(0, count, base.BLOCK_ELEMENTS):
            block = bits[start : start + base.BLOCK_ELEMENTS]
            unreal = np.bitwise_and(block, _EXPONENT) == _EXPONENT
            if unreal.any():
                index = start + int(np.argmax(unreal))
                raise CodecError(self.codec_id, f"bits 0x{int(bits[index]):04x}, which are not finite", index)
            values[start : start + base.BLOCK_ELEMENTS] = block.view(_WIRE)
        return values

    def chunks(self, count: int, chunk_elements: int = base.CHUNK_ELEMENTS) -> tuple[tuple[int, int], ...]:
        """Any cut will do."""
        base.check_count(self.codec_id, count)
        return base.even_chunks(count, chunk_elements, 1)

    def part(self, start: int, stop: int) -> Codec:
        """Every run is written alike."""
        return self
