"""One try to connect to one peer and, when it succeeds, the link: a first association, and lanes for bulk."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Any, Final, Protocol

from engine.signaling.messages import IceServer
from engine.signaling.sdp import Transport
from engine.transport.association import BULK, CHANNEL_LABELS, CONTROL, LINE, Association
from engine.transport.base import Lane, LinkClosed, LinkEnd, LinkStats, Lost, PathKind, PeerId, SentMessage
from engine.transport.bulk import BulkReceiver, BulkSender
from engine.transport.channel import ControlReceiver, ControlSender
from engine.transport.config import WebRtcConfig
from engine.transport.drip import DripWatch
from engine.transport.lanes import Lanes
from engine.transport.ledbat import DelayController
from engine.transport.line import Line
from engine.transport.meter import LineRate
from engine.transport.pacing import DownloadLimit, Pacer, Unpaced
from engine.wire.errors import WireError
from engine.wire.frames import (
    DataFrame,
    Frame,
    Grant,
    KeepAlive,
    LaneSignal,
    Probe,
    Report,
    Withdrawal,
    encode_grant,
    encode_keep_alive,
    encode_probe,
    encode_report,
    encode_signal,
    encode_withdrawal,
    parse_frame,
)
from engine.wire.limits import MAX_UNDELIVERED_BYTES, MAX_UNDELIVERED_CHUNKS
from engine.wire.messages import MAX_CONTROL_BYTES

log = logging.getLogger(__name__)

DRAIN_SECONDS: Final = 0.5
"""A link that is closed on purpose first hands over its queued control messages, for at most this long."""
MAX_PONG_BUFFER_BYTES: Final = 256 * 1024
MAX_REPORT_BUFFER_BYTES: Final = 16 * 1024
MAX_EARLY_FRAMES: Final = 16
MAX_CONTROL_FRAME_BYTES: Final = 16 * 1024
FIRST_PROBE_SECONDS: Final = 0.1
"""Between probes until it is known whether the peer probes as well."""
LATE_WEIGHT: Final = 0.1
_PINGS_REMEMBERED: Final = 8
WATCH_SECONDS: Final = 0.25
"""How often it is looked at what a peer makes its associations hold, and whether another lane would help."""


class LinkOwner(Protocol):
    """What a link tells its network; called from the event loop, never re-entered."""

    def link_has_sdp(self, link: "Link", sdp: str) -> None: ...

    internet_line: tuple[LineRate, LineRate]  # up, down
    local_line: tuple[LineRate, LineRate]

    def link_is_up(self, link: "Link") -> None: ...

    def link_received(self, link: "Link", lane: Lane, message: bytes) -> None: ...

    def link_ended(self, link: "Link", reason: str, code: LinkEnd, lost: tuple[Lost, ...]) -> None: ...


class SentControl:
    """Implements `SentMessage`: a control message is on its way at once."""

    delivered = False

    def cancel(self) -> bool:
        """See `SentMessage`."""
        return False


class Link:
    """Owned by the task that runs `run()`; it ends when `end()` is called, by whoever finds a reason first."""

    def __init__(
        self,
        peer_id: PeerId,
        attempt: int,
        owner: LinkOwner,
        pacer: Pacer,
        downloads: DownloadLimit,
        config: WebRtcConfig,
    ) -> None:
        self.peer_id = peer_id
        self.attempt = attempt
        self.path = PathKind.DIRECT
        self._owner = owner
        self._pacer = pacer
        self._downloads = downloads
        self._config = config
        loop = asyncio.get_running_loop()
        self._monotonic: Callable[[], float] = loop.time
        self._ended: asyncio.Future[str] = loop.create_future()
        self._answer: asyncio.Future[Transport] = loop.create_future()
        self._early: list[tuple[Association, int, bytes | str]] = []
        self._first: Association | None = None
        self._lanes: Lanes | None = None
        self._gone_wire_bytes = (0, 0)  # of associations that were disposed of
        self._control_in = ControlReceiver(MAX_CONTROL_BYTES)
        self._control_drip, self._bulk_drip = DripWatch(), DripWatch()
        self._control_out: ControlSender | None = None
        self._bulk_in: BulkReceiver | None = None
        self._bulk_out: BulkSender | None = None
        self._up = asyncio.Event()
        self._heard_at = self._monotonic()
        self._line = Line(secrets.randbits(31))
        self._pings: dict[int, float] = {}
        self._next_ping = secrets.randbits(31)
        self._late_seconds = 0.0
        self._servers: tuple[IceServer, ...] = ()
        self._offered = False

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
            self.end("it failed on this computer", LinkEnd.FAILED)
            await self._dispose()
        error = None if body.cancelled() else body.exception()
        if error is not None and not ended_first:
            raise error

    def use_answer(self, answer: Transport) -> None:
        """The peer's description came."""
        if not self._answer.done():
            self._answer.set_result(answer)

    def end(self, reason: str, code: LinkEnd) -> None:
        """The link is over; the first reason counts."""
        if self._ended.done():
            return
        self._ended.set_result(reason)
        lost: list[Lost] = []
        for sender in (self._control_out, self._bulk_out):
            if sender is not None:
                if (missing := sender.lost()) is not None:
                    lost.append(missing)
                sender.close()
        if self._bulk_in is not None:
            self._bulk_in.close()
        self._owner.link_ended(self, reason, code, tuple(lost))

    async def send(self, lane: Lane, message: bytes) -> SentMessage:
        """Queue one message under back-pressure.

        Raises:
            LinkClosed: the link ended, before or meanwhile.
        """
        if self._ended.done() or self._control_out is None or self._bulk_out is None:
            raise LinkClosed(f"the link to {self.peer_id} is down")
        if lane is Lane.BULK:
            return await self._bulk_out.send(message)
        await self._control_out.send(message)
        return SentControl()

    async def drain_control(self) -> None:
        """Wait until queued control messages are out, but not for long."""
        if self._control_out is not None and not self._ended.done():
            try:
                async with asyncio.timeout(DRAIN_SECONDS):
                    await self._control_out.drained()
            except TimeoutError:
                log.debug("control messages to %s were not drained in time", self.peer_id)

    def stats(self) -> LinkStats:
        """Counters so far."""
        sender, receiver = self._bulk_out, self._bulk_in
        return LinkStats(
            path=self.path,
            bytes_sent=sum(half.bytes_sent for half in (self._control_out, sender) if half is not None),
            bytes_received=self._control_in.bytes_received + (receiver.bytes_received if receiver else 0),
            round_trip_seconds=self._line.round_trip_seconds,
            upload_bytes_per_second=sender.meter.bytes_per_second if sender else None,
            download_bytes_per_second=receiver.meter.bytes_per_second if receiver else None,
            lanes=1 + (self._lanes.open_count if self._lanes else 0),
            loss=self._line.loss,
            queue_seconds=sender.queue_seconds if sender else None,
        )

    def wire_bytes(self) -> tuple[int, int]:
        """Bytes sent and received over all its associations, headers included."""
        sent, received = self._gone_wire_bytes
        for association in self._associations():
            one = association.wire_bytes()
            sent, received = sent + one[0], received + one[1]
        return sent, received

    @property
    def is_up(self) -> bool:
        """Whether it came about; its path is known only then."""
        return self._up.is_set()

    @property
    def base_address(self) -> str:
        """The address of this computer that the first association sends from; empty over a relay."""
        return self._first.base_address if self._first is not None else ""

    @property
    def is_local(self) -> bool:
        """Whether the user's caps are not about it."""
        return self.path in (PathKind.LOOPBACK, PathKind.LAN) and not self._config.cap_local_links

    def _associations(self) -> list[Association]:
        first = [self._first] if self._first is not None else []
        return first + (self._lanes.associations() if self._lanes else [])

    async def _live(self, servers: tuple[IceServer, ...], offer: Transport | None) -> None:
        first = self._first = Association(0, (CONTROL, BULK, LINE), self, self._config, servers)
        self._servers, self._offered = servers, offer is None
        if offer is None:
            self._owner.link_has_sdp(self, await first.offer())
            await first.use_answer(await self._answer)
        else:
            self._owner.link_has_sdp(self, await first.answer(offer))
        await self._up.wait()
        async with asyncio.TaskGroup() as tasks:
            for sender in (self._control_out, self._bulk_out):
                if sender is not None:
                    tasks.create_task(sender.run())
            tasks.create_task(self._keep_alive())
            tasks.create_task(self._probe())
            tasks.create_task(self._watch())

    def _rise(self, first: Association) -> None:
        """The first association is open: from here on there is a link."""
        config, monotonic = self._config, self._monotonic
        self.path = first.path
        pacer, downloads = (Unpaced(), None) if self.is_local else (self._pacer, self._downloads)
        target = None if self.path is PathKind.LOOPBACK else config.delay_target_seconds
        controller = None if target is None else DelayController(monotonic(), target)
        self._control_out = ControlSender(
            first.channels[CONTROL], pacer, min(config.frame_bytes, MAX_CONTROL_FRAME_BYTES)
        )
        is_near = self.path in (PathKind.LOOPBACK, PathKind.LAN)
        up, down = self._owner.local_line if is_near else self._owner.internet_line
        self._bulk_out = BulkSender(pacer, controller, config.frame_bytes, self._withdraw, monotonic, up)
        self._bulk_out.open_lane(0, first.channels[BULK])
        self._bulk_in = BulkReceiver(config.max_bulk_bytes, downloads, monotonic, down)
        bounds = {PathKind.RELAYED: config.max_relayed_lanes, PathKind.LOOPBACK: config.max_loopback_lanes}
        most = min(config.max_lanes, bounds.get(self.path, config.max_lanes))
        self._lanes = Lanes(self, config, self._servers, most, odd=self._offered, monotonic=monotonic)
        self._heard_at = monotonic()
        self._up.set()
        self._owner.link_is_up(self)
        early, self._early = self._early, []
        for association, channel, data in early:
            self.association_received(association, channel, data)

    # What associations and lanes tell (`LanesOwner`).

    def association_is_open(self, association: Association) -> None:
        """See `AssociationOwner`."""
        if self._ended.done():
            return
        if association is self._first:
            self._rise(association)
        elif self._lanes is not None:
            self._lanes.on_open(association)

    def association_ended(self, association: Association, reason: str, *, by_peer: bool) -> None:
        """See `AssociationOwner`."""
        if association is self._first:
            self.end(reason, LinkEnd.CLOSED if by_peer else LinkEnd.FAILED)
        elif self._lanes is not None:
            self._lanes.on_ended(association)

    def association_met_strange_channel(self, association: Association) -> None:
        """See `AssociationOwner`."""
        self._refuse(WireError("a data channel that nobody agreed on"))

    def association_received(self, association: Association, channel: int, data: bytes | str) -> None:
        """See `AssociationOwner`."""
        if self._ended.done():
            return
        if association is self._first:
            self._heard_at = self._monotonic()
        try:
            if not self._up.is_set():
                self._keep_early(association, channel, data)
                return
            if isinstance(data, str):
                raise WireError(f"text in the {CHANNEL_LABELS[channel]} channel")
            self._on_frame(association, channel, parse_frame(data), len(data))
        except WireError as error:
            self._refuse(error)

    def lane_is_made(self, association: Association) -> None:
        """See `LanesOwner`."""
        if self._bulk_in is not None:
            self._bulk_in.open_lane(association.number)

    def lane_is_open(self, association: Association) -> None:
        """See `LanesOwner`."""
        if self._bulk_out is not None:
            self._bulk_out.open_lane(association.number, association.channels[BULK])

    def lane_is_closed(self, association: Association) -> None:
        """See `LanesOwner`: nothing more goes over it."""
        if self._bulk_out is not None and self._bulk_in is not None:
            self._bulk_out.close_lane(association.number)
            self._bulk_in.close_lane(association.number)

    def lane_is_gone(self, association: Association) -> None:
        """See `LanesOwner`: it is disposed of, and only what it carried still counts."""
        sent, received = association.wire_bytes()
        self._gone_wire_bytes = (self._gone_wire_bytes[0] + sent, self._gone_wire_bytes[1] + received)

    def send_signal(self, signal: LaneSignal) -> None:
        """See `LanesOwner`."""
        self._send_own(encode_signal(signal))

    # Frames.

    def _refuse(self, error: WireError) -> None:
        log.info("link to %s closed: %s", self.peer_id, error)
        self.end(f"it broke the protocol: {error}", LinkEnd.PROTOCOL)

    def _keep_early(self, association: Association, channel: int, data: bytes | str) -> None:
        """The other end may be open, and its first packets here, a moment before this end is."""
        if len(self._early) >= MAX_EARLY_FRAMES:
            raise WireError(f"more than {MAX_EARLY_FRAMES} frames before the channels were open")
        self._early.append((association, channel, data))

    def _on_frame(self, association: Association, channel: int, frame: Frame, frame_bytes: int) -> None:
        if channel == LINE:
            self._on_line(frame)
        elif channel == BULK:
            self._on_bulk(association, frame, frame_bytes)
        elif isinstance(frame, DataFrame):
            message = self._control_in.on_frame(frame, frame_bytes)
            if not self.is_local:
                self._downloads.charge(frame_bytes)
            if message is not None:
                self._owner.link_received(self, Lane.CONTROL, message)
            self._grant_control()
        else:
            self._on_own(frame)

    def _on_bulk(self, association: Association, frame: Frame, frame_bytes: int) -> None:
        sender, receiver, number = self._bulk_out, self._bulk_in, association.number
        if sender is None or receiver is None:
            raise AssertionError("a frame before the link was up")
        if isinstance(frame, Grant):
            sender.on_lane_grant(number, frame)
        elif isinstance(frame, DataFrame):
            messages = receiver.on_frame(number, frame, frame_bytes)
            self._deliver_bulk(messages)
            self._grant_bulk(at_message_end=bool(messages))
            channel, grant = association.channels[BULK], receiver.lane_grant(number)
            if grant is not None and channel.readyState == "open" and not self._ended.done():
                channel.send(encode_grant(grant))
        else:
            raise WireError(f"a {type(frame).__name__} in the bulk channel")

    def _deliver_bulk(self, messages: list[bytes]) -> None:
        for message in messages:
            self._owner.link_received(self, Lane.BULK, message)

    def _on_own(self, frame: Frame) -> None:
        """The link's own frames in the control channel."""
        sender, receiver, lanes = self._bulk_out, self._bulk_in, self._lanes
        if sender is None or receiver is None or lanes is None or self._control_out is None:
            raise AssertionError("a frame before the link was up")
        if isinstance(frame, KeepAlive):
            self._on_keep_alive(frame)
        elif isinstance(frame, Grant):
            if frame.lane == Lane.BULK:
                sender.on_grant(frame)
            else:
                self._control_out.granted(frame.frame_bytes)
        elif isinstance(frame, LaneSignal):
            lanes.on_signal(frame)
        elif isinstance(frame, Withdrawal):
            self._deliver_bulk(receiver.on_withdrawal(frame))
        else:
            raise WireError(f"a {type(frame).__name__} in the control channel")

    def _on_line(self, frame: Frame) -> None:
        sender, receiver, first = self._bulk_out, self._bulk_in, self._first
        if sender is None or receiver is None or first is None:
            raise AssertionError("a frame before the link was up")
        if isinstance(frame, Probe):
            self._line.received += 1
            sender.knows_lanes()
            # Probes in plenty must not fill the buffer with reports.
            if first.channels[LINE].bufferedAmount < MAX_REPORT_BUFFER_BYTES:
                report = receiver.report(frame.number, self._line.received)
                first.channels[LINE].send(encode_report(report))
        elif isinstance(frame, Report):
            now = self._monotonic()
            sent_at = self._line.on_report(frame.number, frame.probes, now)
            if sent_at is not None:
                sender.on_report(frame, sent_at, now)
        else:
            raise WireError(f"a {type(frame).__name__} in the line channel")

    def consumed(self, lane: Lane, message_bytes: int) -> None:
        """The session took a message that came over this link."""
        if lane is Lane.CONTROL:
            self._control_in.consumed(message_bytes)
            self._grant_control()
        elif self._bulk_in is not None:
            self._bulk_in.consumed(message_bytes)
            self._grant_bulk(at_message_end=True)

    def _grant_control(self) -> None:
        grant = self._control_in.grant()
        if grant is not None:
            self._send_own(encode_grant(grant))

    def _grant_bulk(self, *, at_message_end: bool) -> None:
        grant = self._bulk_in.old_grant(at_message_end=at_message_end) if self._bulk_in is not None else None
        if grant is not None:
            self._send_own(encode_grant(grant))

    def _withdraw(self, withdrawal: Withdrawal) -> None:
        self._send_own(encode_withdrawal(withdrawal))

    def _on_keep_alive(self, frame: KeepAlive) -> None:
        # Pings in plenty must not fill the buffer with pongs.
        if not frame.is_pong and self._control_buffered() < MAX_PONG_BUFFER_BYTES:
            self._send_own(encode_keep_alive(KeepAlive(frame.number, True)))
        elif frame.is_pong and frame.number in self._pings:
            self._line.on_round_trip(self._monotonic() - self._pings.pop(frame.number))

    def _control_buffered(self) -> int:
        return self._first.channels[CONTROL].bufferedAmount if self._first is not None else 0

    def _send_own(self, frame: bytes) -> None:
        """A frame of the link itself: small, outside window and pacing."""
        channel = self._first.channels[CONTROL] if self._first is not None else None
        if channel is not None and channel.readyState == "open" and not self._ended.done():
            channel.send(frame)

    # Tasks.

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
                self.end(f"no sign of life for {silence:.0f} seconds", LinkEnd.SILENCE)
            self._grant_bulk(at_message_end=True)

    async def _probe(self) -> None:
        """Probe often while there is bulk under way, and now and then without; stop where nobody answers."""
        sender, first = self._bulk_out, self._first
        if sender is None or first is None:
            raise AssertionError("a probe before the link was up")
        channel, began_at = first.channels[LINE], self._monotonic()
        while True:
            now = self._monotonic()
            is_old = sender.peer_is_known and not sender.peer_knows_lanes
            if not is_old and channel.readyState == "open" and not channel.bufferedAmount:
                channel.send(encode_probe(Probe(self._line.probe(now))))
            if is_old:
                await asyncio.sleep(self._config.keep_alive_seconds)
            elif sender.busy.is_set():
                sender.unstick(self._line.round_trip_seconds or 0.0, now)
                seconds = sender.probe_seconds
                await asyncio.sleep(seconds)
                self._late_seconds += LATE_WEIGHT * (self._monotonic() - now - seconds - self._late_seconds)
            elif sender.peer_is_known:
                await _wait_at_most(sender.busy, self._config.keep_alive_seconds)
            else:
                await asyncio.sleep(FIRST_PROBE_SECONDS)
            if not sender.peer_is_known and self._monotonic() - began_at > self._config.old_peer_seconds:
                sender.is_old()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            for association in self._associations():
                held = association.undelivered()
                if held.payload_bytes > MAX_UNDELIVERED_BYTES or held.chunks > MAX_UNDELIVERED_CHUNKS:
                    log.info("link to %s closed: it holds %s", self.peer_id, held)
                    self.end("it made this computer hold too much that is not whole", LinkEnd.MEMORY)
                    return
            if self._drips():
                return
            if self._bulk_out is not None and self._lanes is not None:
                now, busy = self._monotonic(), self._bulk_out.busy.is_set()
                if busy and self._bulk_out.peer_knows_lanes:
                    self._lanes.consider(self._bulk_out.demand(self._late_seconds), now)
                self._lanes.rest(now, busy=busy)

    def _drips(self) -> bool:
        """Whether the link was ended since the peer keeps a message open and does not go on with it."""
        lanes = ((self._control_drip, self._control_in), (self._bulk_drip, self._bulk_in))
        for drip, receiver in lanes:
            if receiver is not None and drip.look(receiver.held_bytes, receiver.bytes_received, self._monotonic()):
                self.end("it began a message and did not go on", LinkEnd.SLOW)
                return True
        return False

    async def _dispose(self) -> None:
        if self._lanes is not None:
            await self._lanes.close()
        if self._first is not None:
            await self._first.dispose()


async def _wait_at_most(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
