"""Bulk messages put together from frames that come over several lanes, in any order. PURE. Spec: docs/specs/wire.md.

A receiver holds at most one unfinished message of at most `max_message_bytes`, and what overtook a missing frame, which
the flow control keeps within one window. What a frame claims is never allocated: memory follows the bytes that came.
"""

import hashlib
from dataclasses import dataclass, field

from engine.wire.errors import WireError
from engine.wire.frames import DIGEST_BYTES, DataFrame, Withdrawal
from engine.wire.limits import MAX_FRAME_PAYLOAD_BYTES, MAX_MESSAGES_AHEAD, MIN_FRAME_PAYLOAD_BYTES


def _new_hash() -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=DIGEST_BYTES)


@dataclass(slots=True)
class _Unfinished:
    """One message: what came in turn, already hashed, and what came too early."""

    number: int
    size: int
    in_turn: list[bytes] = field(default_factory=list)
    in_turn_bytes: int = 0
    early: dict[int, bytes] = field(default_factory=dict)
    early_bytes: int = 0
    last_index: int | None = None
    digest: bytes = b""
    hash: "hashlib.blake2b" = field(default_factory=_new_hash)
    whole: bytes | None = None
    withdrawn_bytes: int | None = None  # what a withdrawal says was sent of it

    @property
    def settled(self) -> bool:
        return self.whole is not None or self.withdrawn_bytes is not None

    def has(self, index: int) -> bool:
        return self.settled or index < len(self.in_turn) or index in self.early

    def add(self, frame: DataFrame) -> None:
        self._check(frame)
        if frame.digest is not None:
            self.last_index, self.digest = frame.index, frame.digest
        self.early[frame.index] = frame.payload
        self.early_bytes += len(frame.payload)
        while (payload := self.early.pop(len(self.in_turn), None)) is not None:
            self.in_turn.append(payload)
            self.early_bytes -= len(payload)
            self.in_turn_bytes += len(payload)
            self.hash.update(payload)
        if self.last_index is not None and len(self.in_turn) == self.last_index + 1:
            self._finish()

    def _check(self, frame: DataFrame) -> None:
        where, size = f"frame {frame.index} of message {frame.message}", len(frame.payload)
        if frame.message_bytes != self.size:
            raise WireError(f"{where} says {frame.message_bytes} bytes, an earlier frame said {self.size}")
        if size > MAX_FRAME_PAYLOAD_BYTES:
            raise WireError(f"{where} carries {size} bytes, more than {MAX_FRAME_PAYLOAD_BYTES}")
        if frame.digest is None and size < MIN_FRAME_PAYLOAD_BYTES:
            raise WireError(f"{where} carries {size} bytes, less than {MIN_FRAME_PAYLOAD_BYTES}")
        if self.last_index is not None and (frame.digest is not None or frame.index > self.last_index):
            raise WireError(f"{where} came where frame {self.last_index} is the last")
        if frame.digest is not None and (len(self.in_turn) > frame.index or max(self.early, default=0) > frame.index):
            raise WireError(f"{where} is the last, and a later one came before it")
        if self.in_turn_bytes + self.early_bytes + size > self.size:
            raise WireError(f"{where} brings more than the {self.size} bytes of its message")

    def _finish(self) -> None:
        if self.in_turn_bytes != self.size:
            raise WireError(f"message {self.number} ended at {self.in_turn_bytes} of {self.size} bytes")
        if self.hash.digest() != self.digest:
            raise WireError(f"message {self.number} of {self.size} bytes does not match its digest")
        self.whole = self.in_turn[0] if len(self.in_turn) == 1 else b"".join(self.in_turn)
        self.in_turn.clear()

    def withdraw(self, sent_bytes: int) -> None:
        self.withdrawn_bytes = sent_bytes
        self.in_turn.clear()
        self.early.clear()
        self.in_turn_bytes = self.early_bytes = 0


class BulkAssembler:
    """Takes the bulk frames of one link; hands out whole messages in the order in which they were sent."""

    def __init__(self, max_message_bytes: int) -> None:
        self._max = max_message_bytes
        self._next = 0  # number of the first message that was not handed out
        self._begun: dict[int, _Unfinished] = {}
        self._past_bytes = 0  # payload of the messages before `_next`
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        """Payload bytes held."""
        return self._held_bytes

    @property
    def in_turn_bytes(self) -> int:
        """Payload that came since the link came up, up to the first byte that is missing."""
        current = self._begun.get(self._next)
        return self._past_bytes + (current.in_turn_bytes if current else 0)

    @property
    def early_bytes(self) -> int:
        """Payload held that lies behind a missing byte."""
        current = self._begun.get(self._next)
        return self._held_bytes - (current.in_turn_bytes if current else 0)

    def feed(self, frame: DataFrame) -> list[bytes]:
        """The messages that can be handed out now, in order. A frame that came before is passed over: a sender may
        send one again over another lane.

        Raises:
            WireError: the frame contradicts another one, its message is too large or too far ahead, or its digest is
                wrong.
        """
        message = self._message(frame.message, frame.message_bytes)
        if message is None or message.has(frame.index):
            return []
        message.add(frame)
        self._held_bytes += len(frame.payload)
        return self._hand_out() if message.settled else []

    def withdraw(self, withdrawal: Withdrawal) -> list[bytes]:
        """The sender gave a message up: what came of it is dropped. Messages that waited for it can be handed out.

        Raises:
            WireError: it claims more than a message may have, or lies too far ahead.
        """
        if withdrawal.sent_bytes > self._max:
            raise WireError(f"a withdrawal of {withdrawal.sent_bytes} bytes exceeds {self._max}")
        message = self._message(withdrawal.message, 0)
        if message is None or message.withdrawn_bytes is not None:
            return []
        held = message.in_turn_bytes + message.early_bytes
        message.whole = None
        message.withdraw(withdrawal.sent_bytes)
        self._held_bytes -= held
        return self._hand_out()

    def _message(self, number: int, size: int) -> _Unfinished | None:
        """The message's state; None when it is over."""
        if number < self._next:
            return None
        message = self._begun.get(number)
        if message is None:
            if number - self._next >= MAX_MESSAGES_AHEAD:
                raise WireError(f"message {number} came where message {self._next} was due")
            if size > self._max:
                raise WireError(f"message {number} of {size} bytes exceeds {self._max}")
            message = self._begun[number] = _Unfinished(number, size)
        return message

    def _hand_out(self) -> list[bytes]:
        out = []
        while (message := self._begun.get(self._next)) is not None and message.settled:
            del self._begun[self._next]
            self._next += 1
            if message.whole is not None:
                out.append(message.whole)
                self._past_bytes += message.size
                self._held_bytes -= message.size
            else:
                self._past_bytes += message.withdrawn_bytes or 0
        return out
