"""What a line carries, from real traffic: bytes over busy time. PURE."""

from typing import Final

DECAY: Final = 0.7
"""Weight that the past keeps at each sample."""
SAMPLE_BYTES: Final = 128 * 1024
"""Less than this tells of latency rather than of the line."""


class RateMeter:
    """Bytes a second while there was something to carry."""

    def __init__(self) -> None:
        self._past_bytes = 0.0
        self._past_seconds = 0.0
        self._sample_bytes = 0
        self._sample_seconds = 0.0
        self._since: float | None = None

    def busy(self, now: float) -> None:
        """There is something to carry from now on."""
        if self._since is None:
            self._since = now

    def carried(self, size_bytes: int, now: float) -> None:
        """Bytes got across."""
        if self._since is None:
            return
        self._sample_bytes += size_bytes
        self._sample_seconds += max(0.0, now - self._since)
        self._since = now
        if self._sample_bytes >= SAMPLE_BYTES and self._sample_seconds > 0.0:
            self._past_bytes = self._past_bytes * DECAY + self._sample_bytes
            self._past_seconds = self._past_seconds * DECAY + self._sample_seconds
            self._sample_bytes, self._sample_seconds = 0, 0.0

    def idle(self) -> None:
        """Nothing is left to carry."""
        self._since = None

    @property
    def bytes_per_second(self) -> float | None:
        """None until there was enough to tell."""
        return self._past_bytes / self._past_seconds if self._past_seconds > 0.0 else None
