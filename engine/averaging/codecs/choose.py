"""Which codec a part takes: a rule of its size, its direction, the line and the manifest. No state, no measurement."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final

from engine.averaging.codecs.base import CodecId
from engine.averaging.codecs.layout import MAX_RANK

EXACT_ELEMENTS: Final = 4096
"""Up to here a part goes as float32: its 16 KiB cost less than a packet's delay."""

SMALL_ELEMENTS: Final = 65_536
"""Up to here float16 on any line. Small parts are norms and biases, which suffer most from coarse steps; hivemind's
size-adaptive compression draws the line at the same place."""

FAST_BYTES_PER_SECOND: Final = 12_500_000.0
"""From here, 100 Mbit/s for each copy, a line is as good as local: float16 arrives soon enough."""


class Direction(Enum):
    """Which half of a round."""

    PART = "part"  # member to aggregator: its sum, once
    MEAN = "mean"  # aggregator to members: the same bytes to each


@dataclass(frozen=True, slots=True)
class Choice:
    """What to take. With `needs_feedback` the codec is biased, and only `feedback` makes it converge."""

    codec_id: CodecId
    needs_feedback: bool


def choose(
    count: int,
    direction: Direction,
    upload_bytes_per_second: float,
    receivers: int = 1,
    powersgd_rank: int | None = None,
) -> Choice:
    """The codec for `count` elements to each of `receivers`.

    `upload_bytes_per_second` is the sender's measured line; 0, or no number, is not measured and counts as slow.
    An aggregator's line is shared by all it answers; a part has one receiver. `powersgd_rank` is the manifest's
    request, None when it has none.

    Raises:
        ValueError: a negative count, no receivers, a part for several, or a rank that is not from 1 to MAX_RANK.
    """
    if count < 0 or receivers < 1:
        raise ValueError(f"{count} elements for {receivers} receivers")
    if direction is Direction.PART and receivers != 1:
        raise ValueError(f"a part has one receiver, not {receivers}")
    if powersgd_rank is not None and not 1 <= powersgd_rank <= MAX_RANK:
        raise ValueError(f"a rank of {powersgd_rank} is not from 1 to {MAX_RANK}")
    if count <= EXACT_ELEMENTS:
        return Choice(CodecId.FLOAT32, needs_feedback=False)
    if count <= SMALL_ELEMENTS:
        return Choice(CodecId.FLOAT16, needs_feedback=False)
    if powersgd_rank is not None:
        return Choice(CodecId.POWERSGD, needs_feedback=True)
    measured = math.isfinite(upload_bytes_per_second) and upload_bytes_per_second > 0.0
    if measured and upload_bytes_per_second / receivers >= FAST_BYTES_PER_SECOND:
        return Choice(CodecId.FLOAT16, needs_feedback=False)
    return Choice(CodecId.INT8, needs_feedback=True)
