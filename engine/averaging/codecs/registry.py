"""The codecs of one part of a round."""

from collections.abc import Sequence
from typing import Final

from engine.averaging.codecs.base import Registry
from engine.averaging.codecs.float16 import Float16Codec
from engine.averaging.codecs.float32 import Float32Codec
from engine.averaging.codecs.int8 import Int8Codec
from engine.averaging.codecs.layout import Shape, pieces_of
from engine.averaging.codecs.lowrank import WarmStart
from engine.averaging.codecs.powersgd import PowerSgdCodec

ELEMENTWISE: Final = Registry((Float32Codec(), Float16Codec(), Int8Codec()))
"""Those that need to know nothing of the model."""


def with_powersgd(shapes: Sequence[Shape], start: int, stop: int, rank: int, warm: WarmStart | None = None) -> Registry:
    """All codecs, for the run [start, stop) of the vector that concatenates tensors of these shapes.

    `warm` are the sender's own directions; receivers have none.

    Raises:
        ValueError: see `layout.pieces_of`.
    """
    low_rank = PowerSgdCodec(pieces_of(shapes, start, stop, rank), rank, warm)
    return Registry((*(ELEMENTWISE.codec(wire_id) for wire_id in ELEMENTWISE.ids), low_rank))
