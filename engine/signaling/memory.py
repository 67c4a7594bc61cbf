"""A rendezvous in memory, for tests: rooms that can lose contact, reorder nothing, and be tampered with."""

from collections.abc import AsyncIterator, Callable

from engine.signaling.messages import MAX_ROOM_PAYLOAD_BYTES
from engine.signaling.room import Envelope, PeerAbsent, PeerPresent, RoomEvent, RoomJoined, RoomLost, RoomUnavailable
from engine.signaling.stream import EventStream


class MemoryRendezvous:
    """One room of one project. `room(peer_id)` enters it."""

    def __init__(self) -> None:
        self._rooms: dict[str, MemoryRoom] = {}
        self.tamper: Callable[[str, str, bytes], bytes | None] = lambda from_peer, to_peer, payload: payload
        """Sees every payload in transit; what it returns is delivered, None drops it."""
        self.carried: list[tuple[str, str, bytes]] = []
        """What was delivered: (from, to, payload)."""

    def room(self, peer_id: str) -> "MemoryRoom":
        """Enter; a second visit of the same peer replaces the first."""
        if (earlier := self._rooms.get(peer_id)) is not None:
            earlier._post(RoomLost("replaced by another visit"))
        room = MemoryRoom(self, peer_id)
        self._rooms[peer_id] = room
        self._announce(room)
        return room

    def cut(self, peer_id: str) -> None:
        """The peer loses the room, the others see it leave. `restore` brings it back."""
        room = self._rooms.pop(peer_id)
        room._post(RoomLost("cut"))
        self._tell_others(peer_id, PeerAbsent(peer_id))

    def restore(self, room: "MemoryRoom") -> None:
        """A room that was cut is entered again."""
        self._rooms[room.peer_id] = room
        self._announce(room)

    def _announce(self, room: "MemoryRoom") -> None:
        room._post(RoomJoined(tuple(sorted(set(self._rooms) - {room.peer_id}))))
        self._tell_others(room.peer_id, PeerPresent(room.peer_id))

    def _greet_again(self, room: "MemoryRoom") -> None:
        if self._rooms.get(room.peer_id) is room:
            self._announce(room)

    def _tell_others(self, peer_id: str, event: RoomEvent) -> None:
        for other_id, other in self._rooms.items():
            if other_id != peer_id:
                other._post(event)

    def _carry(self, room: "MemoryRoom", to_peer: str, payload: bytes) -> None:
        if self._rooms.get(room.peer_id) is not room:
            raise RoomUnavailable("not in the room")
        if len(payload) > MAX_ROOM_PAYLOAD_BYTES:
            raise RoomUnavailable(f"a payload of {len(payload)} bytes is too large")
        changed = self.tamper(room.peer_id, to_peer, payload)
        target = self._rooms.get(to_peer)
        if changed is not None and target is not None:
            self.carried.append((room.peer_id, to_peer, changed))
            target._post(Envelope(room.peer_id, changed))

    def _leave(self, room: "MemoryRoom") -> None:
        if self._rooms.get(room.peer_id) is room:
            del self._rooms[room.peer_id]
            self._tell_others(room.peer_id, PeerAbsent(room.peer_id))


class MemoryRoom:
    """Implements `SignalingRoom`."""

    def __init__(self, rendezvous: MemoryRendezvous, peer_id: str) -> None:
        self.peer_id = peer_id
        self._rendezvous = rendezvous
        self._events: EventStream[RoomEvent] = EventStream()
        self._closed = False

    async def start(self) -> None:
        """It is entered already."""

    def _post(self, event: RoomEvent) -> None:
        if not self._closed:
            self._events.put(event)

    def events(self) -> AsyncIterator[RoomEvent]:
        """See `SignalingRoom`."""
        return self._events

    async def send(self, to_peer: str, payload: bytes) -> None:
        """See `SignalingRoom`."""
        if self._closed:
            raise RoomUnavailable("the room is closed")
        self._rendezvous._carry(self, to_peer, payload)

    def refresh(self) -> None:
        """See `SignalingRoom`."""
        self._rendezvous._greet_again(self)

    async def close(self) -> None:
        """See `SignalingRoom`."""
        if not self._closed:
            self._closed = True
            self._rendezvous._leave(self)
            self._events.close()
