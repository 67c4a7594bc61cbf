"""One try to connect to one peer and, when it succeeds, the link: an RTCPeerConnection with two data channels."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Any, Final, Protocol

from aiortc import RTCDataChannel, RTCPeerConnection, RTCSessionDescription

from engine.signaling.messages import IceServer
from engine.signaling.sdp import Transport, reachable, render
from engine.transport.base import Lane, LinkClosed, LinkStats, PathKind, PeerId
from engine.transport.channel import LaneReceiver, LaneSender
from engine.transport.config import WebRtcConfig
from engine.transport.ice import configuration, gathering, path_of
from engine.transport.pacing import Pacer
from engine.wire.errors import WireError
from engine.wire.frames import DataFrame, Grant, KeepAlive, encode_grant, encode_keep_alive, parse_frame
from engine.wire.messages import MAX_CONTROL_BYTES

log = logging.getLogger(__name__)

CHANNEL_LABELS: Final = ("control", "bulk")
DRAIN_SECONDS: Final = 0.5
"""A link that is closed on purpose first hands over its queued control messages, for at most this long."""
MAX_PONG_BUFFER_BYTES: Final = 256 * 1024
MAX_EARLY_FRAMES: Final = 16
_PINGS_REMEMBERED: Final = 8
_ROUND_TRIP_WEIGHT: Final = 0.125  # RFC 6298, alpha


class LinkOwner(Protocol):
    """What a link tells its network; called from the event loop, never re-entered."""

    def link_has_sdp(self, link: "Link", sdp: str) -> None: ...

    def link_is_up(self, link: "Link") -> None: ...

    def link_received(self, link: "Link", lane: Lane, message: bytes) -> None: ...

    def link_ended(self, link: "Link", reason: str) -> None: ...


class Link:
    """Owned by the task that runs `run()`; it ends when `end()` is called, by whoever finds a reason first."""

    def __init__(self, peer_id: PeerId, attempt: int, owner: LinkOwner, pacer: Pacer, config: WebRtcConfig) -> None:
        self.peer_id = peer_id
        self.attempt = attempt
        self.path = PathKind.DIRECT
        self._owner = owner
        self._pacer = pacer
        self._config = config
        loop = asyncio.get_running_loop()
        self._monotonic: Callable[[], float] = loop.time
        self._ended: asyncio.Future[str] = loop.create_future()
        self._answer: asyncio.Future[Transport] = loop.create_future()
        self._up = asyncio.Event()
        self._early: list[tuple[Lane, bytes | str]] = []
        self._connection: RTCPeerConnection | None = None
        self._channels: list[RTCDataChannel] = []
        self._senders: list[LaneSender] = []
        limits = (MAX_CONTROL_BYTES, config.max_bulk_bytes)
        self._receivers = [LaneReceiver(lane, limits[lane], self._monotonic) for lane in Lane]
        self._heard_at = self._monotonic()
        self._pings: dict[int, float] = {}
        self._next_ping = secrets.randbits(31)
        self._round_trip: float | None = None

    async def run(self, servers: tuple[IceServer, ...], offer: Transport | None) -> None:
        """Connect (by offering, or by answering `offer`), carry, and clean up. Returns when the link has ended."""
        body = asyncio.create_task(self._live(servers, offer), name=f"link-{self.peer_id[:8]}")
        either: list[asyncio.Future[Any]] = [body, self._ended]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended_first = self._ended.done()
            body.cancel()
            await asyncio.wait([body])
            self.end("it failed on this computer")
            await self._dispose()
        error = None if body.cancelled() else body.exception()
        if error is not None and not ended_first:
            raise error

    def use_answer(self, answer: Transport) -> None:
        """The peer's description came."""
        if not self._answer.done():
            self._answer.set_result(answer)

    def end(self, reason: str) -> None:
        """The link is over; the first reason counts."""
        if self._ended.done():
            return
        self._ended.set_result(reason)
        for sender in self._senders:
            sender.close()
        self._owner.link_ended(self, reason)

    async def send(self, lane: Lane, message: bytes) -> None:
        """Queue one message under back-pressure.

        Raises:
            LinkClosed: the link ended, before or meanwhile.
        """
        if self._ended.done() or not self._senders:
            raise LinkClosed(f"the link to {self.peer_id} is down")
        await self._senders[lane].send(message)

    async def drain_control(self) -> None:
        """Wait until queued control messages are out, but not for long."""
        if self._senders and not self._ended.done():
            try:
                async with asyncio.timeout(DRAIN_SECONDS):
                    await self._senders[Lane.CONTROL].drained()
            except TimeoutError:
                log.debug("control messages to %s were not drained in time", self.peer_id)

    def stats(self) -> LinkStats:
        """Counters so far."""
        return LinkStats(
            path=self.path,
            bytes_sent=sum(sender.bytes_sent for sender in self._senders),
            bytes_received=sum(receiver.bytes_received for receiver in self._receivers),
            round_trip_seconds=self._round_trip,
            upload_bytes_per_second=self._senders[Lane.BULK].meter.bytes_per_second if self._senders else None,
            download_bytes_per_second=self._receivers[Lane.BULK].meter.bytes_per_second,
        )

    async def _live(self, servers: tuple[IceServer, ...], offer: Transport | None) -> None:
        connection = self._connection = RTCPeerConnection(configuration(servers))
        connection.on("connectionstatechange", self._on_state)
        connection.on("datachannel", self._on_strange_channel)
        for lane in Lane:
            self._add_channel(connection, lane)
        if offer is None:
            await self._offer(connection)
        else:
            await self._answer_offer(connection, offer)
        await self._up.wait()
        async with asyncio.TaskGroup() as tasks:
            for sender in self._senders:
                tasks.create_task(sender.run())
            tasks.create_task(self._keep_alive())

    def _add_channel(self, connection: RTCPeerConnection, lane: Lane) -> None:
        channel = connection.createDataChannel(CHANNEL_LABELS[lane], negotiated=True, id=int(lane))
        self._channels.append(channel)
        channel.on("open", self._on_open)
        channel.on("close", lambda: self.end("the other computer closed the connection"))
        channel.on("message", lambda data: self._on_message(lane, data))

    async def _offer(self, connection: RTCPeerConnection) -> None:
        with gathering(loopback_only=self._config.loopback_only):
            await connection.setLocalDescription(await connection.createOffer())
        self._owner.link_has_sdp(self, connection.localDescription.sdp)
        answer = await self._answer
        await connection.setRemoteDescription(RTCSessionDescription(self._render(answer), "answer"))

    async def _answer_offer(self, connection: RTCPeerConnection, offer: Transport) -> None:
        await connection.setRemoteDescription(RTCSessionDescription(self._render(offer), "offer"))
        with gathering(loopback_only=self._config.loopback_only):
            await connection.setLocalDescription(await connection.createAnswer())
        self._owner.link_has_sdp(self, connection.localDescription.sdp)

    def _render(self, transport: Transport) -> str:
        return render(transport, reachable(transport.candidates, loopback_only=self._config.loopback_only))

    def _on_open(self) -> None:
        connection = self._connection
        if connection is None or self._ended.done() or any(c.readyState != "open" for c in self._channels):
            return
        self.path = path_of(connection)
        self._senders = [
            LaneSender(lane, self._channels[lane], self._pacer, self._config.frame_bytes, self._monotonic)
            for lane in Lane
        ]
        self._heard_at = self._monotonic()
        self._up.set()
        self._owner.link_is_up(self)
        early, self._early = self._early, []
        for lane, data in early:
            self._on_message(lane, data)

    def _on_state(self) -> None:
        if self._connection is not None and self._connection.connectionState in ("failed", "closed"):
            self.end("the connection failed")

    def _on_strange_channel(self, channel: RTCDataChannel) -> None:
        self._refuse(WireError("a data channel that nobody agreed on"))

    def _refuse(self, error: WireError) -> None:
        log.info("link to %s closed: %s", self.peer_id, error)
        self.end(f"it broke the protocol: {error}")

    def _on_message(self, lane: Lane, data: bytes | str) -> None:
        if self._ended.done():
            return
        self._heard_at = self._monotonic()
        try:
            if not self._up.is_set():
                self._keep_early(lane, data)
                return
            if isinstance(data, str):
                raise WireError(f"text in the {CHANNEL_LABELS[lane]} channel")
            self._on_frame(lane, data)
        except WireError as error:
            self._refuse(error)

    def _keep_early(self, lane: Lane, data: bytes | str) -> None:
        """The other end may be open, and its first packets here, a moment before this end is."""
        if len(self._early) >= MAX_EARLY_FRAMES:
            raise WireError(f"more than {MAX_EARLY_FRAMES} frames before the channels were open")
        self._early.append((lane, data))

    def _on_frame(self, lane: Lane, data: bytes) -> None:
        frame = parse_frame(data)
        if isinstance(frame, DataFrame):
            message = self._receivers[lane].on_frame(frame, len(data))
            if message is not None:
                self._owner.link_received(self, lane, message)
            self._grant(lane, at_message_end=message is not None)
        elif lane is not Lane.CONTROL:
            raise WireError(f"a {type(frame).__name__} in the bulk channel")
        elif isinstance(frame, Grant):
            self._senders[frame.lane].granted(frame.frame_bytes)
        else:
            self._on_keep_alive(frame)

    def consumed(self, lane: Lane, message_bytes: int) -> None:
        """The session took a message that came over this link."""
        self._receivers[lane].consumed(message_bytes)
        self._grant(lane, at_message_end=True)

    def _grant(self, lane: Lane, *, at_message_end: bool) -> None:
        grant = self._receivers[lane].grant(at_message_end=at_message_end)
        if grant is not None:
            self._send_own(encode_grant(grant))

    def _on_keep_alive(self, frame: KeepAlive) -> None:
        if not frame.is_pong:
            # Pings in plenty must not fill the buffer with pongs.
            if self._channels[Lane.CONTROL].bufferedAmount < MAX_PONG_BUFFER_BYTES:
                self._send_own(encode_keep_alive(KeepAlive(frame.number, True)))
            return
        sent_at = self._pings.pop(frame.number, None)
        if sent_at is not None:
            sample = self._monotonic() - sent_at
            before = self._round_trip
            self._round_trip = sample if before is None else before + _ROUND_TRIP_WEIGHT * (sample - before)

    def _send_own(self, frame: bytes) -> None:
        """A grant, ping or pong: tiny, outside window and pacing."""
        channel = self._channels[Lane.CONTROL]
        if channel.readyState == "open" and not self._ended.done():
            channel.send(frame)

    async def _keep_alive(self) -> None:
        interval, silence = self._config.keep_alive_seconds, self._config.silence_seconds
        while True:
            now = self._monotonic()
            self._pings[self._next_ping] = now
            while len(self._pings) > _PINGS_REMEMBERED:
                del self._pings[next(iter(self._pings))]
            self._send_own(encode_keep_alive(KeepAlive(self._next_ping, False)))
            self._next_ping = (self._next_ping + 1) % 2**32
            await asyncio.sleep(interval)
            woke_at = self._monotonic()
            if woke_at - now > interval + silence / 2:
                # This computer slept or was stopped; what came meanwhile is still to be read.
                self._heard_at = woke_at
            elif woke_at - self._heard_at > silence:
                self.end(f"no sign of life for {silence:.0f} seconds")

    async def _dispose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            async with asyncio.timeout(self._config.close_timeout_seconds):
                await connection.close()
        except TimeoutError:
            log.info("the connection to %s did not close in time", self.peer_id)
