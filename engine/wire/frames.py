"""Messages cut into data-channel frames, and put together again under bounds. PURE. Spec: docs/specs/wire.md.

All integers are big-endian. A data frame is a header of 16 bytes, the payload, and on a message's last frame the
16-byte BLAKE2b digest of the whole message:

    kind u8 = 1 | flags u8 (1: last) | zero u16 | message number u32 | frame index u32 | message bytes u32

The link's own frames travel in the control channel and are not part of any message:

    grant: kind u8 = 2 | lane u8 | zero u16 | bytes u32
    ping, pong: kind u8 = 3, 4 | zero u8 | zero u16 | number u32
"""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from engine.wire.errors import WireError
from engine.wire.limits import MAX_FRAME_PAYLOAD_BYTES, MIN_FRAME_PAYLOAD_BYTES

DIGEST_BYTES: Final = 16
HEADER: Final = struct.Struct("!BBHIII")
SHORT: Final = struct.Struct("!BBHI")
MAX_FRAME_BYTES: Final = HEADER.size + MAX_FRAME_PAYLOAD_BYTES + DIGEST_BYTES

_DATA, _GRANT, _PING, _PONG = 1, 2, 3, 4
_LAST: Final = 1
_NUMBERS: Final = 2**32


@dataclass(frozen=True, slots=True)
class DataFrame:
    """A piece of message number `message`; `digest` is set on the last one only."""

    message: int
    index: int
    message_bytes: int
    payload: bytes
    digest: bytes | None


@dataclass(frozen=True, slots=True)
class Grant:
    """The receiver took `frame_bytes` more of lane `lane` (0 control, 1 bulk)."""

    lane: int
    frame_bytes: int


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """Ping, or the pong that echoes its number."""

    number: int
    is_pong: bool


Frame: TypeAlias = DataFrame | Grant | KeepAlive


def digest_of(message: bytes) -> bytes:
    """BLAKE2b (RFC 7693) with DIGEST_BYTES of output."""
    return hashlib.blake2b(message, digest_size=DIGEST_BYTES).digest()


def encode_grant(grant: Grant) -> bytes:
    """The grant's frame."""
    return SHORT.pack(_GRANT, grant.lane, 0, grant.frame_bytes)


def encode_keep_alive(frame: KeepAlive) -> bytes:
    """The ping's or pong's frame."""
    return SHORT.pack(_PONG if frame.is_pong else _PING, 0, 0, frame.number)


def parse_frame(data: bytes) -> Frame:
    """One frame.

    Raises:
        WireError: empty, too large, truncated, or of no known kind.
    """
    if not data:
        raise WireError("an empty frame")
    if len(data) > MAX_FRAME_BYTES:
        raise WireError(f"a frame of {len(data)} bytes exceeds {MAX_FRAME_BYTES}")
    kind = data[0]
    if kind == _DATA:
        return _parse_data(data)
    if kind not in (_GRANT, _PING, _PONG):
        raise WireError(f"a frame of unknown kind {kind}")
    if len(data) != SHORT.size:
        raise WireError(f"a frame of kind {kind} has {len(data)} bytes, not {SHORT.size}")
    _, lane, zero, number = SHORT.unpack(data)
    if zero:
        raise WireError(f"a frame of kind {kind} has bits set where there must be none")
    if kind == _GRANT:
        if lane > 1:
            raise WireError(f"a grant for lane {lane}, which does not exist")
        return Grant(lane, number)
    if lane:
        raise WireError(f"a frame of kind {kind} has bits set where there must be none")
    return KeepAlive(number, kind == _PONG)


def _parse_data(data: bytes) -> DataFrame:
    if len(data) < HEADER.size:
        raise WireError(f"a data frame is truncated to {len(data)} bytes")
    _, flags, zero, message, index, message_bytes = HEADER.unpack_from(data)
    if zero or flags & ~_LAST:
        raise WireError(f"frame {index} of message {message} has bits set where there must be none")
    if not flags & _LAST:
        return DataFrame(message, index, message_bytes, data[HEADER.size :], None)
    if len(data) < HEADER.size + DIGEST_BYTES:
        raise WireError(f"the last frame of message {message} is truncated to {len(data)} bytes")
    return DataFrame(message, index, message_bytes, data[HEADER.size : -DIGEST_BYTES], data[-DIGEST_BYTES:])


class FrameSplitter:
    """Numbers one lane's outgoing messages and cuts them up."""

    def __init__(self, payload_bytes: int = MAX_FRAME_PAYLOAD_BYTES) -> None:
        if not MIN_FRAME_PAYLOAD_BYTES <= payload_bytes <= MAX_FRAME_PAYLOAD_BYTES:
            raise ValueError(f"frames of {payload_bytes} bytes are outside the protocol's bounds")
        self._payload_bytes = payload_bytes
        self._next = 0

    def split(self, message: bytes) -> Iterator[bytes]:
        """The frames of the next message, in order; all of them must be sent before the next `split`.

        Raises:
            WireError: the lane's message numbers are used up, so the link must be made anew.
        """
        number = self._next
        if number >= _NUMBERS:
            raise WireError("the lane's message numbers are used up")
        self._next += 1
        return self._frames(number, message)

    def _frames(self, number: int, message: bytes) -> Iterator[bytes]:
        step, size = self._payload_bytes, len(message)
        view = memoryview(message)
        count = max(1, -(-size // step))
        for index in range(count - 1):
            header = HEADER.pack(_DATA, 0, 0, number, index, size)
            yield b"".join((header, view[index * step : (index + 1) * step]))
        header = HEADER.pack(_DATA, _LAST, 0, number, count - 1, size)
        yield b"".join((header, view[(count - 1) * step :], digest_of(message)))


class FrameAssembler:
    """Puts one lane's incoming messages together; holds at most one message of at most `max_message_bytes`.

    What a frame claims is never allocated: memory follows the bytes that came.
    """

    def __init__(self, max_message_bytes: int) -> None:
        self._max = max_message_bytes
        self._message = 0
        self._index = 0
        self._size = 0
        self._held: list[bytes] = []
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        """Payload bytes of the message in progress."""
        return self._held_bytes

    def feed(self, frame: DataFrame) -> bytes | None:
        """The whole message when `frame` ends it.

        Raises:
            WireError: the frame repeats, skips or contradicts, the message is too large, or its digest is wrong.
        """
        where = f"frame {frame.index} of message {frame.message}"
        if frame.message != self._message or frame.index != self._index:
            raise WireError(f"{where} came where frame {self._index} of message {self._message} was due")
        if frame.index == 0:
            if frame.message_bytes > self._max:
                raise WireError(f"message {frame.message} of {frame.message_bytes} bytes exceeds {self._max}")
            self._size = frame.message_bytes
        elif frame.message_bytes != self._size:
            raise WireError(f"{where} says {frame.message_bytes} bytes, an earlier frame said {self._size}")
        self._check_payload(frame, where)
        self._held.append(frame.payload)
        self._held_bytes += len(frame.payload)
        self._index += 1
        return None if frame.digest is None else self._finish(frame.digest)

    def _check_payload(self, frame: DataFrame, where: str) -> None:
        total = self._held_bytes + len(frame.payload)
        if len(frame.payload) > MAX_FRAME_PAYLOAD_BYTES:
            raise WireError(f"{where} carries {len(frame.payload)} bytes, more than {MAX_FRAME_PAYLOAD_BYTES}")
        if frame.digest is not None:
            if total != self._size:
                raise WireError(f"message {frame.message} ended at {total} of {self._size} bytes")
        elif len(frame.payload) < MIN_FRAME_PAYLOAD_BYTES:
            raise WireError(f"{where} carries {len(frame.payload)} bytes, less than {MIN_FRAME_PAYLOAD_BYTES}")
        elif total >= self._size:
            raise WireError(f"{where} brings {total} of {self._size} bytes and is not the last")

    def _finish(self, digest: bytes) -> bytes:
        message = b"".join(self._held)
        number = self._message
        self._held = []
        self._held_bytes = self._index = self._size = 0
        self._message += 1
        if digest_of(message) != digest:
            raise WireError(f"message {number} of {len(message)} bytes does not match its digest")
        return message
