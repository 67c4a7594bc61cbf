"""A rendezvous that holds without its hub: peers introduce one another over the links they have.

Spec: docs/specs/signaling.md. `MeshPresence` is PURE and decides what the network is told; `MeshRoom` is its skin.
"""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from engine.signaling.messages import IceServer
from engine.signaling.neighbours import Carry, Neighbours
from engine.signaling.room import (
    Envelope,
    PeerAbsent,
    PeerPresent,
    RoomEvent,
    RoomJoined,
    RoomLost,
    RoomUnavailable,
    SignalingRoom,
)
from engine.signaling.stream import EventStream

log = logging.getLogger(__name__)

MAX_QUEUED_EVENTS = 4096


class StartedRoom(SignalingRoom, Protocol):
    """A room that begins to connect when it is told to."""

    async def start(self) -> None: ...


class MeshPresence:
    """Joins what the hub's room says with what neighbours say. PURE."""

    def __init__(self) -> None:
        self._hub: set[str] | None = None  # who is in the hub's room; None: this computer is not
        self._reach: frozenset[str] = frozenset()  # through links
        self._servers: tuple[IceServer, ...] = ()
        self._told: set[str] | None = None  # what the network believes; None: that the room is lost
        self._lost_because = "the hub is out of reach"

    def in_hub(self, peer_id: str) -> bool:
        """Whether the hub can carry to `peer_id` now, as far as is known."""
        return self._hub is not None and peer_id in self._hub

    def on_hub(self, event: RoomEvent) -> list[RoomEvent]:
        """What the network is told when the hub's room says `event`."""
        match event:
            case RoomJoined(peers=peers, ice_servers=servers):
                self._hub, self._servers = set(peers), servers
                self._told = None  # news of the servers, and of who came anew, must get through
                return self._changes()
            case PeerPresent(peer_id=peer_id) if self._hub is not None:
                self._hub.add(peer_id)
                return self._changes() or [event]
            case PeerAbsent(peer_id=peer_id) if self._hub is not None:
                self._hub.discard(peer_id)
                return self._changes()
            case RoomLost(reason=reason):
                self._hub, self._lost_because = None, reason
                return self._changes()
            case Envelope():
                return [event]
            case _:
                return []

    def on_reach(self, peers: frozenset[str]) -> list[RoomEvent]:
        """The same when another set of peers can be reached over links."""
        self._reach = peers
        return self._changes()

    def _changes(self) -> list[RoomEvent]:
        target = (self._hub or set()) | self._reach
        before, connected = self._told, self._hub is not None or bool(self._reach)
        self._told = target if connected else None
        if not connected:
            return [RoomLost(self._lost_because)] if before is not None else []
        if before is None:
            return [RoomJoined(tuple(sorted(target)), self._servers)]
        gone = [PeerAbsent(peer) for peer in sorted(before - target)]
        return [*gone, *(PeerPresent(peer) for peer in sorted(target - before))]


class MeshRoom:
    """Implements `SignalingRoom` over `hub`, which it owns. `carry` is set by whoever owns the links."""

    def __init__(self, hub: StartedRoom, me: str, monotonic: Callable[[], float]) -> None:
        self._room = hub
        self._monotonic = monotonic
        self._presence = MeshPresence()
        self._events: EventStream[RoomEvent] = EventStream(MAX_QUEUED_EVENTS)
        self._pump: asyncio.Task[None] | None = None
        self._me = me
        self.neighbours = Neighbours(me)
        self.carry: Carry | None = None

    async def start(self) -> None:
        """Begin to connect to the hub. Returns at once."""
        if self._pump is None:
            self._pump = asyncio.create_task(self._follow_hub(), name="mesh-room")
            await self._room.start()

    def events(self) -> AsyncIterator[RoomEvent]:
        """See `SignalingRoom`."""
        return self._events

    async def send(self, to_peer: str, payload: bytes) -> None:
        """See `SignalingRoom`. By the hub where it can, else over a peer that both have a link with."""
        if self._presence.in_hub(to_peer):
            try:
                await self._room.send(to_peer, payload)
            except RoomUnavailable as error:
                log.info("the hub cannot carry: %s", error)
            else:
                return
        carriers = self.neighbours.carriers(to_peer)
        if not carriers or self.carry is None:
            raise RoomUnavailable("neither the hub nor a linked peer can pass it on")
        self.carry(min(carriers, key=lambda peer: _lot(peer, to_peer, self._me)), to_peer, payload)

    def refresh(self) -> None:
        """See `SignalingRoom`."""
        self._room.refresh()

    async def close(self) -> None:
        """See `SignalingRoom`."""
        await self._room.close()
        pump, self._pump = self._pump, None
        if pump is not None:
            await asyncio.wait({pump})
        self._events.close()

    # What the owner of the links tells.

    def on_link(self, peer_id: str) -> None:
        """A peer can be talked to."""
        self.neighbours.on_link(peer_id, self._monotonic())
        self._look()

    def on_link_lost(self, peer_id: str) -> None:
        """It cannot any more."""
        self.neighbours.on_link_lost(peer_id)
        self._look()

    def on_told(self, peer_id: str, theirs: tuple[str, ...]) -> None:
        """A linked peer says whom else it has links with."""
        self.neighbours.on_told(peer_id, theirs)
        self._look()

    def on_payload(self, from_peer: str, payload: bytes) -> None:
        """A linked peer passes on what it says is from `from_peer`; only the signature proves that."""
        self._events.put(Envelope(from_peer, payload))

    def _look(self) -> None:
        for event in self._presence.on_reach(self.neighbours.within_reach()):
            self._events.put(event)

    async def _follow_hub(self) -> None:
        async for event in self._room.events():
            for told in self._presence.on_hub(event):
                await self._events.put_bounded(told)


def _lot(carrier: str, to_peer: str, me: str) -> bytes:
    """Spreads the carrying over those who can."""
    return hashlib.sha256(f"{carrier} {to_peer} {me}".encode("ascii")).digest()
