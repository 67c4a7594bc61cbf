"""How much of the vector each member aggregates, from the members' measured lines. PURE.

The leader plans and publishes; every member plans too, from the lines that the roll names, and refuses shares that
would make the round much slower than its own plan: so no leader can load a victim. Spec: docs/specs/averaging.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from engine.averaging.optimum import Line, fastest, seconds
from engine.transport.base import MAX_MESSAGE_BYTES

MIN_PARTITION_ELEMENTS: Final = 4096
"""Below this a partition costs more in messages than it spares in line: tiny vectors go to few aggregators."""

MAX_PARTITION_ELEMENTS: Final = (MAX_MESSAGE_BYTES - 4096) // 4
"""A partition travels in one message."""

SLOWER_FACTOR: Final = 1.25
"""Published shares may be this much slower than one's own plan: another version may plan otherwise, no worse."""

UNKNOWN_DOWNLOAD: Final = 1e15
_WEIGHT_UNITS: Final = 2**40


@dataclass(frozen=True, slots=True)
class Claim:
    """What a member says of itself; 0, or no number, is not measured."""

    upload_bytes_per_second: float = 0.0
    download_bytes_per_second: float = 0.0
    computes: bool = True


def lines_of(claims: Sequence[Claim]) -> list[Line]:
    """Lines to plan with: what is not measured counts as the slowest measured one, a download as no less than its
    upload, and alike where nobody measured."""
    ups = [rate for claim in claims if (rate := claim.upload_bytes_per_second) and _is_rate(rate)]
    downs = [rate for claim in claims if (rate := claim.download_bytes_per_second) and _is_rate(rate)]
    found = []
    for claim in claims:
        up = claim.upload_bytes_per_second if _is_rate(claim.upload_bytes_per_second) else min(ups, default=1.0)
        down = claim.download_bytes_per_second
        if not _is_rate(down):
            down = max(up, min(downs, default=UNKNOWN_DOWNLOAD))
        found.append(Line(max(1.0, up), max(1.0, down), claim.computes))
    return found


def shares(vector_length: int, claims: Sequence[Claim]) -> tuple[int, ...]:
    """Elements of the vector for each member to aggregate; they sum to the length. Equal input, equal shares.

    Raises:
        ValueError: no members, an empty vector, or one too long for these members at one message a partition.
    """
    members = len(claims)
    if members < 1 or vector_length < 1:
        raise ValueError("shares need a member and an element at least")
    if vector_length > members * MAX_PARTITION_ELEMENTS:
        raise ValueError(f"{vector_length} elements are too many for {members} members")
    if members == 1:
        return (vector_length,)
    lines = lines_of(claims)
    needed = -(-vector_length // MAX_PARTITION_ELEMENTS)
    worthwhile = max(needed, vector_length // MIN_PARTITION_ELEMENTS, 1)
    by_speed = sorted(range(members), key=lambda index: (-lines[index].upload_bytes_per_second, index))
    chosen = by_speed[:worthwhile]
    while True:
        found = _shares_of(vector_length, lines, chosen)
        small = [index for index in chosen if 0 < found[index] < MIN_PARTITION_ELEMENTS]
        if not small or len(chosen) <= needed:
            return tuple(found)
        chosen = [index for index in chosen if index != min(small, key=lambda index: (found[index], index))]


def shares_fault(vector_length: int, claims: Sequence[Claim], published: Sequence[int]) -> str:
    """Why a member does not go along with a leader's shares, or ""."""
    try:
        mine = shares(vector_length, claims)
    except ValueError as error:
        return str(error)
    if tuple(published) == mine or len(claims) < 2:
        return ""
    lines = lines_of(claims)
    theirs_seconds, mine_seconds = seconds(lines, published), seconds(lines, mine)
    if theirs_seconds > SLOWER_FACTOR * mine_seconds:
        return f"the shares make the round {theirs_seconds / mine_seconds:.1f} times as slow as it can be"
    return ""


def _is_rate(rate: float) -> bool:
    return math.isfinite(rate) and rate > 0.0


def _shares_of(vector_length: int, lines: Sequence[Line], chosen: Sequence[int]) -> list[int]:
    """Shares when only `chosen` aggregate."""
    allowed = set(chosen)
    planned = [
        Line(line.upload_bytes_per_second, line.download_bytes_per_second, line.computes, index in allowed)
        for index, line in enumerate(lines)
    ]
    if not any(line.computes for line in planned):  # no gradients: anybody may answer with nothing
        planned = [
            Line(line.upload_bytes_per_second, line.download_bytes_per_second, True, line.aggregates)
            for line in planned
        ]
    optimum = fastest(planned, min(1.0, MAX_PARTITION_ELEMENTS / vector_length))
    whole = math.fsum(optimum.rates)
    if whole > 0.0:
        weights = [round(rate / whole * _WEIGHT_UNITS) for rate in optimum.rates]
    else:
        weights = [int(index in allowed) for index in range(len(lines))]
    return _fitted(vector_length, weights)


def _fitted(total: int, weights: Sequence[int]) -> list[int]:
    """`total` in proportion to `weights`, none above MAX_PARTITION_ELEMENTS; what is cut off goes to the others."""
    result = [0] * len(weights)
    open_members = [index for index, weight in enumerate(weights) if weight]
    remaining = total
    while True:
        portion = _largest_remainder(remaining, [weights[index] for index in open_members])
        full = [index for index, share in zip(open_members, portion, strict=True) if share > MAX_PARTITION_ELEMENTS]
        for index in full:
            result[index] = MAX_PARTITION_ELEMENTS
            remaining -= MAX_PARTITION_ELEMENTS
        if not full:
            break
        open_members = [index for index in open_members if index not in full] or [
            index for index, share in enumerate(result) if not share
        ]
        weights = [weight or 1 for weight in weights]
    for index, share in zip(open_members, portion, strict=True):
        result[index] = share
    return result


def _largest_remainder(total: int, weights: Sequence[int]) -> list[int]:
    """`total` split in proportion to `weights`; leftovers go to the largest remainders, then to the first."""
    whole = sum(weights)
    result = [total * weight // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda index: (-(total * weights[index] % whole), index))
    for index in by_remainder[: total - sum(result)]:
        result[index] += 1
    return result
