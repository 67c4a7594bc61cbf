"""PURE. How fast the line was, from the links' counters of real traffic."""

from dataclasses import dataclass, field
from typing import Final

from engine.contract.snapshot import SessionState

SPAN_SECONDS: Final = 1.0
"""Traffic is looked at over at least so long: a burst into a buffer is no speed."""

LEAST_BYTES: Final = 64 * 1024
"""Less in a span says nothing of what the line can do."""


@dataclass(slots=True)
class LineMeter:
    """The fastest that was seen. It is a lower bound: nobody sends only to measure."""

    upload_bytes_per_second: float | None = None
    download_bytes_per_second: float | None = None
    _since: float | None = None
    _sent: int = 0
    _received: int = 0
    _links: dict[str, tuple[int, int]] = field(default_factory=dict)

    def note(self, session: SessionState, now: float) -> None:
        """Learn from the links' counters, which begin anew with each link. `now` never goes back."""
        links = {peer.peer_id: (peer.bytes_sent, peer.bytes_received) for peer in session.peers}
        for peer, (sent, received) in links.items():
            before_sent, before_received = self._links.get(peer, (sent, received))
            self._sent += max(0, sent - before_sent)
            self._received += max(0, received - before_received)
        self._links = links
        if self._since is None:
            self._since = now
        elapsed = now - self._since
        if elapsed < SPAN_SECONDS:
            return
        self.upload_bytes_per_second = _faster(self.upload_bytes_per_second, self._sent, elapsed)
        self.download_bytes_per_second = _faster(self.download_bytes_per_second, self._received, elapsed)
        self._since, self._sent, self._received = now, 0, 0


def _faster(before: float | None, count: int, seconds: float) -> float | None:
    if count < LEAST_BYTES:
        return before
    return max(before or 0.0, count / seconds)
