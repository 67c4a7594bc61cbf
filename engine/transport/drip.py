"""Noticing a peer that begins a message and then sends next to nothing of it. PURE."""

from typing import Final

LOOK_SECONDS: Final = 60.0
LEAST_BYTES: Final = 16 * 1024
"""In LOOK_SECONDS, while a message is held open: one frame. A line this slow could not take part anyway."""


class DripWatch:
    """Of one lane of one link."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._before = 0

    def look(self, held_bytes: int, received_bytes: int, now: float) -> bool:
        """Whether the peer holds memory here without sending. Call now and then; `received_bytes` only grows."""
        if not held_bytes:
            self._since = None
            return False
        if self._since is None:
            self._since, self._before = now, received_bytes
            return False
        if now - self._since < LOOK_SECONDS:
            return False
        drips = received_bytes - self._before < LEAST_BYTES
        self._since, self._before = now, received_bytes
        return drips
