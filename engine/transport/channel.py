"""One lane of a link: frames out under back-pressure, frames in under bounds. Spec: docs/specs/wire.md.

Three bounds hold a sender back, each for its own reason: the receiver's window (its memory), the pacer (the user's
cap) and the data channel's own buffer (so that control never finds more than a little bulk before it).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from aiortc import RTCDataChannel

from engine.transport.base import Lane, LinkClosed
from engine.transport.meter import RateMeter
from engine.transport.pacing import Pacer
from engine.wire.errors import WireError
from engine.wire.frames import DataFrame, FrameAssembler, FrameSplitter, Grant
from engine.wire.limits import LANE_WINDOW_BYTES, MAX_BACKLOG_BYTES

QUEUE_BYTES: Final = (256 * 1024, 4 * 1024 * 1024)
"""Messages that wait to be cut into frames, by lane; one larger message may wait alone."""
CHANNEL_BUFFER_BYTES: Final = (256 * 1024, 32 * 1024)
"""What the data channel may hold unsent, by lane, before the next frame waits."""
GRANT_STEP_BYTES: Final = (256 * 1024, 512 * 1024)
"""A receiver grants this much at a time, and in the bulk lane at each message's end."""


class LaneSender:
    """Takes whole messages, and sends them one after the other from a task of its own (`run`)."""

    def __init__(
        self, lane: Lane, channel: RTCDataChannel, pacer: Pacer, frame_bytes: int, monotonic: Callable[[], float]
    ) -> None:
        self._lane = lane
        self._channel = channel
        self._pacer = pacer
        self._monotonic = monotonic
        self._splitter = FrameSplitter(frame_bytes)
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._under_way = 0
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()  # anything that a waiter here may wait for
        self._closed = False
        self.bytes_sent = 0
        self.meter = RateMeter()
        channel.bufferedAmountLowThreshold = CHANNEL_BUFFER_BYTES[lane] // 2
        channel.on("bufferedamountlow", self._changed.set)

    async def send(self, message: bytes) -> None:
        """Queue a message; waits while the queue is full, in order of arrival. Cancelling leaves nothing behind.

        Raises:
            LinkClosed: the link is down, or went down meanwhile.
        """
        async with self._turn:
            while not self._closed and self._queue and self._queued_bytes + len(message) > QUEUE_BYTES[self._lane]:
                await self._change()
            if self._closed:
                raise LinkClosed("the link went down")
            self._queue.append(message)
            self._queued_bytes += len(message)
            self._changed.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            while not self._queue:
                await self._change()
            for frame in self._splitter.split(self._queue[0]):
                await self._send_frame(frame)
            self._queued_bytes -= len(self._queue.popleft())
            self._changed.set()

    async def drained(self) -> None:
        """Wait until everything queued is with the operating system. For a lane that is about to close."""
        self._channel.bufferedAmountLowThreshold = 0
        while not self._closed and (self._queue or self._channel.bufferedAmount):
            await self._change()

    def granted(self, frame_bytes: int) -> None:
        """The receiver took bytes off the wire.

        Raises:
            WireError: more than was sent.
        """
        if frame_bytes > self._under_way:
            raise WireError(f"a grant of {frame_bytes} bytes where {self._under_way} are under way")
        self._under_way -= frame_bytes
        self.meter.carried(frame_bytes, self._monotonic())
        if not self._under_way and not self._queue:
            self.meter.idle()
        self._changed.set()

    def close(self) -> None:
        """Wake and refuse whoever waits."""
        self._closed = True
        self._queue.clear()
        self._changed.set()

    async def _send_frame(self, frame: bytes) -> None:
        while (
            self._under_way + len(frame) > LANE_WINDOW_BYTES[self._lane]
            or self._channel.bufferedAmount > CHANNEL_BUFFER_BYTES[self._lane]
        ):
            await self._change()
        if self._lane is Lane.BULK:
            await self._pacer.pass_through(len(frame))
        else:
            self._pacer.charge(len(frame))
        if self._channel.readyState != "open":
            # Its "close" event is about to end the link; until then nothing may be sent.
            await asyncio.get_running_loop().create_future()
        self._under_way += len(frame)
        self.bytes_sent += len(frame)
        self.meter.busy(self._monotonic())
        self._channel.send(frame)

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class LaneReceiver:
    """Puts frames together and decides what to grant."""

    def __init__(self, lane: Lane, max_message_bytes: int, monotonic: Callable[[], float]) -> None:
        self._lane = lane
        self._assembler = FrameAssembler(max_message_bytes)
        self._monotonic = monotonic
        self._window = LANE_WINDOW_BYTES[lane]
        self._owed = 0  # taken off the wire, not yet granted back
        self._backlog = 0  # whole messages not yet consumed
        self.bytes_received = 0
        self.meter = RateMeter()

    def on_frame(self, frame: DataFrame, frame_bytes: int) -> bytes | None:
        """The whole message when `frame` ends it; `frame_bytes` is the size that it had on the wire.

        Raises:
            WireError: out of bounds or out of order.
        """
        self._owed += frame_bytes
        if self._owed > self._window:
            raise WireError(f"{self._owed} bytes under way where {self._window} were granted")
        self.bytes_received += frame_bytes
        now = self._monotonic()
        self.meter.busy(now)
        self.meter.carried(frame_bytes, now)
        message = self._assembler.feed(frame)
        if message is not None:
            self._backlog += len(message)
            self.meter.idle()
        return message

    def consumed(self, message_bytes: int) -> None:
        """A message was taken by the consumer."""
        self._backlog -= message_bytes

    def grant(self, *, at_message_end: bool) -> Grant | None:
        """What to grant now, if anything."""
        if self._backlog > MAX_BACKLOG_BYTES[self._lane]:
            return None
        due = self._owed >= GRANT_STEP_BYTES[self._lane] or (at_message_end and self._lane is Lane.BULK)
        if not due or not self._owed:
            return None
        owed, self._owed = self._owed, 0
        return Grant(int(self._lane), owed)
