"""PURE. Holds the share of time that the worker computes: a balance of compute time earned and spent.

At a duty `d` every second of wall time earns `d` seconds of computing, and what was computed is taken off. While the
balance is below zero the worker rests. So every micro-batch, however long, and every rest that the system made longer
than asked is made up for by the next rest: the mean error falls with the time, whatever the micro-batches take.
"""

import math
from typing import Final

MAX_CREDIT_SECONDS: Final = 0.25
"""Computing that may be made up for after a wait that was not a rest of ours; more would be a burst."""

MAX_DEBT_SECONDS: Final = 60.0
"""Computing that is paid for at most: a micro-batch during which the computer slept must not rest for a day."""


class DutyBalance:
    """One worker's balance. Both arguments of every call never go back: `now` is wall time in seconds, `busy` is the
    compute time so far in seconds, on a processor that of one of its threads."""

    def __init__(self, now: float, busy: float) -> None:
        self.duty = 1.0
        self._earning = 1.0  # the duty, or while that is 0 the one before
        self._now = now
        self._busy = busy
        self._balance = 0.0

    def set_duty(self, duty: float, now: float, busy: float) -> None:
        """From now on. What is owed stays owed and is paid at the new duty, so that one which changes all the time is
        held as well; a pause pays at the duty before it.
        """
        self.settle(now, busy)
        self.duty = min(1.0, max(0.0, duty)) if math.isfinite(duty) else 0.0
        if self.duty > 0.0:
            self._earning = self.duty

    def settle(self, now: float, busy: float) -> None:
        """Account for the time since the last call."""
        earned = self._earning * max(0.0, now - self._now)
        spent = max(0.0, busy - self._busy)
        self._now, self._busy = max(now, self._now), max(busy, self._busy)
        self._balance = max(-MAX_DEBT_SECONDS, min(MAX_CREDIT_SECONDS, self._balance + earned - spent))

    def rest_seconds(self, now: float) -> float:
        """How long to rest at `now`; infinite at duty 0."""
        if self.duty <= 0.0:
            return math.inf
        if self.duty >= 1.0:
            return 0.0
        return max(0.0, -self._balance / self.duty - (now - self._now))
