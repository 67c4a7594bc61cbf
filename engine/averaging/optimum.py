"""The fastest way to average over unequal lines: DeDLOC's linear program in a reduced form that needs no solver. PURE.

Diskin et al., "Distributed Deep Learning in Open Collaborations" (arXiv 2106.10207), section 3.2, state a program of
2n² + n + 1 variables. Every part must reach everybody, so an aggregator k has one rate r_k at which it works through
its share, and with R = sum of r_k, n members that all receive, m of them computing (c_k = 1):

    upload of k:    c_k (R - r_k) + r_k (n - 1)     <= u_k
    download of k:      (R - r_k) + r_k (m - c_k)   <= d_k
    r_k = 0 where k does not aggregate;  maximise R

For a given R each r_k lies in an interval that narrows as R grows, so the largest R is found by bisection and any rates
within the intervals that sum to it are optimal. Among these the ones with the least maximal r_k / u_k are taken: many
optima exist where one slow line or nobody limits R, and a vertex of the program may give one member everything.

Only + - * / and comparisons of float64 occur, so every machine finds the same rates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

HALVINGS: Final = 100
"""More than float64 has bits: the bounds meet."""


@dataclass(frozen=True, slots=True)
class Line:
    """What one member's line does, and what it takes part in.

    Raises:
        ValueError: a rate that is no positive number.
    """

    upload_bytes_per_second: float
    download_bytes_per_second: float
    computes: bool = True  # has a gradient of its own to send
    aggregates: bool = True  # may be given a share

    def __post_init__(self) -> None:
        for rate in (self.upload_bytes_per_second, self.download_bytes_per_second):
            if not (math.isfinite(rate) and rate > 0.0):
                raise ValueError(f"a line of {rate} bytes a second")


@dataclass(frozen=True, slots=True)
class Optimum:
    """`rates[k]` over their sum is member k's share; `bytes_per_second` is the sum, at which the vector is averaged."""

    rates: tuple[float, ...]
    bytes_per_second: float


def fastest(lines: Sequence[Line], largest_share: float = 1.0) -> Optimum:
    """The best rates for these members; no share above `largest_share` of the vector.

    Raises:
        ValueError: fewer than two members, nobody aggregates or computes, or shares so small are not the vector.
    """
    if len(lines) < 2:
        raise ValueError("averaging takes two members at least")
    aggregators = sum(line.aggregates for line in lines)
    if not aggregators or not any(line.computes for line in lines):
        raise ValueError("nobody aggregates, or nobody computes")
    if aggregators * largest_share < 1.0 - 1e-9:
        raise ValueError(f"{aggregators} shares of {largest_share} are not the whole vector")
    low, high = 0.0, math.fsum(line.upload_bytes_per_second for line in lines)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if _feasible(lines, middle, largest_share):
            low = middle
        else:
            high = middle
    return Optimum(_even(lines, low, largest_share), low)


def seconds(lines: Sequence[Line], share_bytes: Sequence[float]) -> float:
    """How long an averaging takes whose members aggregate so many bytes: the slowest line, up or down."""
    computing, whole = sum(line.computes for line in lines), sum(share_bytes)
    slowest = 0.0
    for line, share in zip(lines, share_bytes, strict=True):
        sends = (whole - share if line.computes else 0.0) + share * (len(lines) - 1)
        takes = (whole - share) + share * (computing - line.computes)
        slowest = max(slowest, sends / line.upload_bytes_per_second, takes / line.download_bytes_per_second)
    return slowest


def bound_seconds(vector_bytes: float, upload_bytes_per_second: Sequence[float]) -> float:
    """T* = V max(1 / u_min, 2 (n - 1) / sum of u): no averaging among computing members is faster.

    It is reached where every download is as fast as its upload and everybody may aggregate.
    """
    members = len(upload_bytes_per_second)
    if members < 2:
        return 0.0
    return vector_bytes * max(1.0 / min(upload_bytes_per_second), 2.0 * (members - 1) / sum(upload_bytes_per_second))


def who_computes(
    lines: Sequence[Line], samples_per_second: Sequence[float], target_batch_samples: float, vector_bytes: float
) -> tuple[bool, ...]:
    """Who should send gradients so that steps come soonest: slow uploaders sit out where waiting for them costs more.

    The rate of steps is the smaller of sum(samples a second) / batch and the averagings a second. Members are dropped
    from the slowest upload on, the way the paper's relaxed program cannot decide (its relaxation is not tight).
    """
    order = sorted(range(len(lines)), key=lambda index: (-lines[index].upload_bytes_per_second, index))
    best_rate, best = -1.0, tuple(line.computes for line in lines)
    for kept in range(len(lines), 0, -1):
        computing = {index for index in order[:kept] if lines[index].computes}
        if not computing:
            continue
        chosen = [_computing(line, index in computing) for index, line in enumerate(lines)]
        compute = sum(samples_per_second[index] for index in computing) / target_batch_samples
        rate = min(compute, fastest(chosen).bytes_per_second / vector_bytes)
        if rate > best_rate * (1.0 + 1e-9):
            best_rate, best = rate, tuple(index in computing for index in range(len(lines)))
    return best


def _computing(line: Line, computes: bool) -> Line:
    return Line(line.upload_bytes_per_second, line.download_bytes_per_second, computes, line.aggregates)


def _interval(line: Line, total: float, members: int, computing: int, largest_share: float) -> tuple[float, float]:
    """Least and greatest rate of a member when all rates sum to `total`; there is none where the least is greater."""
    own = 1.0 if line.computes else 0.0
    least, most = 0.0, total * largest_share if line.aggregates else 0.0
    for slope, room in (
        (members - 1.0 - own, line.upload_bytes_per_second - own * total),
        (computing - own - 1.0, line.download_bytes_per_second - total),
    ):
        if slope > 0.0:
            most = min(most, room / slope)
        elif slope < 0.0:
            least = max(least, room / slope)
        elif room < 0.0:
            return 1.0, 0.0
    return least, most


def _intervals(lines: Sequence[Line], total: float, largest_share: float) -> list[tuple[float, float]]:
    computing = sum(line.computes for line in lines)
    return [_interval(line, total, len(lines), computing, largest_share) for line in lines]


def _feasible(lines: Sequence[Line], total: float, largest_share: float) -> bool:
    bounds = _intervals(lines, total, largest_share)
    if any(least > most for least, most in bounds):
        return False
    return math.fsum(least for least, _ in bounds) <= total <= math.fsum(most for _, most in bounds)


def _even(lines: Sequence[Line], total: float, largest_share: float) -> tuple[float, ...]:
    """Rates within their intervals that sum to `total`, the largest rate over its line as small as can be."""
    bounds = _intervals(lines, total, largest_share)

    def rates(load: float) -> tuple[float, ...]:
        pairs = zip(lines, bounds, strict=True)
        return tuple(max(least, min(most, load * line.upload_bytes_per_second)) for line, (least, most) in pairs)

    low, high = 0.0, total / min(line.upload_bytes_per_second for line in lines)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if math.fsum(rates(middle)) < total:
            low = middle
        else:
            high = middle
    return rates(high)
