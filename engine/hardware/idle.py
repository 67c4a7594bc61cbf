"""For how long nobody has touched the keyboard or the mouse."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from engine.hardware.answer import Answer

START_LIMIT_SECONDS: Final = 0.4
FIRST_REST_SECONDS: Final = 2.0
REST_SECONDS: Final = 60.0
MAX_FAILURES: Final = 3

MAX_IDLE_SECONDS: Final = 10 * 365 * 86_400.0


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class IdleSource:
    """One way to learn it. `read` gets `now` (seconds since the epoch) and gives seconds, or None if it cannot tell."""

    name: str
    read: Callable[[float], float | None]
    close: Callable[[], None] = _nothing


class IdleReader:
    """Asks the sources in their order until one answers. Safe in any thread.

    A source that never answered, or failed MAX_FAILURES times in a row, rests: for FIRST_REST_SECONDS, and twice as
    long after each further failure, up to REST_SECONDS. A computer that is busy starting is asked again soon.
    """

    def __init__(
        self, sources: Sequence[IdleSource], why_none: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._sources = list(sources)
        self._why_none = why_none
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._failures: dict[str, int] = {source.name: MAX_FAILURES - 1 for source in sources}
        self._rests_until: dict[str, float] = {}

    def read(self, now: float) -> Answer[float]:
        """Seconds since the last touch, with the source; `now` is in seconds since the epoch.

        No further source is asked after START_LIMIT_SECONDS: those that are not reached wait for the next time.
        """
        with self._lock:
            return self._read(now)

    def close(self) -> None:
        """End what the sources started. Safe to repeat."""
        for source in self._sources:
            source.close()

    def _read(self, now: float) -> Answer[float]:
        began = self._monotonic()
        for source in self._sources:
            clock = self._monotonic()
            if clock - began > START_LIMIT_SECONDS:
                break
            if clock < self._rests_until.get(source.name, clock):
                continue
            seconds = source.read(now)
            if seconds is not None and 0 <= seconds <= MAX_IDLE_SECONDS:
                self._failures[source.name] = 0
                return Answer(seconds, source.name)
            self._failures[source.name] += 1
            if self._failures[source.name] >= MAX_FAILURES:
                again = self._failures[source.name] - MAX_FAILURES
                rest = min(REST_SECONDS, FIRST_REST_SECONDS * 2 ** min(again, 10))
                self._rests_until[source.name] = self._monotonic() + rest
        return Answer(None, self._why_none)
