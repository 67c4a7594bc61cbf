"""What happened to a session's links lately, and what they say of this computer's line."""

import secrets
from collections import deque
from typing import Final

from engine.contract.snapshot import LinkNote
from engine.core.clock import Clock
from engine.runtime.peers import PeerTable
from engine.runtime.session_events import Limits
from engine.transport.base import LinkDown, LinkUp, PathKind, PeerId, PeerNetwork
from engine.wire.messages import MAX_LINE_PROBE_BYTES, LineProbe

KEPT_NOTES: Final = 20
PROBE_AFTER_SECONDS: Final = 5.0
"""A link that carried nothing for so long since it came up is probed, if the line was not measured before."""
PROBE_BYTES: Final = MAX_LINE_PROBE_BYTES - 1024
NEAR: Final = (PathKind.MEMORY, PathKind.LOOPBACK, PathKind.LAN)


class LinkBook:
    """Kept by one session."""

    def __init__(self, network: PeerNetwork, clock: Clock) -> None:
        self._network = network
        self._clock = clock
        self._notes: deque[LinkNote] = deque(maxlen=KEPT_NOTES)
        self._up_since: dict[PeerId, float] = {}
        self._probed = False
        self._up_limit: int | None = None
        self._down_limit: int | None = None

    @property
    def notes(self) -> tuple[LinkNote, ...]:
        """The latest last."""
        return tuple(self._notes)

    def on_up(self, event: LinkUp, now: float) -> None:
        """A link came up."""
        self._up_since[event.peer_id] = now
        self._note(event.peer_id, "up", str(event.path), "", 0)

    def on_down(self, event: LinkDown) -> None:
        """A link went down."""
        self._up_since.pop(event.peer_id, None)
        lost = sum(lost.total_bytes for lost in event.lost)
        self._note(event.peer_id, "down", "", str(event.code), lost)

    def _note(self, peer: PeerId, what: str, path: str, code: str, lost_bytes: int) -> None:
        note = LinkNote(at=self._clock.now(), peer_id=peer, what=what, path=path, code=code, lost_bytes=lost_bytes)
        self._notes.append(note)

    def limit(self, limits: Limits) -> None:
        """What the user allows the network, from now on."""
        self._up_limit, self._down_limit = limits.upload_bytes_per_second, limits.download_bytes_per_second
        self._network.set_limits(self._up_limit, self._down_limit)
        self._network.set_relay_only(limits.relay_only)

    def figures(self) -> tuple[float, float]:
        """Bytes a second up and down as told to others, 0.0 where not measured; no more than the user allows."""
        line = self._network.line()
        return (
            _within(line.upload_bytes_per_second, self._up_limit),
            _within(line.download_bytes_per_second, self._down_limit),
        )

    def probe(self, peers: PeerTable, now: float) -> None:
        """Send the one probe of a session, once a link to the internet had time to be used and was not."""
        if self._probed or self._network.line().upload_bytes_per_second is not None:
            return
        for peer, since in self._up_since.items():
            stats = self._network.stats(peer)
            if stats is None or stats.path in NEAR or now - since < PROBE_AFTER_SECONDS or peer not in peers.ready():
                continue
            self._probed = True
            peers.send(peer, LineProbe(payload=secrets.token_bytes(PROBE_BYTES)))  # no line's compression helps
            return


def _within(measured: float | None, limit: int | None) -> float:
    if measured is None:
        return 0.0
    return measured if limit is None else min(measured, float(limit))
