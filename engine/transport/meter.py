"""What a line carries, from real traffic: bytes over busy time. PURE."""

from collections import deque
from typing import Final

DECAY: Final = 0.7
"""Weight that the past keeps at each sample."""
SAMPLE_BYTES: Final = 128 * 1024
"""Less than this tells of latency rather than of the line."""
KEPT_SPANS: Final = 10
SPAN_SECONDS: Final = 60.0
"""The fastest of the last KEPT_SPANS spans with traffic counts: a line is not slower for being little used."""


class RateMeter:
    """Bytes a second while there was something to carry."""

    def __init__(self, whole: "LineRate | None" = None) -> None:
        self._whole = whole
        self._past_bytes = 0.0
        self._past_seconds = 0.0
        self._sample_bytes = 0
        self._sample_seconds = 0.0
        self._since: float | None = None

    def busy(self, now: float) -> None:
        """There is something to carry from now on."""
        if self._since is None:
            self._since = now
            if self._whole is not None:
                self._whole.begin(now)

    def carried(self, size_bytes: int, now: float) -> None:
        """Bytes got across."""
        if self._since is None:
            return
        if self._whole is not None:
            self._whole.carried(size_bytes, now)
        self._sample_bytes += size_bytes
        self._sample_seconds += max(0.0, now - self._since)
        self._since = now
        if self._sample_bytes >= SAMPLE_BYTES and self._sample_seconds > 0.0:
            self._past_bytes = self._past_bytes * DECAY + self._sample_bytes
            self._past_seconds = self._past_seconds * DECAY + self._sample_seconds
            self._sample_bytes, self._sample_seconds = 0, 0.0

    def idle(self) -> None:
        """Nothing is left to carry, or the link ended. Safe to repeat."""
        if self._since is not None and self._whole is not None:
            self._whole.end()
        self._since = None

    @property
    def bytes_per_second(self) -> float | None:
        """None until there was enough to tell."""
        return self._past_bytes / self._past_seconds if self._past_seconds > 0.0 else None


class LineRate:
    """One direction of this computer's line, from what all links together carry over it."""

    def __init__(self) -> None:
        self._meter = RateMeter()
        self._users = 0
        self._fastest: deque[float] = deque(maxlen=KEPT_SPANS)
        self._span: float | None = None

    def begin(self, now: float) -> None:
        """A link has something to carry from now on."""
        self._users += 1
        self._meter.busy(now)

    def end(self) -> None:
        """It has nothing left."""
        self._users -= 1
        if self._users == 0:
            self._meter.idle()

    def carried(self, size_bytes: int, now: float) -> None:
        """Bytes got across on one of them."""
        self._meter.carried(size_bytes, now)
        rate = self._meter.bytes_per_second
        if rate is None:
            return
        if self._span is None or now - self._span >= SPAN_SECONDS:
            self._span = now
            self._fastest.append(rate)
        else:
            self._fastest[-1] = max(self._fastest[-1], rate)

    @property
    def bytes_per_second(self) -> float | None:
        """A lower bound of what the line can do, usually near it; None until there was enough to tell."""
        return max(self._fastest, default=None)
