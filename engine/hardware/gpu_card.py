"""One reading of one graphics card, and who can be asked for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from engine.contract.snapshot import GpuReading

LIMIT_SECONDS: Final = 10.0
"""A driver's first answer may take seconds."""

MAX_GPUS: Final = 32
MAX_NAME_CHARS: Final = 100


@dataclass(frozen=True, slots=True)
class Card:
    """`process_loads`: percent of the card by process id; `process_memory_bytes`: its memory. None: not told.

    `energy_joules`: a counter.
    """

    gpu: GpuReading
    process_loads: Mapping[int, float] | None = None
    energy_joules: float | None = None
    process_memory_bytes: Mapping[int, int] | None = None


class CardSource(Protocol):
    """Asks without waiting: `ask`, and later `take` until it gives what was answered."""

    @property
    def waiting(self) -> bool:
        """True while an answer is under way."""
        ...

    def ask(self, monotonic: float) -> None: ...

    def take(self, monotonic: float) -> tuple[Card, ...] | None:
        """None: no answer yet, or none that can be used; `waiting` tells which."""
        ...

    def rest(self) -> None:
        """Nothing more will be asked for a while: let go of the driver. Safe to repeat."""
        ...
