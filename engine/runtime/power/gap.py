"""PURE. Notices that this computer slept, though nobody announced it."""

from dataclasses import dataclass
from typing import Final

SHORTEST_GAP_SECONDS: Final = 30.0
"""Links live through less: their consent to receive (RFC 7675) lasts that long."""


@dataclass(slots=True)
class GapWatch:
    """Told regularly, at the latest after `expected_seconds`, what the clocks say."""

    _awake: float | None = None
    _asleep: float = 0.0
    _now: float = 0.0

    def look(self, awake: float, asleep: float, now: float, expected_seconds: float) -> tuple[float, float] | None:
        """When (seconds since the epoch, `now` being that clock) the computer slept, if it did since the last call.

        `awake` counts seconds while it is awake, on some systems those asleep too; `asleep` counts only those, where
        the system tells.
        """
        before, since = self._awake, self._now
        slept = asleep - self._asleep
        self._awake, self._asleep, self._now = awake, asleep, now
        if before is None:
            return None
        late = awake - before - expected_seconds
        if max(slept, late) < SHORTEST_GAP_SECONDS:
            return None
        return since, max(since, now)
