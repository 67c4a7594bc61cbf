"""Float32, little-endian: exact, four bytes an element."""

from typing import Final

import numpy as np

from engine.averaging.codecs import base
from engine.averaging.codecs.base import Codec, CodecId, Encoded, Payload, Vector

_WIRE: Final = np.dtype("<f4")


class Float32Codec:
    """The bits as they are, subnormals and signed zeros too."""

    codec_id = CodecId.FLOAT32

    def encoded_bytes(self, count: int) -> int:
        """4 for each element."""
        base.check_count(self.codec_id, count)
        return count * _WIRE.itemsize

    def encode(self, values: Vector) -> Encoded:
        """See `Codec.encode`; nothing is lost."""
        base.check_vector(self.codec_id, values)
        self._check_range(values)
        return Encoded(self.codec_id, values.astype(_WIRE, copy=False).tobytes(), values.shape[0])

    def decode(self, payload: Payload, count: int) -> Vector:
        """See `Codec.decode`."""
        base.check_length(self.codec_id, payload, self.encoded_bytes(count), count)
        values = np.frombuffer(payload, dtype=_WIRE).astype(np.float32)
        self._check_range(values)
        return values

    def chunks(self, count: int, chunk_elements: int = base.CHUNK_ELEMENTS) -> tuple[tuple[int, int], ...]:
        """Any cut will do."""
        base.check_count(self.codec_id, count)
        return base.even_chunks(count, chunk_elements, 1)

    def part(self, start: int, stop: int) -> Codec:
        """Every run is written alike."""
        return self

    def _check_range(self, values: Vector) -> None:
        for start in range(0, values.shape[0], base.BLOCK_ELEMENTS):
            base.largest_magnitude(self.codec_id, values[start : start + base.BLOCK_ELEMENTS], start)
