"""What the rest of the engine knows of a network of peers: whole messages, in two lanes, to peers by id.

Implementations: `webrtc` (aiortc), `memory` (tests, simulator). A message is delivered whole, unaltered and once, in
order within its lane, or the link goes down and says so: nothing is silently skipped.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final, Protocol, TypeAlias

PeerId: TypeAlias = str
"""Lower-case base32 of a peer's raw Ed25519 public key, without padding: 52 characters."""

MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024


class Lane(IntEnum):
    """Control never waits behind bulk."""

    CONTROL = 0
    BULK = 1


class PathKind(StrEnum):
    """How packets get to the peer."""

    MEMORY = "memory"
    LOOPBACK = "loopback"
    LAN = "lan"
    DIRECT = "direct"
    RELAYED = "relayed"


class LinkClosed(ConnectionError):
    """The peer is gone, or never was connected."""


@dataclass(frozen=True, slots=True)
class LinkUp:
    """A peer proved its id and can be sent to."""

    peer_id: PeerId
    path: PathKind


@dataclass(frozen=True, slots=True)
class LinkDown:
    """A peer is gone; messages not yet delivered to it are lost."""

    peer_id: PeerId
    reason: str


@dataclass(frozen=True, slots=True)
class Received:
    """One whole message from a peer."""

    peer_id: PeerId
    lane: Lane
    message: bytes


NetworkEvent: TypeAlias = LinkUp | LinkDown | Received


@dataclass(frozen=True, slots=True)
class LinkStats:
    """Counters of one link since it came up; `None` is "not measured yet"."""

    path: PathKind
    bytes_sent: int
    bytes_received: int
    round_trip_seconds: float | None
    upload_bytes_per_second: float | None
    download_bytes_per_second: float | None


class PeerNetwork(Protocol):
    """Links to the peers of one project. Owned and closed by one session."""

    async def start(self) -> None:
        """Begin to connect to whoever is in the room."""

    def events(self) -> AsyncIterator[NetworkEvent]:
        """Events in order; ends when the network is closed. One consumer."""

    async def send(self, peer_id: PeerId, lane: Lane, message: bytes) -> None:
        """Returns when the link accepted the message under its back-pressure.

        Raises:
            LinkClosed: there is no link, or it went down while waiting.
            ValueError: the message exceeds MAX_MESSAGE_BYTES.
        """

    def peers(self) -> tuple[PeerId, ...]:
        """Peers with a link that is up, sorted."""

    def stats(self, peer_id: PeerId) -> LinkStats | None:
        """Counters of a link, or None when there is none."""

    async def drop(self, peer_id: PeerId, reason: str) -> None:
        """Close one link (a misbehaving or stale peer)."""

    def set_upload_limit(self, bytes_per_second: int | None) -> None:
        """The user's cap over all links together; takes effect on the next chunk."""

    async def close(self) -> None:
        """Close every link and end `events()`. Safe to repeat."""
