"""Changes to valid samples: flip, cut, repeat, insert, splice. Plain numbers say which, so any engine can choose."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

TOKENS: Final[tuple[bytes, ...]] = (
    # msgpack: lengths that nothing follows, deep nesting, numbers at their ends, not-a-number.
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xdc\xff\xff",
    b"\xc9\xff\xff\xff\xff\x01",
    b"\xd6\xff\x00\x00\x00\x00",
    b"\x91" * 2000 + b"\xc0",
    b"\x81\x01" * 1000,
    b"\xcf" + b"\xff" * 8,
    b"\xd3\x80" + b"\x00" * 7,
    b"\xcb\x7f\xf8" + b"\x00" * 6,
    b"\xcb\x7f\xf0" + b"\x00" * 6,
    b"\xc0",
    # JSON and text: the same, and what UTF-8 and Unicode have in store.
    b"[" * 3000,
    b"[" * 2000 + b"]" * 2000,
    b'{"a":' * 3000,
    b"1e999",
    b"-1",
    b"NaN",
    b"null",
    b"9" * 400,
    b"9" * 5000,
    b'"\\ud800"',
    b"\xff",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\x00",
    b"\n",
    b"\\n",
    b"\r\n",
    b"%",
    b"[::1",
    b"\xe2\x80\xae",
    # Big-endian lengths of the frames.
    b"\xff\xff\xff\xff",
    b"\x00\x00\x00\x00",
    b"\x00\x01\x00\x00",
)


class Step(IntEnum):
    """Kinds of change."""

    FLIP = 0
    SET = 1
    CUT_END = 2
    CUT_OUT = 3
    REPEAT = 4
    INSERT = 5
    OVERWRITE = 6
    SPLICE = 7
    DIGIT = 8
    FIELD = 9


@dataclass(frozen=True, slots=True)
class Edit:
    """One change; `at`, `size` and `value` are any numbers from 0 and are folded into what fits."""

    step: Step
    at: int
    size: int
    value: int


def edited(data: bytes, edit: Edit, others: Sequence[bytes], max_bytes: int) -> bytes:
    """`data` after one change, at most `max_bytes` of it. `others` are the samples to splice with."""
    at = edit.at % (len(data) + 1)
    end = min(len(data), at + 1 + edit.size % 64)
    match edit.step:
        case Step.FLIP if at < len(data):
            out = data[:at] + bytes([data[at] ^ (1 << edit.value % 8)]) + data[at + 1 :]
        case Step.SET if at < len(data):
            out = data[:at] + bytes([edit.value % 256]) + data[at + 1 :]
        case Step.DIGIT if at < len(data):
            out = data[:at] + b"%d" % edit.value + data[at + 1 :]
        case Step.CUT_END:
            out = data[:at]
        case Step.CUT_OUT:
            out = data[:at] + data[end:]
        case Step.REPEAT:
            out = data[:at] + data[at:end] * (1 + edit.value % 200) + data[end:]
        case Step.INSERT:
            out = data[:at] + TOKENS[edit.value % len(TOKENS)] + data[at:]
        case Step.OVERWRITE:
            token = TOKENS[edit.value % len(TOKENS)]
            out = data[:at] + token + data[at + len(token) :]
        case Step.FIELD:
            out = _with_field(data, TOKENS[edit.value % len(TOKENS)])
        case Step.SPLICE if others:
            other = others[edit.value % len(others)]
            out = data[:at] + other[edit.size % (len(other) + 1) :]
        case _:
            out = data
    return out[:max_bytes]


def _with_field(data: bytes, value: bytes) -> bytes:
    """A msgpack or JSON map with one field more, which no type knows."""
    if data[:1] == b"{":
        return b'{"zz":' + value + b"," + data[1:]
    if data and 0x80 <= data[0] < 0x8F:
        return bytes([data[0] + 1]) + b"\xa2zz" + value + data[1:]
    return data


def mutated(data: bytes, edits: Sequence[Edit], others: Sequence[bytes], max_bytes: int) -> bytes:
    """`data` after all of `edits`."""
    for edit in edits:
        data = edited(data, edit, others, max_bytes)
    return data


def some_edits(dice: random.Random) -> list[Edit]:
    """One to eight changes, more often few."""
    count = min(dice.randint(1, 8), dice.randint(1, 8))
    return [
        Edit(Step(dice.randrange(len(Step))), dice.randrange(2**20), dice.randrange(2**12), dice.randrange(2**16))
        for _ in range(count)
    ]
