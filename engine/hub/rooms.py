"""PURE rules of the rooms in which peers of a project meet: no socket, clock or dice. Spec: docs/specs/hub.md.

A connection is challenged, proves its peer id, and is then in the room of its project. The hub carries payloads between
the peers of one room without looking inside. All methods give back what the websocket side must do, in order.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from engine.hub.limits import HubLimits, TokenBucket, site_of
from engine.signaling.messages import (
    Absent,
    Auth,
    Challenge,
    Delivered,
    FromHub,
    IceServer,
    Joined,
    Present,
    Send,
    SignalingError,
    decode_to_hub,
    room_auth_bytes,
)

ConnectionId: TypeAlias = int
Verify: TypeAlias = Callable[[str, bytes, bytes], bool]
"""(peer id, data, signature) -> whether that peer signed exactly that."""


class Stage(Enum):
    """Where a connection stands. CHALLENGED -> JOINED on a good `Auth`; anything wrong ends it from either."""

    CHALLENGED = auto()
    JOINED = auto()


@dataclass(frozen=True, slots=True)
class Deliver:
    """Send this message."""

    connection: ConnectionId
    message: FromHub


@dataclass(frozen=True, slots=True)
class Hangup:
    """Send an error with this code and close. The rooms have forgotten the connection already."""

    connection: ConnectionId
    code: str
    detail: str


RoomAction: TypeAlias = Deliver | Hangup


@dataclass(slots=True)
class _Connection:
    project_id: str
    site: str
    nonce: bytes
    messages: TokenBucket
    volume: TokenBucket
    stage: Stage = Stage.CHALLENGED
    peer_id: str = ""


class Rooms:
    """All rooms of a hub. One peer has at most one connection in a room: a new one replaces the old."""

    def __init__(self, limits: HubLimits, servers: Callable[[str], tuple[IceServer, ...]], verify: Verify) -> None:
        self._limits = limits
        self._servers = servers  # for a peer
        self._verify = verify
        self._connections: dict[ConnectionId, _Connection] = {}
        self._rooms: dict[str, dict[str, ConnectionId]] = {}
        self._per_site: defaultdict[str, int] = defaultdict(int)

    def peers_in(self, project_id: str) -> int:
        """Peers in the room of a project now."""
        return len(self._rooms.get(project_id, ()))

    def open(
        self, connection: ConnectionId, project_id: str, address: str, nonce: bytes, now: float
    ) -> list[RoomAction]:
        """A new connection for the room of `project_id`; `nonce` is fresh and random.

        The caller calls `on_auth_deadline` when `HubLimits.room_auth_seconds` have passed.
        """
        limits, site = self._limits, site_of(address)
        if len(self._connections) >= limits.max_connections:
            return [Hangup(connection, "hub_full", "this hub has as many connections as it can serve")]
        if self._per_site[site] >= limits.max_connections_per_address:
            return [Hangup(connection, "too_many_connections", "too many connections from this address")]
        self._per_site[site] += 1
        self._connections[connection] = _Connection(
            project_id=project_id,
            site=site,
            nonce=nonce,
            messages=TokenBucket(limits.room_messages, now),
            volume=TokenBucket(limits.room_bytes, now),
        )
        return [Deliver(connection, Challenge(nonce=nonce))]

    def on_frame(self, connection: ConnectionId, frame: str | bytes, now: float) -> list[RoomAction]:
        """A frame from a connection. One that the rooms have hung up on is no longer heard."""
        state = self._connections.get(connection)
        if state is None:
            return []
        size_bytes = len(frame.encode("utf-8", "replace")) if isinstance(frame, str) else len(frame)
        if not state.messages.take(1.0, now) or not state.volume.take(size_bytes, now):
            return self._hang_up(connection, "rate_limited", "too many messages, or too large ones, in a short time")
        if isinstance(frame, bytes):
            return self._hang_up(connection, "bad_message", "a room speaks in text frames")
        try:
            message = decode_to_hub(frame)
        except SignalingError as error:
            return self._hang_up(connection, "bad_message", str(error))
        if isinstance(message, Auth):
            return self._authenticate(connection, state, message)
        return self._carry(connection, state, message)

    def on_closed(self, connection: ConnectionId) -> list[RoomAction]:
        """The connection is gone. Safe to repeat."""
        return self._forget(connection)

    def on_auth_deadline(self, connection: ConnectionId) -> list[RoomAction]:
        """Hang up unless the connection has proved who it is."""
        state = self._connections.get(connection)
        if state is None or state.stage is Stage.JOINED:
            return []
        return self._hang_up(connection, "auth_timeout", "no good answer to the challenge came in time")

    def _authenticate(self, connection: ConnectionId, state: _Connection, message: Auth) -> list[RoomAction]:
        if state.stage is not Stage.CHALLENGED:
            return self._hang_up(connection, "bad_message", "this connection has proved its peer id already")
        data = room_auth_bytes(bytes.fromhex(state.project_id), state.nonce)
        if not self._verify(message.peer_id, data, message.signature):
            return self._hang_up(connection, "bad_signature", "the signature is not that peer's over this challenge")
        room = self._rooms.get(state.project_id, {})
        if message.peer_id not in room:
            if not room and len(self._rooms) >= self._limits.max_rooms:
                return self._hang_up(connection, "hub_full", "this hub has as many rooms as it can serve")
            if len(room) >= self._limits.max_room_peers:
                return self._hang_up(connection, "room_full", "this room has as many peers as the hub introduces")
        return self._join(connection, state, message.peer_id)

    def _join(self, connection: ConnectionId, state: _Connection, peer_id: str) -> list[RoomAction]:
        room = self._rooms.setdefault(state.project_id, {})
        actions: list[RoomAction] = []
        replaced = room.pop(peer_id, None)
        if replaced is not None:
            self._drop(replaced)
            actions.append(Hangup(replaced, "replaced", "the same peer came again on another connection"))
        others = tuple(sorted(room))
        state.stage, state.peer_id = Stage.JOINED, peer_id
        actions.append(Deliver(connection, Joined(peers=others, ice_servers=self._servers(peer_id))))
        actions.extend(self._tell(room, Present(peer_id=peer_id)))
        room[peer_id] = connection
        return actions

    def _carry(self, connection: ConnectionId, state: _Connection, message: Send) -> list[RoomAction]:
        if state.stage is not Stage.JOINED:
            return self._hang_up(connection, "not_authenticated", "the challenge must be answered first")
        target = self._rooms[state.project_id].get(message.to)
        if target is None or target == connection:
            return []  # best effort: whoever just left is announced as absent
        return [Deliver(target, Delivered(from_peer=state.peer_id, payload=message.payload))]

    def _hang_up(self, connection: ConnectionId, code: str, detail: str) -> list[RoomAction]:
        return [Hangup(connection, code, detail), *self._forget(connection)]

    def _forget(self, connection: ConnectionId) -> list[RoomAction]:
        state = self._drop(connection)
        if state is None or state.stage is not Stage.JOINED:
            return []
        room = self._rooms[state.project_id]
        del room[state.peer_id]
        if not room:
            del self._rooms[state.project_id]
        return self._tell(room, Absent(peer_id=state.peer_id))

    def _drop(self, connection: ConnectionId) -> _Connection | None:
        """Take a connection off the books, but not out of its room."""
        state = self._connections.pop(connection, None)
        if state is not None:
            self._per_site[state.site] -= 1
            if not self._per_site[state.site]:
                del self._per_site[state.site]
        return state

    @staticmethod
    def _tell(room: dict[str, ConnectionId], message: FromHub) -> list[RoomAction]:
        return [Deliver(connection, message) for connection in _in_order(room)]


def _in_order(room: dict[str, ConnectionId]) -> Sequence[ConnectionId]:
    return [room[peer_id] for peer_id in sorted(room)]
