"""The control lane of a link: frames out under back-pressure, frames in under bounds. Spec: docs/specs/wire.md.

Two bounds hold a sender back: the receiver's window (its memory) and the data channel's own buffer. The user's cap does
not: control is charged to it and goes at once. The bulk lane is in `bulk`.
"""

import asyncio
from collections import deque
from typing import Final

from aiortc import RTCDataChannel

from engine.transport.base import Lane, LinkClosed, Lost
from engine.transport.pacing import Pacing
from engine.wire.errors import WireError
from engine.wire.frames import DataFrame, FrameAssembler, FrameSplitter, Grant
from engine.wire.limits import LANE_WINDOW_BYTES, MAX_BACKLOG_BYTES

QUEUE_BYTES: Final = 256 * 1024
"""Messages that wait to be cut into frames."""
CHANNEL_BUFFER_BYTES: Final = 256 * 1024
"""What the data channel may hold unsent before the next frame waits."""
GRANT_STEP_BYTES: Final = 256 * 1024
"""A receiver grants this much at a time."""
_WINDOW_BYTES: Final = LANE_WINDOW_BYTES[Lane.CONTROL]


class ControlSender:
    """Takes whole messages, and sends them one after the other from a task of its own (`run`)."""

    def __init__(self, channel: RTCDataChannel, pacer: Pacing, frame_bytes: int) -> None:
        self._channel = channel
        self._pacer = pacer
        self._splitter = FrameSplitter(frame_bytes)
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._under_way = 0
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()  # anything that a waiter here may wait for
        self._closed = False
        self.bytes_sent = 0
        channel.bufferedAmountLowThreshold = CHANNEL_BUFFER_BYTES // 2
        channel.on("bufferedamountlow", self._changed.set)

    async def send(self, message: bytes) -> None:
        """Queue a message; waits while the queue is full, in order of arrival. Cancelling leaves nothing behind.

        Raises:
            LinkClosed: the link is down, or went down meanwhile.
        """
        async with self._turn:
            while not self._closed and self._queue and self._queued_bytes + len(message) > QUEUE_BYTES:
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
        self._changed.set()

    def lost(self) -> Lost | None:
        """What was not sent."""
        return Lost(Lane.CONTROL, len(self._queue), self._queued_bytes) if self._queue else None

    def close(self) -> None:
        """Wake and refuse whoever waits."""
        self._closed = True
        self._queue.clear()
        self._changed.set()

    async def _send_frame(self, frame: bytes) -> None:
        while self._under_way + len(frame) > _WINDOW_BYTES or self._channel.bufferedAmount > CHANNEL_BUFFER_BYTES:
            await self._change()
        self._pacer.charge(len(frame))
        if self._channel.readyState != "open":
            # Its "close" event is about to end the link; until then nothing may be sent.
            await asyncio.get_running_loop().create_future()
        self._under_way += len(frame)
        self.bytes_sent += len(frame)
        self._channel.send(frame)

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class ControlReceiver:
    """Puts frames together and decides what to grant."""

    def __init__(self, max_message_bytes: int) -> None:
        self._assembler = FrameAssembler(max_message_bytes)
        self._owed = 0  # taken off the wire, not yet granted back
        self._backlog = 0  # whole messages not yet consumed
        self.bytes_received = 0

    def on_frame(self, frame: DataFrame, frame_bytes: int) -> bytes | None:
        """The whole message when `frame` ends it; `frame_bytes` is the size that it had on the wire.

        Raises:
            WireError: out of bounds or out of order.
        """
        self._owed += frame_bytes
        if self._owed > _WINDOW_BYTES:
            raise WireError(f"{self._owed} bytes under way where {_WINDOW_BYTES} were granted")
        self.bytes_received += frame_bytes
        message = self._assembler.feed(frame)
        if message is not None:
            self._backlog += len(message)
        return message

    @property
    def held_bytes(self) -> int:
        """Of the message that is not whole yet."""
        return self._assembler.held_bytes

    def consumed(self, message_bytes: int) -> None:
        """A message was taken by the consumer."""
        self._backlog -= message_bytes

    def grant(self) -> Grant | None:
        """What to grant now, if anything."""
        if self._backlog > MAX_BACKLOG_BYTES[Lane.CONTROL]:
            return None
        if self._owed < GRANT_STEP_BYTES:
            return None
        owed, self._owed = self._owed, 0
        return Grant(int(Lane.CONTROL), owed)
