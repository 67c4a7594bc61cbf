"""Which frame of which bulk message goes next, and which lane still owes what. PURE. Spec: docs/specs/wire.md.

Messages are cut one after the other; their frames go over any lane. Each lane delivers its frames in order, so a count
of frames received says exactly which of them arrived. A frame is kept as a place in its message, not as bytes, until
one lane has delivered it; what a dead or stalled lane owes goes out again over another one.
"""

import hashlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from engine.wire.errors import WireError
from engine.wire.frames import DIGEST_BYTES, Withdrawal, encode_data
from engine.wire.limits import MAX_MESSAGES_AHEAD

_NUMBERS: Final = 2**32


class Outgoing:
    """One bulk message on its way."""

    __slots__ = ("cancelled", "cursor", "hash", "index", "message", "number", "pieces_out", "view")

    def __init__(self, message: bytes) -> None:
        self.message = message
        self.view = memoryview(message)
        self.number: int | None = None  # given when its first frame is cut
        self.cursor = 0  # payload bytes cut so far
        self.index = 0  # index of the next frame
        self.pieces_out = 0  # frames cut and not yet delivered
        self.hash = hashlib.blake2b(digest_size=DIGEST_BYTES)
        self.cancelled = False

    @property
    def cut(self) -> bool:
        """Whether every frame was cut."""
        return self.index > 0 and self.cursor == len(self.message)

    @property
    def delivered(self) -> bool:
        """Whether the receiver has it whole."""
        return self.cut and self.pieces_out == 0


class Piece:
    """One frame, as a place in its message. `frame()` makes the bytes, each time it is sent."""

    __slots__ = ("delivered", "digest", "end_offset", "index", "outgoing", "start", "stop")

    def __init__(self, outgoing: Outgoing, index: int, start: int, stop: int, end_offset: int) -> None:
        self.outgoing = outgoing
        self.index = index
        self.start = start
        self.stop = stop
        self.end_offset = end_offset  # of the link's bulk payload
        self.digest: bytes | None = None
        self.delivered = False

    @property
    def needless(self) -> bool:
        """Whether sending it would help nobody."""
        return self.delivered or self.outgoing.cancelled

    def frame(self) -> bytes:
        """The bytes to send."""
        outgoing = self.outgoing
        if outgoing.number is None:
            raise AssertionError("a piece of a message without a number")
        view = outgoing.view[self.start : self.stop]
        return encode_data(outgoing.number, self.index, len(outgoing.message), view, self.digest)


@dataclass(slots=True)
class LaneState:
    """What one lane was given and has not delivered."""

    owed: deque[tuple[Piece, int]] = field(default_factory=deque)  # with the size of its frame
    owed_bytes: int = 0
    frames: int = 0  # delivered so far
    frame_bytes: int = 0  # delivered so far
    in_flight_bytes: int = 0  # sent, and not yet granted back over the lane itself
    progress_at: float = 0.0
    stalled: bool = False


class Striper:
    """The sending half of a link's bulk lane."""

    def __init__(self, granted_bytes: int) -> None:
        self._queue: deque[Outgoing] = deque()  # not cut to the end
        self._again: deque[Piece] = deque()
        self._out: dict[int, Outgoing] = {}  # numbered, not delivered
        self._lanes: dict[int, LaneState] = {}
        self._granted = granted_bytes
        self._next_number = 0
        self._offset = 0  # payload cut so far over all messages
        self.queued_bytes = 0  # payload not cut yet
        self.sent_again_bytes = 0  # payload that went out more than once
        self.delivered_bytes = 0  # payload that arrived, each byte once

    def add(self, message: bytes) -> Outgoing:
        """Take a message; it goes after those before it."""
        outgoing = Outgoing(message)
        self._queue.append(outgoing)
        self.queued_bytes += len(message)
        return outgoing

    @property
    def queued_messages(self) -> int:
        """Messages not cut to the end."""
        return len(self._queue)

    @property
    def busy(self) -> bool:
        """Whether anything was taken and not delivered."""
        return bool(self._queue or self._out)

    @property
    def working_bytes(self) -> int:
        """Frame bytes given to lanes that get on, and not yet known to have arrived."""
        return sum(lane.owed_bytes for lane in self._lanes.values() if not lane.stalled)

    def undelivered(self) -> Iterator[Outgoing]:
        """Every message that the receiver may not have whole."""
        yield from self._out.values()
        yield from (outgoing for outgoing in self._queue if outgoing.number is None)

    def cancel(self, outgoing: Outgoing, *, begun_too: bool) -> Withdrawal | None:
        """Give a message up; the result is to be sent when part of it went out already. Without `begun_too` only a
        message of which nothing went out is given up.
        """
        if outgoing.cancelled or outgoing.delivered or (outgoing.number is not None and not begun_too):
            return None
        outgoing.cancelled = True
        if outgoing in self._queue:
            self._queue.remove(outgoing)
            self.queued_bytes -= len(outgoing.message) - outgoing.cursor
        if outgoing.number is None:
            return None
        self._out.pop(outgoing.number, None)
        return Withdrawal(outgoing.number, outgoing.cursor)

    def has_piece(self, payload_bytes: int) -> bool:
        """Whether something may be sent now."""
        self._drop_needless()
        return bool(self._again) or self._may_cut(payload_bytes)

    def next_piece(self, payload_bytes: int) -> Piece | None:
        """What to send next: what a lane failed to deliver first, else a new frame of at most `payload_bytes`."""
        self._drop_needless()
        if self._again:
            piece = self._again.popleft()
            self.sent_again_bytes += piece.stop - piece.start
            return piece
        return self._cut(payload_bytes) if self._may_cut(payload_bytes) else None

    def give_back(self, piece: Piece) -> None:
        """`piece` could not be sent after all."""
        self._again.appendleft(piece)

    def _drop_needless(self) -> None:
        while self._again and self._again[0].needless:
            self._again.popleft()

    def _may_cut(self, payload_bytes: int) -> bool:
        if not self._queue:
            return False
        outgoing = self._queue[0]
        if outgoing.number is None:
            if self._next_number >= _NUMBERS:
                raise WireError("the lane's message numbers are used up")
            if self._out and self._next_number - next(iter(self._out)) >= MAX_MESSAGES_AHEAD:
                return False
        size = min(payload_bytes, len(outgoing.message) - outgoing.cursor)
        return self._offset + size <= self._granted

    def _cut(self, payload_bytes: int) -> Piece:
        outgoing = self._queue[0]
        if outgoing.number is None:
            outgoing.number = self._next_number
            self._next_number += 1
            self._out[outgoing.number] = outgoing
        start, stop = outgoing.cursor, min(outgoing.cursor + payload_bytes, len(outgoing.message))
        outgoing.hash.update(outgoing.view[start:stop])
        self._offset += stop - start
        self.queued_bytes -= stop - start
        piece = Piece(outgoing, outgoing.index, start, stop, self._offset)
        outgoing.cursor = stop
        outgoing.index += 1
        outgoing.pieces_out += 1
        if stop == len(outgoing.message):
            piece.digest = outgoing.hash.digest()
            self._queue.popleft()
        return piece

    # Lanes.

    def lanes(self) -> dict[int, LaneState]:
        """State by lane number; not to be changed by the caller."""
        return self._lanes

    def open_lane(self, number: int, now: float) -> None:
        """A lane can carry frames from now on."""
        self._lanes[number] = LaneState(progress_at=now)

    def close_lane(self, number: int) -> None:
        """A lane is gone; what it owes goes out again."""
        lane = self._lanes.pop(number, None)
        if lane is not None:
            self._again.extend(piece for piece, _ in lane.owed if not piece.needless)

    def sent(self, number: int, piece: Piece, frame_bytes: int, now: float) -> None:
        """`piece` was handed to a lane."""
        lane = self._lanes[number]
        if not lane.owed:
            lane.progress_at = now
        lane.in_flight_bytes += frame_bytes
        lane.owed.append((piece, frame_bytes))
        lane.owed_bytes += frame_bytes

    def received(self, number: int, frames: int, now: float) -> int:
        """The receiver has `frames` frames of a lane; returns the frame bytes that are news. Older news are nothing.

        Raises:
            WireError: more than were sent.
        """
        lane = self._lanes.get(number)
        if lane is None or frames <= lane.frames:
            return 0
        if frames - lane.frames > len(lane.owed):
            raise WireError(f"lane {number} delivered {frames} frames where {lane.frames + len(lane.owed)} were sent")
        return self._deliver(lane, frames - lane.frames, now)

    def granted_back(self, number: int, frame_bytes: int) -> None:
        """The receiver took bytes off a lane, and said so over it.

        Raises:
            WireError: more than were sent.
        """
        lane = self._lanes.get(number)
        if lane is None:
            return
        if frame_bytes > lane.in_flight_bytes:
            raise WireError(f"lane {number} grants {frame_bytes} bytes where {lane.in_flight_bytes} are under way")
        lane.in_flight_bytes -= frame_bytes

    def received_bytes(self, number: int, frame_bytes: int, now: float) -> int:
        """The same in frame bytes since the lane opened, of whole frames.

        Raises:
            WireError: more than were sent.
        """
        lane = self._lanes[number]
        count, total = 0, lane.frame_bytes
        for _, size in lane.owed:
            if total + size > frame_bytes:
                break
            total += size
            count += 1
        if count == len(lane.owed) and frame_bytes > total:
            raise WireError(f"grants of {frame_bytes} bytes where {total} were sent")
        return self._deliver(lane, count, now) if count else 0

    def _deliver(self, lane: LaneState, count: int, now: float) -> int:
        news = 0
        for _ in range(count):
            piece, size = lane.owed.popleft()
            news += size
            if not piece.delivered:
                piece.delivered = True
                self.delivered_bytes += piece.stop - piece.start
                self._on_delivered(piece.outgoing)
        lane.frames += count
        lane.frame_bytes += news
        lane.owed_bytes -= news
        lane.progress_at = now
        lane.stalled = False
        return news

    def _on_delivered(self, outgoing: Outgoing) -> None:
        outgoing.pieces_out -= 1
        if outgoing.delivered and outgoing.number is not None:
            self._out.pop(outgoing.number, None)

    def granted(self, payload_bytes: int) -> None:
        """The receiver takes so much payload in all; less than before is older news."""
        self._granted = max(self._granted, payload_bytes)

    def unstick(self, seconds: float, now: float) -> bool:
        """Send again what lanes without progress for `seconds` owe, if another lane works. Whether any was found."""
        stuck = [
            lane for lane in self._lanes.values() if lane.owed and not lane.stalled and now - lane.progress_at > seconds
        ]
        if not stuck or len(stuck) + sum(lane.stalled for lane in self._lanes.values()) >= len(self._lanes):
            return False
        for lane in stuck:
            lane.stalled = True
            self._again.extend(piece for piece, _ in lane.owed if not piece.needless)
        return True
