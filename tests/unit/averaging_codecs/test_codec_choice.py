"""The rule by size, direction, line and manifest; the registry by wire id."""

import math

import pytest

from engine.averaging.codecs.base import CodecError, CodecId, Registry
from engine.averaging.codecs.choose import (
    EXACT_ELEMENTS,
    FAST_BYTES_PER_SECOND,
    SMALL_ELEMENTS,
    Choice,
    Direction,
    choose,
)
from engine.averaging.codecs.float16 import Float16Codec
from engine.averaging.codecs.registry import ELEMENTWISE, with_powersgd

FAST, SLOW, LARGE = FAST_BYTES_PER_SECOND, FAST_BYTES_PER_SECOND - 1.0, SMALL_ELEMENTS + 1
FLOAT32, FLOAT16 = Choice(CodecId.FLOAT32, needs_feedback=False), Choice(CodecId.FLOAT16, needs_feedback=False)
INT8, POWERSGD = Choice(CodecId.INT8, needs_feedback=True), Choice(CodecId.POWERSGD, needs_feedback=True)


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    ("count", "line", "rank", "expected"),
    [
        (0, SLOW, None, FLOAT32),
        (EXACT_ELEMENTS, SLOW, 4, FLOAT32),
        (EXACT_ELEMENTS + 1, SLOW, 4, FLOAT16),
        (SMALL_ELEMENTS, SLOW, None, FLOAT16),
        (LARGE, FAST, None, FLOAT16),
        (LARGE, SLOW, None, INT8),
        (LARGE, FAST, 4, POWERSGD),
        (LARGE, SLOW, 4, POWERSGD),
        (LARGE, 0.0, None, INT8),
        (LARGE, -1.0, None, INT8),
        (LARGE, math.nan, None, INT8),
        (LARGE, math.inf, None, INT8),
    ],
)
def test_the_rule(direction: Direction, count: int, line: float, rank: int | None, expected: Choice) -> None:
    assert choose(count, direction, line, powersgd_rank=rank) == expected


def test_an_aggregators_line_is_shared_by_all_it_answers() -> None:
    assert choose(LARGE, Direction.MEAN, 4 * FAST, receivers=4) == FLOAT16
    assert choose(LARGE, Direction.MEAN, 4 * FAST, receivers=5) == INT8


@pytest.mark.parametrize(
    ("count", "direction", "receivers", "rank"),
    [
        (-1, Direction.PART, 1, None),
        (5, Direction.MEAN, 0, None),
        (5, Direction.PART, 2, None),
        (5, Direction.PART, 1, 0),
        (5, Direction.PART, 1, 65),
    ],
)
def test_questions_that_make_no_sense_are_refused(
    count: int, direction: Direction, receivers: int, rank: int | None
) -> None:
    with pytest.raises(ValueError, match=r"elements|receiver|rank"):
        choose(count, direction, FAST, receivers, rank)


def test_the_wire_ids_do_not_change() -> None:
    assert {codec_id.name: int(codec_id) for codec_id in CodecId} == {
        "FLOAT32": 0,
        "FLOAT16": 1,
        "INT8": 2,
        "POWERSGD": 3,
    }


def test_a_codec_is_found_by_its_id_and_none_by_another() -> None:
    full = with_powersgd(((40, 30),), 0, 1200, rank=2)
    assert full.ids == tuple(CodecId)
    assert [full.codec(wire_id).codec_id for wire_id in range(4)] == list(CodecId)
    assert full.codec(3).encoded_bytes(1200) == 4 * 2 * 70
    assert ELEMENTWISE.ids == (CodecId.FLOAT32, CodecId.FLOAT16, CodecId.INT8)
    for unknown in (3, -1, 255):
        with pytest.raises(CodecError, match="not understood here"):
            ELEMENTWISE.codec(unknown)


def test_an_id_has_one_codec() -> None:
    with pytest.raises(ValueError, match="two codecs"):
        Registry((Float16Codec(), Float16Codec()))
