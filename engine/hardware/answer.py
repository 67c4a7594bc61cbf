"""What a probe answers."""

import math
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Answer(Generic[Value]):
    """A reading and where it comes from; or None and, in `source`, why there is none."""

    value: Value | None
    source: str


def number(text: str, low: float, high: float) -> float | None:
    """`text` as a number from `low` to `high`; None for anything else ("N/A", "", "[Not Supported]", nan)."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and low <= value <= high else None
