"""Where time comes from, so that tests and the simulator can bring their own."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one to show and store, one to measure with."""

    def now(self) -> float:
        """Seconds since the epoch. May jump when the system's clock is set."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment. Never goes back."""
        ...


class SystemClock:
    """The computer's clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, now: float = 1_700_000_000.0, monotonic: float = 1000.0) -> None:
        self._now = now
        self._monotonic = monotonic

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            ValueError: `seconds` is negative or not a number.
        """
        if not seconds >= 0:
            raise ValueError(f"time does not pass by {seconds} seconds")
        self._now += seconds
        self._monotonic += seconds

    def set_wall(self, now: float) -> None:
        """Someone sets the system's clock; measured time goes on undisturbed."""
        self._now = now
