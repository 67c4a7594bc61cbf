"""What the rest of the engine knows of a network of peers: whole messages, in two lanes, to peers by id.

Implementations: `webrtc` (aiortc), `memory` (tests, simulator). A message is delivered whole, unaltered and once, in
order within its lane, or the link goes down and says so: nothing is silently skipped.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final, Protocol, TypeAlias

from engine.contract.reach import Mapping, Relay

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


class LinkEnd(StrEnum):
    """Why a link went down, for those who count or translate it."""

    LEFT = "left"  # this computer closes its network
    DROPPED = "dropped"  # this computer does not want the link
    CLOSED = "closed"  # the other computer closed it
    SILENCE = "silence"  # no sign of life
    MOVED = "moved"  # this computer's address changed
    REROUTED = "rerouted"  # the user wants another kind of way
    FAILED = "failed"  # the connection broke or never came about
    PROTOCOL = "protocol"  # the peer broke the protocol
    SLOW = "slow"  # the peer began a message and did not go on
    MEMORY = "memory"  # the peer made this computer hold too much


@dataclass(frozen=True, slots=True)
class Lost:
    """Messages that were taken for a peer and that it may not have got, when the link went down."""

    lane: "Lane"
    count: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class LinkUp:
    """A peer proved its id and can be sent to."""

    peer_id: PeerId
    path: PathKind


@dataclass(frozen=True, slots=True)
class LinkDown:
    """A peer is gone. `lost` names the bulk messages that it may not have whole, and control messages not yet sent."""

    peer_id: PeerId
    reason: str
    code: LinkEnd = field(default=LinkEnd.FAILED, compare=False)
    lost: tuple[Lost, ...] = field(default=(), compare=False)


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
    lanes: int = 1
    loss: float | None = None  # share of packets to the peer that get lost
    queue_seconds: float | None = None  # delay above the lowest, towards the peer


@dataclass(frozen=True, slots=True)
class LineFigures:
    """What this computer's line does for all links together, from real traffic; `None` is "not measured yet"."""

    upload_bytes_per_second: float | None = None
    download_bytes_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Reachability:
    """How others can reach this computer."""

    mapping: Mapping = Mapping.UNKNOWN
    relay: Relay = Relay.UNKNOWN


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes on the wire since the network was made, headers included; what counts against a data cap."""

    sent_bytes: int = 0
    received_bytes: int = 0
    local_sent_bytes: int = 0  # on loopback and in the local network, not part of the above
    local_received_bytes: int = 0


class SentMessage(Protocol):
    """A message that a link took."""

    @property
    def delivered(self) -> bool:
        """Whether the peer is known to have it whole. Control messages are never known to be."""

    def cancel(self) -> bool:
        """Take it back: it stops going out, and the peer drops what it has. False when it is too late for that."""


class PeerNetwork(Protocol):
    """Links to the peers of one project. Owned and closed by one session."""

    async def start(self) -> None:
        """Begin to connect to whoever is in the room."""

    def events(self) -> AsyncIterator[NetworkEvent]:
        """Events in order; ends when the network is closed. One consumer."""

    async def send(self, peer_id: PeerId, lane: Lane, message: bytes) -> SentMessage:
        """Returns when the link accepted the message under its back-pressure. Cancelling before leaves nothing behind.

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

    def set_limits(self, upload_bytes_per_second: int | None, download_bytes_per_second: int | None) -> None:
        """The user's caps over all links together, except those in the local network; they hold from the next chunk."""

    def set_relay_only(self, wanted: bool) -> None:
        """Whether peers may see only a relay's address; links that do not fit are made anew."""

    @property
    def lacks_relay(self) -> bool:
        """Only relays may be used, and none is known: nothing can be connected."""

    def reachability(self) -> Reachability:
        """What the router of this computer's home lets through, as far as is known."""

    def line(self) -> LineFigures:
        """Of the line to the internet; of the local network while there are only links within it."""

    def traffic(self) -> Traffic:
        """What the network carried so far, over links that ended too. A link counts from its coming up."""

    async def close(self) -> None:
        """Close every link and end `events()`. Safe to repeat."""
