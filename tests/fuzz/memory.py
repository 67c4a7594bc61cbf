"""What decoding costs in memory, by what Python's allocators are asked for."""

import gc
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tests.fuzz.decoders import Decoder, takes

LEFT_BEHIND_BYTES: Final = 64 * 1024
"""What thousands of calls may leave: caches that fill up, not one object a call."""
PEAK_BASE_BYTES: Final = 96 * 1024
PEAK_FACTOR: Final = 32
"""What a byte of input may cost while it is looked at: a msgpack array of one-byte items makes an object of each."""


@contextmanager
def traced() -> Iterator[None]:
    """Allocations are counted inside."""
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def peak_bytes(decoder: Decoder, data: bytes) -> int:
    """The most that one call held at once. Call inside `traced`."""
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    takes(decoder, data)
    _, peak = tracemalloc.get_traced_memory()
    return peak - before


def allowed_bytes(data: bytes) -> int:
    """What a call with `data` may hold at once."""
    return PEAK_BASE_BYTES + PEAK_FACTOR * len(data)


def left_behind_bytes(decoder: Decoder, inputs: Sequence[bytes], warm_up: int, repeats: int) -> int:
    """What at least `repeats` calls left, after at least `warm_up` others. Call inside `traced`.

    Inputs go round whole times, so that caches of the standard library (`urlsplit`) hold the same at both looks.
    """
    _rounds(decoder, inputs, warm_up)
    before, _ = tracemalloc.get_traced_memory()
    _rounds(decoder, inputs, repeats)
    after, _ = tracemalloc.get_traced_memory()
    return after - before


def _rounds(decoder: Decoder, inputs: Sequence[bytes], calls: int) -> None:
    for _ in range(-(-calls // len(inputs))):
        for data in inputs:
            takes(decoder, data)
    gc.collect()
