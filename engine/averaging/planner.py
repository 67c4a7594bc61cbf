"""How much of the vector each member aggregates, from the members' measured lines."""

import math
from collections.abc import Sequence
from typing import Final

from engine.transport.base import MAX_MESSAGE_BYTES

MIN_PARTITION_ELEMENTS: Final = 4096
"""Below this a partition costs more in messages than it spares in line: tiny vectors go to few aggregators."""

MAX_PARTITION_ELEMENTS: Final = (MAX_MESSAGE_BYTES - 4096) // 4
"""A partition travels in one message."""

SLOWEST_FRACTION: Final = 16
"""A line slower than this fraction of the fastest one aggregates nothing."""


def shares(vector_length: int, upload_bytes_per_second: Sequence[float]) -> tuple[int, ...]:
    """Elements of the vector for each member to aggregate, in proportion to its upload; they sum to the length.

    Lines that are not measured (0, or not a number) count as the slowest measured one; when none is measured, all
    count alike. Rounding is by largest remainder, in integers, so that equal input gives equal shares everywhere.

    Raises:
        ValueError: no members, an empty vector, or one too long for these members at one message a partition.
    """
    members = len(upload_bytes_per_second)
    if members < 1 or vector_length < 1:
        raise ValueError("shares need a member and an element at least")
    if vector_length > members * MAX_PARTITION_ELEMENTS:
        raise ValueError(f"{vector_length} elements are too many for {members} members")
    weights = _aggregator_weights(vector_length, _rates(upload_bytes_per_second))
    result = [0] * members
    open_members = [index for index in range(members) if weights[index]]
    remaining = vector_length
    while True:
        portion = _largest_remainder(remaining, [weights[index] for index in open_members])
        full = [index for index, share in zip(open_members, portion, strict=True) if share > MAX_PARTITION_ELEMENTS]
        if not full:
            break
        for index in full:
            result[index] = MAX_PARTITION_ELEMENTS
            remaining -= MAX_PARTITION_ELEMENTS
        open_members = [index for index in open_members if index not in full]
    for index, share in zip(open_members, portion, strict=True):
        result[index] = share
    return tuple(result)


def _rates(upload_bytes_per_second: Sequence[float]) -> list[int]:
    """Whole bytes a second, at least 1: what is not measured takes the slowest measured rate."""
    measured = [rate for rate in upload_bytes_per_second if math.isfinite(rate) and rate > 0.0]
    fallback = min(measured, default=1.0)
    usable = [rate if math.isfinite(rate) and rate > 0.0 else fallback for rate in upload_bytes_per_second]
    return [max(1, int(rate)) for rate in usable]


def _aggregator_weights(vector_length: int, rates: Sequence[int]) -> list[int]:
    """The rates of those who aggregate, 0 for the others."""
    needed = -(-vector_length // MAX_PARTITION_ELEMENTS)
    worthwhile = max(needed, vector_length // MIN_PARTITION_ELEMENTS, 1)
    by_speed = sorted(range(len(rates)), key=lambda index: (-rates[index], index))
    fastest = rates[by_speed[0]]
    weights = [0] * len(rates)
    for place, index in enumerate(by_speed[:worthwhile]):
        if place < needed or rates[index] * SLOWEST_FRACTION >= fastest:
            weights[index] = rates[index]
    return weights


def _largest_remainder(total: int, weights: Sequence[int]) -> list[int]:
    """`total` split in proportion to `weights`; leftovers go to the largest remainders, then to the first."""
    whole = sum(weights)
    result = [total * weight // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda index: (-(total * weights[index] % whole), index))
    for index in by_remainder[: total - sum(result)]:
        result[index] += 1
    return result
