"""Waiting longer after each failure."""

from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Doubles from `first_seconds` to `longest_seconds`; a success resets it."""

    first_seconds: float = 1.0
    longest_seconds: float = 60.0
    _failures: int = 0

    def next_seconds(self) -> float:
        """How long to wait after one more failure."""
        wait = min(self.longest_seconds, self.first_seconds * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return wait

    def reset(self) -> None:
        """It worked."""
        self._failures = 0
