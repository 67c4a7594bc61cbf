"""What every codec offers, what it refuses, and the registry by wire id.

A payload is untrusted: its length is compared with the one that the count of elements gives before anything is
allocated, and every scale, code and result has a named limit. Decoding is elementwise numpy, each operation rounded
once and alone as in `engine.averaging.kernels`, so that all members hold the same bits.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float32]
Payload: TypeAlias = bytes | memoryview

BLOCK_ELEMENTS: Final = 65_536
"""Elementwise work goes by blocks of this size, which stay in the processor's cache. No result depends on it."""

CHUNK_ELEMENTS: Final = 262_144
"""A part is encoded, sent and decoded by chunks of this many elements; a whole number of every codec's blocks."""

MAX_ELEMENTS: Final = 2**28
"""Of one part, 1 GiB decoded: above what any message carries at any codec's ratio."""

MAX_MAGNITUDE: Final = 2.0**100
"""Of an element, encoded or decoded: sums of thousands of such parts stay finite in float32."""


class CodecId(IntEnum):
    """On the wire; numbers are never given again."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT8 = 2
    POWERSGD = 3


class CodecError(ValueError):
    """Values that cannot be encoded, or a payload that no encoder writes; `element` is where, None for the whole."""

    def __init__(self, codec_id: int, what: str, element: int | None = None) -> None:
        name = CodecId(codec_id).name.lower() if codec_id in set(CodecId) else f"codec {codec_id}"
        place = "" if element is None else f" at element {element}"
        super().__init__(f"{name}: {what}{place}")
        self.codec_id = codec_id
        self.what = what
        self.element = element

    def moved(self, elements: int) -> "CodecError":
        """The same error as seen from a vector that begins `elements` earlier."""
        return CodecError(self.codec_id, self.what, elements + (self.element or 0))


@dataclass(frozen=True, slots=True)
class Encoded:
    """A vector's bytes. `saturated_count` elements were beyond the format's range and took its limit."""

    codec_id: CodecId
    payload: bytes
    count: int  # elements
    saturated_count: int = 0


class Codec(Protocol):
    """One way to write a float32 vector. Encoding and decoding change nothing in the codec."""

    @property
    def codec_id(self) -> CodecId:
        """Its number on the wire."""
        ...

    def encoded_bytes(self, count: int) -> int:
        """Exact size of `count` encoded elements.

        Raises:
            CodecError: the count is negative, above MAX_ELEMENTS, or not one that this codec is for.
        """
        ...

    def encode(self, values: Vector) -> Encoded:
        """Float32 of shape [count], every one finite and at most MAX_MAGNITUDE.

        Raises:
            CodecError: another type or shape, or an element that is not finite or too large.
        """
        ...

    def decode(self, payload: Payload, count: int) -> Vector:
        """A new float32 vector of shape [count], every element finite.

        Raises:
            CodecError: the payload is not `encoded_bytes(count)` long, or holds what no encoder writes.
        """
        ...

    def chunks(self, count: int, chunk_elements: int = CHUNK_ELEMENTS) -> tuple[tuple[int, int], ...]:
        """Runs [start, stop) whose encodings, one after the other, are the whole vector's encoding.

        Raises:
            CodecError: as `encoded_bytes`.
            ValueError: `chunk_elements` is not a positive multiple of the codec's blocks.
        """
        ...

    def part(self, start: int, stop: int) -> "Codec":
        """The codec for the run [start, stop) of a vector, as `chunks` gives it."""
        ...


class Registry:
    """The codecs that a peer understands, by wire id.

    Raises:
        ValueError: two codecs of one id.
    """

    def __init__(self, codecs: Iterable[Codec]) -> None:
        self._codecs: dict[int, Codec] = {}
        for codec in codecs:
            if self._codecs.setdefault(codec.codec_id, codec) is not codec:
                raise ValueError(f"two codecs have the id {codec.codec_id}")

    @property
    def ids(self) -> tuple[CodecId, ...]:
        """What is understood, ascending."""
        return tuple(CodecId(wire_id) for wire_id in sorted(self._codecs))

    def codec(self, wire_id: int) -> Codec:
        """The codec that a peer named.

        Raises:
            CodecError: none here has this id.
        """
        found = self._codecs.get(wire_id)
        if found is None:
            raise CodecError(wire_id, "is not understood here")
        return found


# What all codecs check.


def check_count(codec_id: CodecId, count: int) -> None:
    """Refuse counts that no part has."""
    if not 0 <= count <= MAX_ELEMENTS:
        raise CodecError(codec_id, f"{count} elements, the limit is {MAX_ELEMENTS}")


def check_length(codec_id: CodecId, payload: Payload, expected_bytes: int, count: int) -> None:
    """Refuse a payload of another length than the count gives."""
    length = memoryview(payload).nbytes
    if length != expected_bytes:
        raise CodecError(codec_id, f"{length} bytes for {count} elements, which take {expected_bytes}")


def check_vector(codec_id: CodecId, values: Vector) -> None:
    """Refuse what is not a float32 vector of a bearable length."""
    if values.dtype != np.float32 or values.ndim != 1:
        raise CodecError(codec_id, f"values are {values.dtype} of shape {values.shape}, not a float32 vector")
    check_count(codec_id, values.shape[0])


def largest_magnitude(codec_id: CodecId, values: Vector, start: int = 0) -> float:
    """The largest |value| of a block of at least one element, the first of which is element `start`.

    Raises:
        CodecError: an element is not finite, or above MAX_MAGNITUDE; it names the first.
    """
    largest = max(float(values.max()), -float(values.min()))
    if largest <= MAX_MAGNITUDE:
        return largest
    with np.errstate(invalid="ignore"):
        index = int(np.argmin(np.abs(values) <= MAX_MAGNITUDE))
    raise CodecError(codec_id, f"a value of {float(values[index])!r}, the limit is {MAX_MAGNITUDE:.4g}", start + index)


def even_chunks(count: int, chunk_elements: int, block_elements: int) -> tuple[tuple[int, int], ...]:
    """Runs of `chunk_elements`, the last one shorter.

    Raises:
        ValueError: `chunk_elements` is not a positive multiple of `block_elements`.
    """
    if chunk_elements < 1 or chunk_elements % block_elements:
        raise ValueError(f"chunks of {chunk_elements} elements are not whole blocks of {block_elements}")
    return tuple((start, min(start + chunk_elements, count)) for start in range(0, count, chunk_elements))
