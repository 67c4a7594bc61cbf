"""Who is connected, what each last said of itself, and whose word is not taken for a while. PURE."""

from dataclasses import dataclass
from typing import Final

from engine.transport.base import PeerId
from engine.wire.messages import Progress

MAX_REMEMBERED_OFFENDERS: Final = 1024


@dataclass(frozen=True, slots=True)
class Record:
    """A peer's latest progress and when it came, by this computer's clock."""

    progress: Progress
    at: float

    @property
    def branch(self) -> tuple[int, bytes]:
        """Global step and weights' hash: peers with the same branch can average."""
        return self.progress.global_step, self.progress.weights_hash


@dataclass(slots=True)
class _Offence:
    count: int
    until: float


class Membership:
    """Connected peers. A peer that goes is forgotten, but for a distrust that still runs."""

    def __init__(self, stale_seconds: float, distrust_seconds: float, max_distrust_seconds: float) -> None:
        self._stale_seconds = stale_seconds
        self._distrust_seconds = distrust_seconds
        self._max_distrust_seconds = max_distrust_seconds
        self._connected: set[PeerId] = set()
        self._records: dict[PeerId, Record] = {}
        self._offences: dict[PeerId, _Offence] = {}

    def up(self, peer: PeerId) -> None:
        """A link is up."""
        self._connected.add(peer)

    def lost(self, peer: PeerId) -> None:
        """A link is down; a peer that comes back may count its sequence from 0."""
        self._connected.discard(peer)
        self._records.pop(peer, None)

    def progress(self, peer: PeerId, progress: Progress, now: float) -> bool:
        """Take what a connected peer says; False when it is old news or the peer is not connected."""
        known = self._records.get(peer)
        if peer not in self._connected or (known and progress.sequence <= known.progress.sequence):
            return False
        self._records[peer] = Record(progress, now)
        return True

    def connected_count(self) -> int:
        """Peers with a link, whatever they say."""
        return len(self._connected)

    def live(self, now: float) -> dict[PeerId, Record]:
        """Connected peers that spoke not too long ago, in order of their ids."""
        return {
            peer: self._records[peer]
            for peer in sorted(self._records)
            if now - self._records[peer].at <= self._stale_seconds
        }

    def distrust(self, peer: PeerId, now: float) -> None:
        """Its claim to be ahead proved hollow: do not take such a claim for a while, twice as long each time."""
        offence = self._offences.pop(peer, _Offence(0, now))
        span = min(self._distrust_seconds * 2.0 ** min(offence.count, 30), self._max_distrust_seconds)
        self._offences[peer] = _Offence(offence.count + 1, now + span)
        if len(self._offences) > MAX_REMEMBERED_OFFENDERS:
            del self._offences[next(iter(self._offences))]

    def trust_again(self, peer: PeerId) -> None:
        """It delivered what it claimed."""
        self._offences.pop(peer, None)

    def is_trusted(self, peer: PeerId, now: float) -> bool:
        """Whether its claim to be ahead is taken."""
        offence = self._offences.get(peer)
        return offence is None or now >= offence.until
