"""Parts by chunks: encode, send and decode overlap, with the same bytes as at once.

Both ends compute the chunks from the codec and the count, so a chunk carries no length and needs no trust: the one
that comes next has one size, and any other is refused before it is read.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from engine.averaging.codecs.base import CHUNK_ELEMENTS, Codec, CodecError, Encoded, Payload, Vector, check_vector


def encode_chunks(codec: Codec, values: Vector, chunk_elements: int = CHUNK_ELEMENTS) -> Iterator[Encoded]:
    """Chunk after chunk, each encoded when it is asked for; `values` [count] must not change meanwhile.

    Raises:
        CodecError: as `Codec.encode`, with the element's place in the whole; chunks before it were given out.
        ValueError: see `Codec.chunks`.
    """
    check_vector(codec.codec_id, values)
    for start, stop in codec.chunks(values.shape[0], chunk_elements):
        try:
            encoded = codec.part(start, stop).encode(values[start:stop])
        except CodecError as error:
            raise error.moved(start) from error
        yield encoded


def join(codec: Codec, encoded: Sequence[Encoded]) -> Encoded:
    """Chunks as one: the bytes that `Codec.encode` gives for the whole."""
    return Encoded(
        codec.codec_id,
        b"".join(chunk.payload for chunk in encoded),
        sum(chunk.count for chunk in encoded),
        sum(chunk.saturated_count for chunk in encoded),
    )


class ChunkDecoder:
    """Takes a part's chunks in order. It keeps none of them: memory is one decoded chunk, held by the caller.

    Raises:
        CodecError: a count that is not one of this codec's.
        ValueError: see `Codec.chunks`.
    """

    def __init__(self, codec: Codec, count: int, chunk_elements: int = CHUNK_ELEMENTS) -> None:
        self._codec = codec
        self._count = count
        self._chunks = codec.chunks(count, chunk_elements)
        self._next = 0

    @property
    def is_complete(self) -> bool:
        """Whether every chunk came."""
        return self._next == len(self._chunks)

    @property
    def next_bytes(self) -> int:
        """The size of the chunk that comes next; 0 after the last."""
        if self.is_complete:
            return 0
        start, stop = self._chunks[self._next]
        return self._codec.part(start, stop).encoded_bytes(stop - start)

    def feed(self, payload: Payload) -> tuple[int, Vector]:
        """Where the next chunk begins, and its elements.

        Raises:
            CodecError: as `Codec.decode`, with the element's place in the whole; or no chunk was left. The chunk does
                not count as taken.
        """
        if self.is_complete:
            raise CodecError(self._codec.codec_id, "bytes after the last chunk", self._count)
        start, stop = self._chunks[self._next]
        try:
            values = self._codec.part(start, stop).decode(payload, stop - start)
        except CodecError as error:
            raise error.moved(start) from error
        self._next += 1
        return start, values

    def finish(self) -> None:
        """Say that nothing more comes.

        Raises:
            CodecError: a chunk is missing.
        """
        if not self.is_complete:
            raise CodecError(self._codec.codec_id, "the bytes end", self._chunks[self._next][0])


def decode_chunks(
    codec: Codec, payloads: Iterable[Payload], count: int, chunk_elements: int = CHUNK_ELEMENTS
) -> Vector:
    """The whole part, shape [count]. The vector grows with what has come, not with what was announced.

    Raises:
        CodecError: see `ChunkDecoder`.
        ValueError: see `Codec.chunks`.
    """
    decoder = ChunkDecoder(codec, count, chunk_elements)
    pieces = [decoder.feed(payload)[1] for payload in payloads]
    decoder.finish()
    return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.float32)
