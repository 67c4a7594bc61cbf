"""The websockets of the rooms: a reader and a writer for each, around the PURE rules in `rooms`."""

import asyncio
import itertools
import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from aiohttp import WSCloseCode, WSMsgType, web

from engine.hub.config import HubConfig
from engine.hub.rooms import Deliver, Hangup, RoomAction, Rooms
from engine.identity.keys import public_key_of
from engine.identity.signing import verify
from engine.signaling.messages import MAX_ROOM_FRAME_BYTES, ROOM_NONCE_BYTES, FromHub, RoomRefusal, encode_room

log = logging.getLogger(__name__)

MAX_OUTBOX_MESSAGES: Final = 1024
SEND_SECONDS: Final = 15.0
CLOSE_SECONDS: Final = 2.0
MAX_CLOSE_REASON_BYTES: Final = 120
"""A websocket's close frame holds 125 bytes, two of them the code (RFC 6455, section 5.5)."""


@dataclass(slots=True)
class _Socket:
    websocket: web.WebSocketResponse
    transport: asyncio.BaseTransport | None
    outbox: asyncio.Queue[FromHub | None] = field(default_factory=lambda: asyncio.Queue(MAX_OUTBOX_MESSAGES))
    close_code: int = WSCloseCode.OK
    close_reason: str = ""
    ending: bool = False  # nothing more goes into the outbox


class RoomService:
    """Carries what `Rooms` decides. Owned by the application; used from the event loop only."""

    def __init__(self, config: HubConfig) -> None:
        self._limits = config.limits
        self._rooms = Rooms(config.limits, lambda peer_id: config.servers_for(peer_id, time.time()), _signed_by)
        self._sockets: dict[int, _Socket] = {}
        self._numbers = itertools.count(1)
        self._stopping = False

    def peers_in(self, project_id: str) -> int:
        """Peers in the room of a project now."""
        return self._rooms.peers_in(project_id)

    async def serve(self, request: web.Request, project_id: str, address: str) -> web.WebSocketResponse:
        """One websocket, from its opening to its end."""
        websocket = web.WebSocketResponse(
            heartbeat=self._limits.room_heartbeat_seconds,
            max_msg_size=MAX_ROOM_FRAME_BYTES,
            compress=False,
            timeout=CLOSE_SECONDS,
        )
        await websocket.prepare(request)
        number, socket = next(self._numbers), _Socket(websocket, request.transport)
        self._sockets[number] = socket
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._limits.room_auth_seconds, self._on_auth_deadline, number)
        writer = asyncio.create_task(self._write(socket), name=f"room-writer-{number}")
        try:
            nonce = secrets.token_bytes(ROOM_NONCE_BYTES)
            self._perform(self._rooms.open(number, project_id, address, nonce, loop.time()))
            if self._stopping:
                self._end(socket, WSCloseCode.GOING_AWAY, "the hub stops")
            await self._read(number, websocket)
        finally:
            timer.cancel()
            self._perform(self._rooms.on_closed(number))
            self._end(socket, WSCloseCode.OK, "")
            await _finish(writer)
            del self._sockets[number]
        return websocket

    async def refuse(self, request: web.Request, code: str, detail: str) -> web.WebSocketResponse:
        """Accept a websocket only to say why not."""
        websocket = web.WebSocketResponse(max_msg_size=MAX_ROOM_FRAME_BYTES, timeout=CLOSE_SECONDS)
        await websocket.prepare(request)
        await websocket.send_str(encode_room(RoomRefusal(code=code, detail=detail)))
        await websocket.close(code=WSCloseCode.POLICY_VIOLATION, message=code.encode())
        return websocket

    def stop(self) -> None:
        """Say goodbye to everyone; the handlers end by themselves."""
        self._stopping = True
        for socket in self._sockets.values():
            self._end(socket, WSCloseCode.GOING_AWAY, "the hub stops")

    async def _read(self, number: int, websocket: web.WebSocketResponse) -> None:
        loop = asyncio.get_running_loop()
        async for message in websocket:
            if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                self._perform(self._rooms.on_frame(number, message.data, loop.time()))
            else:  # ERROR: an oversized frame, or a heartbeat that was not answered
                log.debug("room connection %d ended: %s", number, message.data)

    async def _write(self, socket: _Socket) -> None:
        try:
            while (message := await socket.outbox.get()) is not None:
                async with asyncio.timeout(SEND_SECONDS):
                    await socket.websocket.send_str(encode_room(message))
            await socket.websocket.close(code=socket.close_code, message=_shortened(socket.close_reason))
        except (ConnectionError, TimeoutError) as error:
            log.debug("room connection lost while sending: %s", error)
            self._cut(socket)

    def _perform(self, actions: Sequence[RoomAction]) -> None:
        for action in actions:
            socket = self._sockets.get(action.connection)
            if socket is None or socket.ending:
                continue
            match action:
                case Deliver(message=message):
                    self._put(socket, message)
                case Hangup(code=code, detail=detail):
                    self._put(socket, RoomRefusal(code=code, detail=detail[:300]))
                    self._end(socket, WSCloseCode.POLICY_VIOLATION, code)

    def _put(self, socket: _Socket, message: FromHub) -> None:
        try:
            socket.outbox.put_nowait(message)
        except asyncio.QueueFull:
            self._cut(socket)

    def _end(self, socket: _Socket, code: int, reason: str) -> None:
        """Close after what is in the outbox. Safe to repeat: the first reason counts."""
        if socket.ending:
            return
        socket.ending, socket.close_code, socket.close_reason = True, code, reason
        try:
            socket.outbox.put_nowait(None)
        except asyncio.QueueFull:
            self._cut(socket)

    def _cut(self, socket: _Socket) -> None:
        """End a connection that takes nothing in; its reader notices and cleans up."""
        socket.ending = True
        if isinstance(socket.transport, asyncio.WriteTransport):
            socket.transport.abort()

    def _on_auth_deadline(self, number: int) -> None:
        self._perform(self._rooms.on_auth_deadline(number))


async def _finish(writer: asyncio.Task[None]) -> None:
    """The writer ends after its goodbye, or is ended."""
    try:
        await asyncio.wait({writer}, timeout=SEND_SECONDS + CLOSE_SECONDS)
    finally:
        writer.cancel()
    await asyncio.wait({writer})


def _shortened(reason: str) -> bytes:
    return reason.encode("utf-8")[:MAX_CLOSE_REASON_BYTES]


def _signed_by(peer_id: str, data: bytes, signature: bytes) -> bool:
    try:
        public_key = public_key_of(peer_id)
    except ValueError:
        return False
    return verify(public_key, data, signature)
