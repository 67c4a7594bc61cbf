"""A budget that refills with time: the token bucket as a meter (ITU-T I.371, generic cell rate). PURE."""


class Budget:
    """Allows `rate` units a second on average and `rate * burst_seconds` at once."""

    def __init__(self, rate: float, burst_seconds: float, now: float) -> None:
        self._rate = rate
        self._most = rate * burst_seconds
        self._left = self._most
        self._at = now

    def spend(self, units: float, now: float) -> bool:
        """Take `units` if they are there; False leaves the budget as it is. Time never runs back here."""
        if now > self._at:
            self._left = min(self._most, self._left + (now - self._at) * self._rate)
            self._at = now
        if units > self._left:
            return False
        self._left -= units
        return True
