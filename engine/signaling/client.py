"""A project's room at a hub, over a websocket that is made again whenever it is lost. Spec: docs/specs/signaling.md."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Final

import aiohttp

from engine.identity.keys import Identity
from engine.signaling.messages import (
    MAX_ROOM_FRAME_BYTES,
    Absent,
    Auth,
    Challenge,
    Delivered,
    FromHub,
    Joined,
    Present,
    RoomRefusal,
    Send,
    SignalingError,
    decode_from_hub,
    encode_room,
    room_auth_bytes,
)
from engine.signaling.room import (
    Envelope,
    PeerAbsent,
    PeerPresent,
    RoomEvent,
    RoomJoined,
    RoomLost,
    RoomUnavailable,
)
from engine.signaling.stream import EventStream

log = logging.getLogger(__name__)

STEP_TIMEOUT_SECONDS: Final = 10.0
"""For connecting, each step of the greeting, and handing over a message."""
CLOSE_TIMEOUT_SECONDS: Final = 2.0
HEARTBEAT_SECONDS: Final = 20.0
FIRST_RETRY_SECONDS: Final = 1.0
LONGEST_RETRY_SECONDS: Final = 60.0
STABLE_SECONDS: Final = 30.0
MAX_QUEUED_EVENTS: Final = 1024
RENEW_SECONDS: Final = 6 * 3600.0
"""A longer visit is begun anew: the relay's credentials that came with it would run out."""


class HubRoom:
    """Implements `SignalingRoom`. The caller owns `session` and closes this room before it."""

    def __init__(
        self,
        hub_url: str,
        manifest_hash_hex: str,
        identity: Identity,
        session: aiohttp.ClientSession,
        *,
        dice: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._url = f"{hub_url.rstrip('/')}/api/v1/rooms/{manifest_hash_hex}"
        self._run = bytes.fromhex(manifest_hash_hex)
        self._identity = identity
        self._session = session
        self._dice = dice or random.Random()  # noqa: S311 (spreads retries, guards nothing)
        self._sleep = sleep
        self._events: EventStream[RoomEvent] = EventStream(MAX_QUEUED_EVENTS)
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._again = asyncio.Event()

    async def start(self) -> None:
        """Begin to connect; what becomes of it is told by `events()`. Returns at once."""
        if self._task is None and not self._closed:
            self._task = asyncio.create_task(self._keep_connected(), name="hub-room")

    def events(self) -> AsyncIterator[RoomEvent]:
        """See `SignalingRoom`."""
        return self._events

    async def send(self, to_peer: str, payload: bytes) -> None:
        """See `SignalingRoom`."""
        socket = self._socket
        if socket is None:
            raise RoomUnavailable("not connected to the hub")
        try:
            async with asyncio.timeout(STEP_TIMEOUT_SECONDS):
                await socket.send_str(encode_room(Send(to=to_peer, payload=payload)))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise RoomUnavailable(_phrase(error)) from error

    def refresh(self) -> None:
        """See `SignalingRoom`."""
        self._again.set()

    async def close(self) -> None:
        """See `SignalingRoom`."""
        self._closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._events.close()

    async def _keep_connected(self) -> None:
        failures = 0
        while True:
            started_at = time.monotonic()
            renewal = asyncio.get_running_loop().call_later(RENEW_SECONDS, self._again.set)
            reason = await self._unless_refreshed(self._visit())
            renewal.cancel()
            log.info("room lost: %s", reason or "it is entered anew")
            if time.monotonic() - started_at >= STABLE_SECONDS:
                failures = 0
            await self._events.put_bounded(RoomLost(reason or "it is entered anew"))
            if not reason:
                failures = 0
                continue
            longest = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(failures, 10))
            failures += 1
            if not await self._unless_refreshed(self._rest(longest * self._dice.uniform(0.5, 1.0))):
                failures = 0

    async def _unless_refreshed(self, work: Coroutine[None, None, str]) -> str:
        """What `work` says, or "" when `refresh` was called before it ended; it is cancelled then."""
        task = asyncio.ensure_future(work)
        again = asyncio.ensure_future(self._again.wait())
        try:
            await asyncio.wait({task, again}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            again.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        self._again.clear()
        return "" if task.cancelled() else task.result()

    async def _rest(self, seconds: float) -> str:
        await self._sleep(seconds)
        return "rested"

    async def _visit(self) -> str:
        """One websocket from beginning to end; why it ended."""
        try:
            return await self._stay()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return _phrase(error)
        except SignalingError as error:
            return str(error)

    async def _stay(self) -> str:
        """One websocket from beginning to end; why it ended.

        Raises:
            aiohttp.ClientError, OSError, TimeoutError: the hub cannot be reached, or went away.
            SignalingError: it sent nonsense, or refused.
        """
        async with asyncio.timeout(STEP_TIMEOUT_SECONDS):
            socket = await self._session.ws_connect(
                self._url,
                heartbeat=HEARTBEAT_SECONDS,
                max_msg_size=MAX_ROOM_FRAME_BYTES + 1,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_TIMEOUT_SECONDS),
            )
        try:
            async with asyncio.timeout(2 * STEP_TIMEOUT_SECONDS):
                joined = await self._greet(socket)
            self._socket = socket
            await self._events.put_bounded(RoomJoined(joined.peers, joined.ice_servers))
            while (message := await _receive(socket)) is not None:
                await self._events.put_bounded(_event_of(message))
            return "the hub closed the connection"
        finally:
            self._socket = None
            # A hub that does not answer the close must not hold up the next try.
            async with asyncio.timeout(STEP_TIMEOUT_SECONDS):
                await socket.close()

    async def _greet(self, socket: aiohttp.ClientWebSocketResponse) -> Joined:
        challenge = await _receive(socket)
        if not isinstance(challenge, Challenge):
            raise SignalingError(f"the hub began with {_name_of(challenge)} instead of a challenge")
        signature = self._identity.sign(room_auth_bytes(self._run, challenge.nonce))
        await socket.send_str(encode_room(Auth(peer_id=self._identity.peer_id, signature=signature)))
        joined = await _receive(socket)
        if isinstance(joined, RoomRefusal):
            raise SignalingError(f"the hub refused ({joined.code!r}): {joined.detail!r}")
        if not isinstance(joined, Joined):
            raise SignalingError(f"the hub answered with {_name_of(joined)} instead of the room")
        return joined


async def _receive(socket: aiohttp.ClientWebSocketResponse) -> FromHub | None:
    """The next message, None when the hub closed."""
    frame = await socket.receive()
    if frame.type is aiohttp.WSMsgType.TEXT:
        return decode_from_hub(frame.data)
    if frame.type is aiohttp.WSMsgType.ERROR:
        raise SignalingError(f"the hub broke the websocket protocol: {str(socket.exception())[:100]}")
    if frame.type is aiohttp.WSMsgType.BINARY:
        raise SignalingError("the hub sent a binary frame")
    return None


def _event_of(message: FromHub) -> RoomEvent:
    if isinstance(message, Present):
        return PeerPresent(message.peer_id)
    if isinstance(message, Absent):
        return PeerAbsent(message.peer_id)
    if isinstance(message, Delivered):
        return Envelope(message.from_peer, message.payload)
    if isinstance(message, RoomRefusal):
        raise SignalingError(f"the hub ended the visit ({message.code!r}): {message.detail!r}")
    raise SignalingError(f"the hub sent {_name_of(message)} out of turn")


def _name_of(message: FromHub | None) -> str:
    return "a close" if message is None else f'"{type(message).__name__}"'


def _phrase(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "the hub does not answer"
    return f"{type(error).__name__}: {str(error)[:200]}"
