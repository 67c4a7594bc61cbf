"""What a network needs from a rendezvous."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from engine.signaling.messages import IceServer


class RoomUnavailable(ConnectionError):
    """The room cannot carry this now."""


@dataclass(frozen=True, slots=True)
class RoomJoined:
    """This peer is in the room; `peers` are the others, all earlier news of presence is void."""

    peers: tuple[str, ...]
    ice_servers: tuple[IceServer, ...] = ()


@dataclass(frozen=True, slots=True)
class PeerPresent:
    """A peer came, or came anew."""

    peer_id: str


@dataclass(frozen=True, slots=True)
class PeerAbsent:
    """A peer left the room; a link to it may well go on."""

    peer_id: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload that the room says is from `from_peer`; only its signature proves that."""

    from_peer: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class RoomLost:
    """The room cannot be reached; the implementation keeps trying. `reason` is a phrase for people."""

    reason: str


RoomEvent: TypeAlias = RoomJoined | PeerPresent | PeerAbsent | Envelope | RoomLost


class SignalingRoom(Protocol):
    """A place where the peers of one project meet. One consumer of its events."""

    def events(self) -> AsyncIterator[RoomEvent]:
        """What happens, in order; ends when the room is closed."""

    async def send(self, to_peer: str, payload: bytes) -> None:
        """Hand a payload to the room; it arrives or it does not.

        Raises:
            RoomUnavailable: the room cannot be reached now.
        """

    def refresh(self) -> None:
        """This computer's address changed: connect anew at once. `RoomJoined` follows as soon as that succeeds."""

    async def close(self) -> None:
        """Leave; ends `events()`. Safe to repeat."""
