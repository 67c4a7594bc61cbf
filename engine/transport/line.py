"""Round trip and loss of a line, from probes and the peer's reports on them. PURE."""

from typing import Final

ROUND_TRIP_WEIGHT: Final = 0.125
"""RFC 6298, alpha."""
LOSS_PROBES: Final = 100
"""Loss is judged over at least so many probes."""
LOSS_WEIGHT: Final = 0.3
MAX_WAITING: Final = 512
"""Probes without a report that are remembered."""


class Line:
    """This end's probes."""

    def __init__(self, first_number: int) -> None:
        self._next = first_number
        self._sent = 0
        self._waiting: dict[int, tuple[float, int]] = {}  # by number: when it was sent, and as which
        self._mark: tuple[int, int] | None = None  # (probes sent, probes received) where the loss sample began
        self.received = 0
        """The peer's probes that came."""
        self.round_trip_seconds: float | None = None
        self.loss: float | None = None
        """Share of the probes that did not arrive; None before LOSS_PROBES of them."""

    def probe(self, now: float) -> int:
        """The number of a probe that is sent now."""
        number, self._next = self._next, (self._next + 1) % 2**32
        self._sent += 1
        self._waiting[number] = (now, self._sent)
        while len(self._waiting) > MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
        return number

    def on_report(self, number: int, probes: int, now: float) -> float | None:
        """When probe `number` was sent; None when no report on it is due. `probes` is what the peer counted so far."""
        waiting = self._waiting.pop(number, None)
        if waiting is None:
            return None
        sent_at, place = waiting
        self.on_round_trip(now - sent_at)
        self._judge_loss(place, probes)
        return sent_at

    def on_round_trip(self, seconds: float) -> None:
        """One more sample."""
        before = self.round_trip_seconds
        self.round_trip_seconds = seconds if before is None else before + ROUND_TRIP_WEIGHT * (seconds - before)

    def _judge_loss(self, sent: int, received: int) -> None:
        if self._mark is None:
            self._mark = (sent, received)
            return
        more_sent, more_received = sent - self._mark[0], received - self._mark[1]
        if more_sent < LOSS_PROBES:
            return
        sample = min(1.0, max(0.0, 1.0 - more_received / more_sent))
        self.loss = sample if self.loss is None else self.loss + LOSS_WEIGHT * (sample - self.loss)
        self._mark = (sent, received)
