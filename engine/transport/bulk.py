"""The bulk lane of a link over its associations: the task that sends frames, and the books of the receiver.

Four bounds hold a sender back, each for its own reason: the receiver's grant (its memory and its user's download cap),
the delay controller (the household's calls), the user's upload cap, and each data channel's own buffer, which holds
no more than one frame, so that frames go to whichever association takes them.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from aiortc import RTCDataChannel

from engine.transport.base import Lane, LinkClosed, Lost
from engine.transport.config import SCTP_PAYLOAD_BYTES
from engine.transport.lanes import Demand
from engine.transport.ledbat import DelayController
from engine.transport.meter import LineRate, RateMeter
from engine.transport.pacing import DownloadLimit, Pacing
from engine.transport.striping import LaneState, Outgoing, Striper
from engine.wire.errors import WireError
from engine.wire.frames import HEADER, DataFrame, Grant, Report, Withdrawal
from engine.wire.limits import INITIAL_GRANT_BYTES, LANE_WINDOW_BYTES, MAX_BACKLOG_BYTES
from engine.wire.reassembly import BulkAssembler

log = logging.getLogger(__name__)

QUEUE_BYTES: Final = 4 * 1024 * 1024
"""Payload that waits to be cut into frames; one larger message may wait alone."""
FRAME_SECONDS: Final = 0.005
"""A frame is no longer on the line than about this."""
BURST_SECONDS: Final = 0.010
"""What may go out at once after the event loop was late."""
OLD_WINDOW_BYTES: Final = LANE_WINDOW_BYTES[Lane.BULK] * 15 // 16
"""Payload under way to a peer of one lane, whose window counts headers too."""
OLD_GRANT_STEP_BYTES: Final = 512 * 1024
UNDER_WAY_WINDOWS: Final = 1.5
"""What may be sent and not reported, in windows of the delay controller; more would only wait in this computer."""
IN_FLIGHT_BYTES: Final = 1024 * 1024
MIN_IN_FLIGHT_BYTES: Final = 192 * 1024
"""What may be under way over a link's lanes, each with an equal share but not less than the second. aiortc's cost of an
acknowledgement grows with it, and a busy computer that reads them late would be slowed down further."""
LANE_GRANT_STEP_BYTES: Final = 48 * 1024
STALL_SECONDS: Final = 0.25
STALL_ROUND_TRIPS: Final = 3.0
"""A lane without progress for the longer of both is taken to be stuck (SCTP's own timer is a second at least)."""
SHORTEST_SLEEP_SECONDS: Final = 0.001
PROBE_SECONDS: Final = (0.025, 0.1)
PROBE_BYTES: Final = 280  # a probe and its report with all headers
PROBE_SHARE: Final = 0.02
TURN_FRAMES: Final = 32
"""After so many frames without a wait, others in the event loop have their turn."""


class SentBulk:
    """Implements `SentMessage`."""

    def __init__(self, sender: "BulkSender", outgoing: Outgoing) -> None:
        self._sender = sender
        self._outgoing = outgoing

    @property
    def delivered(self) -> bool:
        """See `SentMessage`."""
        return self._outgoing.delivered

    def cancel(self) -> bool:
        """See `SentMessage`."""
        return self._sender.cancel(self._outgoing)


class BulkSender:
    """Takes whole messages, and sends their frames from a task of its own (`run`)."""

    def __init__(
        self,
        pacer: Pacing,
        controller: DelayController | None,
        max_frame_bytes: int,
        withdraw: Callable[[Withdrawal], None],
        monotonic: Callable[[], float],
        line: LineRate | None = None,
    ) -> None:
        self._pacer = pacer
        self._withdraw = withdraw
        self._controller = controller
        self._max_frame_bytes = max_frame_bytes
        self._monotonic = monotonic
        self._striper = Striper(INITIAL_GRANT_BYTES)
        self._channels: dict[int, RTCDataChannel] = {}
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()  # anything that a waiter here may wait for
        self._known = asyncio.Event()  # whether the peer knows of lanes
        self._knows_lanes = False
        self._old_granted = 0
        self._delivered_frame_bytes = 0
        self._next_at = 0.0
        self._closed = False
        self.busy = asyncio.Event()
        self._starved_seconds = 0.0
        self.bytes_sent = 0
        self.meter = RateMeter(line)

    # Messages.

    async def send(self, message: bytes) -> SentBulk:
        """Queue a message; waits while the queue is full, in order of arrival. Cancelling leaves nothing behind.

        Raises:
            LinkClosed: the link is down, or went down meanwhile.
        """
        async with self._turn:
            while not self._closed and self._is_full(len(message)):
                await self._change()
            if self._closed:
                raise LinkClosed("the link went down")
            outgoing = self._striper.add(message)
            self.busy.set()
            self._changed.set()
            return SentBulk(self, outgoing)

    def _is_full(self, more_bytes: int) -> bool:
        return self._striper.queued_messages > 0 and self._striper.queued_bytes + more_bytes > QUEUE_BYTES

    def cancel(self, outgoing: Outgoing) -> bool:
        """See `SentMessage`."""
        if self._closed or outgoing.delivered:
            return outgoing.cancelled
        withdrawal = self._striper.cancel(outgoing, begun_too=self._knows_lanes)
        if withdrawal is not None:
            self._withdraw(withdrawal)
        self._after_news()
        return outgoing.cancelled

    def lost(self) -> Lost | None:
        """What would be lost if the link went down now."""
        sizes = [len(outgoing.message) for outgoing in self._striper.undelivered()]
        return Lost(Lane.BULK, len(sizes), sum(sizes)) if sizes else None

    def close(self) -> None:
        """Wake and refuse whoever waits."""
        self._closed = True
        self.meter.idle()
        self._changed.set()

    # Lanes.

    def open_lane(self, number: int, channel: RTCDataChannel) -> None:
        """Frames may go over `channel` from now on."""
        channel.bufferedAmountLowThreshold = 0
        channel.on("bufferedamountlow", self._changed.set)
        self._channels[number] = channel
        self._striper.open_lane(number, self._monotonic())
        self._changed.set()

    def close_lane(self, number: int) -> None:
        """A lane is gone; what it owed goes over the others."""
        if self._channels.pop(number, None) is not None:
            self._striper.close_lane(number)
            self._changed.set()

    def knows_lanes(self) -> None:
        """The peer showed that it reports, and takes frames out of order."""
        self._knows_lanes = True
        self._known.set()

    def is_old(self) -> None:
        """The peer did not; it takes frames in order from the first lane, and grants."""
        if not self._knows_lanes:
            self._striper.granted(OLD_WINDOW_BYTES)
            self._known.set()

    @property
    def peer_is_known(self) -> bool:
        """Whether it is settled if the peer knows of lanes."""
        return self._known.is_set()

    @property
    def peer_knows_lanes(self) -> bool:
        """Whether it showed that it does."""
        return self._knows_lanes

    @property
    def queue_seconds(self) -> float | None:
        """Delay above the lowest, towards the peer."""
        return self._controller.queue_seconds if self._controller is not None else None

    @property
    def probe_seconds(self) -> float:
        """How long to the next probe while busy: probe and report take a small share of a slow line."""
        if self._controller is None:
            return PROBE_SECONDS[0]
        fair = PROBE_BYTES / (PROBE_SHARE * self._controller.bytes_per_second)
        return min(max(fair, PROBE_SECONDS[0]), PROBE_SECONDS[1])

    def demand(self, late_seconds: float) -> Demand:
        """For whoever opens lanes; starts the count of starved time anew."""
        starved, self._starved_seconds = self._starved_seconds, 0.0
        return Demand(self._striper.queued_bytes, starved, self.bytes_sent, late_seconds)

    # What the peer says.

    def on_report(self, report: Report, sent_at: float, now: float) -> None:
        """The answer to the probe that was sent at `sent_at`.

        Raises:
            WireError: it claims more than was sent.
        """
        news = sum(self._striper.received(lane, frames, now) for lane, frames in report.frames)
        self._striper.granted(report.granted_bytes)
        self._delivered_frame_bytes += news
        if self._controller is not None:
            one_way = report.clock_us / 1e6 - sent_at
            self._controller.on_sample(one_way, now - sent_at, self._delivered_frame_bytes, now)
        self._on_delivered(news, now)

    def on_grant(self, grant: Grant) -> None:
        """An old peer took bytes off the wire.

        Raises:
            WireError: more than was sent.
        """
        now = self._monotonic()
        self._old_granted += grant.frame_bytes
        news = self._striper.received_bytes(0, self._old_granted, now)
        self._striper.granted(self._striper.delivered_bytes + OLD_WINDOW_BYTES)
        self._on_delivered(news, now)

    def on_lane_grant(self, number: int, grant: Grant) -> None:
        """A peer took bytes off a lane, and says so over the same lane, behind SCTP's own acknowledgements.

        Raises:
            WireError: more than was sent.
        """
        if grant.lane != Lane.BULK:
            raise WireError("a grant for control in the bulk channel")
        self._striper.granted_back(number, grant.frame_bytes)
        self._changed.set()

    def _on_delivered(self, frame_bytes: int, now: float) -> None:
        if frame_bytes:
            self.meter.carried(frame_bytes, now)
        self._after_news()

    def _after_news(self) -> None:
        if not self._striper.busy:
            self.meter.idle()
            self.busy.clear()
        self._changed.set()

    def unstick(self, round_trip_seconds: float, now: float) -> None:
        """Call now and then while busy: frames of lanes that do not get on go over others."""
        if self._knows_lanes and self._striper.unstick(max(STALL_SECONDS, STALL_ROUND_TRIPS * round_trip_seconds), now):
            self._changed.set()

    # Sending.

    async def run(self) -> None:
        """Send until cancelled."""
        await self._known.wait()
        while True:
            for _ in range(TURN_FRAMES):
                if not await self._send_next():
                    break
            else:
                await asyncio.sleep(0)

    async def _send_next(self) -> bool:
        """Send one frame, or wait for anything that may let one go. Whether one was sent."""
        payload_bytes = self._payload_bytes()
        if not self._striper.has_piece(payload_bytes) or self._too_much_under_way():
            await self._change()
            return False
        if self._lane_with_room() is None:
            began_at = self._monotonic()
            await self._change()
            self._starved_seconds += self._monotonic() - began_at
            return False
        delay = self._next_at - self._monotonic()
        if delay > SHORTEST_SLEEP_SECONDS:
            await asyncio.sleep(delay)
        size = payload_bytes + HEADER.size
        await self._pacer.pass_through(size)
        sent = self._send_now(payload_bytes)
        self._pacer.charge(sent - size)
        return sent > 0

    def _send_now(self, payload_bytes: int) -> int:
        """Bytes of the frame that went out; none when meanwhile there is nothing to send or no lane."""
        number = self._lane_with_room()
        piece = self._striper.next_piece(payload_bytes) if number is not None else None
        if number is None or piece is None:
            return 0
        now, frame = self._monotonic(), piece.frame()
        self._striper.sent(number, piece, len(frame), now)
        self._channels[number].send(frame)
        self.bytes_sent += len(frame)
        self.meter.busy(now)
        if self._controller is not None:
            self._controller.on_sent(len(frame), now)
            self._next_at = max(self._next_at, now - BURST_SECONDS) + len(frame) / self._controller.bytes_per_second
        return len(frame)

    def _too_much_under_way(self) -> bool:
        """A slow computer at either end shows in what is under way before it shows in the line's delay."""
        if self._controller is None:
            return False
        return self._striper.working_bytes > UNDER_WAY_WINDOWS * self._controller.window_bytes

    def _payload_bytes(self) -> int:
        packets = self._max_frame_bytes // SCTP_PAYLOAD_BYTES
        if self._controller is not None:
            packets = min(packets, int(self._controller.bytes_per_second * FRAME_SECONDS) // SCTP_PAYLOAD_BYTES)
        return max(1, packets) * SCTP_PAYLOAD_BYTES - HEADER.size

    def _lane_with_room(self) -> int | None:
        """The lane that owes least among those that take a frame. The first one is left to control where it can be."""
        lanes = self._striper.lanes()
        share = max(MIN_IN_FLIGHT_BYTES, IN_FLIGHT_BYTES // max(1, len(lanes) - 1)) if self._knows_lanes else None
        best, least, working = None, 0, False
        for number, lane in lanes.items():
            if number == 0 or lane.stalled:
                continue
            working = True
            if (best is None or lane.owed_bytes < least) and self._has_room(number, lane, share):
                best, least = number, lane.owed_bytes
        if not working and 0 in lanes and self._has_room(0, lanes[0], share):
            return 0
        return best

    def _has_room(self, number: int, lane: LaneState, share: int | None) -> bool:
        channel = self._channels[number]
        if channel.bufferedAmount or channel.readyState != "open":
            return False
        return share is None or lane.in_flight_bytes < share

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class BulkReceiver:
    """Puts frames together and decides what to grant."""

    def __init__(
        self,
        max_message_bytes: int,
        downloads: DownloadLimit | None,
        monotonic: Callable[[], float],
        line: LineRate | None = None,
    ) -> None:
        self._assembler = BulkAssembler(max_message_bytes)
        self._downloads = downloads
        self._monotonic = monotonic
        self._granted = INITIAL_GRANT_BYTES
        self._backlog = 0  # whole messages not yet consumed
        self._old_owed = 0  # taken off the wire and not granted back, for a peer of one lane
        self._reports = False  # whether the peer asks for reports, and so needs no grants
        self._frames: dict[int, int] = {0: 0}
        self._lane_owed: dict[int, int] = {0: 0}  # taken off each lane, not yet granted back over it
        self.bytes_received = 0
        self.meter = RateMeter(line)

    def open_lane(self, number: int) -> None:
        """Frames may come over this lane."""
        self._frames[number] = self._lane_owed[number] = 0

    @property
    def held_bytes(self) -> int:
        """Of messages that are not whole yet."""
        return self._assembler.held_bytes

    def close(self) -> None:
        """The link ended."""
        self.meter.idle()

    def close_lane(self, number: int) -> None:
        """No more of them."""
        self._frames.pop(number, None)
        self._lane_owed.pop(number, None)

    def on_frame(self, lane: int, frame: DataFrame, frame_bytes: int) -> list[bytes]:
        """The whole messages that are due now, in order; `frame_bytes` is the size that it had on the wire.

        Raises:
            WireError: out of bounds, or contradicting another one.
        """
        if lane not in self._frames:
            return []  # it was closed meanwhile, so its sender sends the frame again over another one
        self._frames[lane] += 1
        self._lane_owed[lane] += frame_bytes
        self._old_owed += frame_bytes
        self.bytes_received += frame_bytes
        now = self._monotonic()
        self.meter.busy(now)
        self.meter.carried(frame_bytes, now)
        messages = self._assembler.feed(frame)
        self._check_window()
        return self._due(messages)

    def _check_window(self) -> None:
        window = LANE_WINDOW_BYTES[Lane.BULK]
        if not self._reports:
            if self._old_owed > window:
                raise WireError(f"{self._old_owed} bytes under way where {window} were granted")
        elif self._total_bytes() > max(self._granted, window):
            raise WireError(f"{self._total_bytes()} bytes were sent where {self._granted} were granted")

    def _total_bytes(self) -> int:
        return self._assembler.in_turn_bytes + self._assembler.early_bytes

    def on_withdrawal(self, withdrawal: Withdrawal) -> list[bytes]:
        """The whole messages that waited for the one that is withdrawn.

        Raises:
            WireError: out of bounds.
        """
        return self._due(self._assembler.withdraw(withdrawal))

    def _due(self, messages: list[bytes]) -> list[bytes]:
        self._backlog += sum(len(message) for message in messages)
        if messages and not self._assembler.held_bytes:
            self.meter.idle()
        return messages

    def consumed(self, message_bytes: int) -> None:
        """A message was taken by the consumer."""
        self._backlog -= message_bytes

    def lane_grant(self, number: int) -> Grant | None:
        """What to grant back over the lane itself now, if anything."""
        owed = self._lane_owed.get(number, 0)
        if not self._reports or owed < LANE_GRANT_STEP_BYTES:
            return None
        self._lane_owed[number] = 0
        return Grant(int(Lane.BULK), owed)

    def old_grant(self, *, at_message_end: bool) -> Grant | None:
        """What to grant a peer of one lane now, if anything; a peer that asks for reports needs none."""
        if self._reports or (self._downloads is not None and self._downloads.in_debt):
            return None
        due = self._old_owed >= OLD_GRANT_STEP_BYTES or (at_message_end and self._old_owed > 0)
        if not due or self._backlog > MAX_BACKLOG_BYTES[Lane.BULK]:
            return None
        owed, self._old_owed = self._old_owed, 0
        if self._downloads is not None:
            self._downloads.charge(owed)
        return Grant(int(Lane.BULK), owed)

    def report(self, number: int, probes: int) -> Report:
        """The answer to probe `number`."""
        now = self._monotonic()
        if not self._reports:
            self._reports = True
            self._granted = max(self._granted, self._total_bytes())
        if self._backlog <= MAX_BACKLOG_BYTES[Lane.BULK]:
            self._grant()
        frames = tuple(self._frames.items())
        return Report(number, int(now * 1e6), probes, self._granted, frames)

    def _grant(self) -> None:
        window = LANE_WINDOW_BYTES[Lane.BULK]
        if self._downloads is not None:
            window = self._downloads.window(window)
        more = self._assembler.in_turn_bytes + window - self._granted
        if more > 0:
            self._granted += more if self._downloads is None else self._downloads.take(self, more)
