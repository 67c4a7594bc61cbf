"""Messages cut into data-channel frames, and put together again under bounds. PURE. Spec: docs/specs/wire.md.

All integers are big-endian. A data frame is a header of 16 bytes, the payload, and on a message's last frame the
16-byte BLAKE2b digest of the whole message:

    kind u8 = 1 | flags u8 (1: last) | zero u16 | message number u32 | frame index u32 | message bytes u32

The link's own frames travel in the control channel and are not part of any message:

    grant: kind u8 = 2 | lane u8 | zero u16 | bytes u32
    ping, pong: kind u8 = 3, 4 | zero u8 | zero u16 | number u32
    offer, answer, closing of a lane: kind u8 = 7, 8, 9 | zero u8 | lane u16 | session description
    withdrawal: kind u8 = 10 | zero u8 | zero u16 | message number u32 | bytes u32

Probes and reports travel in the line channel, which neither keeps order nor repeats what was lost:

    probe: kind u8 = 5 | zero u8 | zero u16 | number u32
    report: kind u8 = 6 | lanes u8 | zero u16 | probe's number u32 | receiver's clock u64, microseconds |
        probes received u32 | granted bytes u64, and for each lane: lane u16 | zero u16 | frames received u32
"""

import hashlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from engine.wire.errors import WireError
from engine.wire.limits import (
    MAX_FRAME_PAYLOAD_BYTES,
    MAX_LANE_SIGNAL_BYTES,
    MAX_LANES,
    MIN_FRAME_PAYLOAD_BYTES,
)

DIGEST_BYTES: Final = 16
HEADER: Final = struct.Struct("!BBHIII")
SHORT: Final = struct.Struct("!BBHI")
REPORT: Final = struct.Struct("!BBHIQIQ")
WITHDRAWAL: Final = struct.Struct("!BBHII")
SIGNAL: Final = struct.Struct("!BBH")
COUNT: Final = struct.Struct("!HHI")
MAX_FRAME_BYTES: Final = HEADER.size + MAX_FRAME_PAYLOAD_BYTES + DIGEST_BYTES

_DATA, _GRANT, _PING, _PONG, _PROBE, _REPORT, _OFFER, _ANSWER, _CLOSING, _WITHDRAWAL = range(1, 11)
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


@dataclass(frozen=True, slots=True)
class Probe:
    """Asks for a report; that one comes at all says that the peer knows of lanes."""

    number: int


@dataclass(frozen=True, slots=True)
class Report:
    """What the receiver of bulk has so far, and when the probe came."""

    number: int  # the probe's
    clock_us: int  # the receiver's own clock when the probe came
    probes: int  # received since the link came up
    granted_bytes: int  # bulk payload that may be sent in all, since the link came up
    frames: tuple[tuple[int, int], ...]  # (lane, bulk frames received over it since it came up)


class LaneStep(IntEnum):
    """A step in the life of a further lane."""

    OFFER = _OFFER
    ANSWER = _ANSWER
    CLOSING = _CLOSING


@dataclass(frozen=True, slots=True)
class LaneSignal:
    """Introduces a further lane over the link itself, or ends one. `sdp` is empty for CLOSING."""

    step: LaneStep
    lane: int
    sdp: str = ""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Bulk message `message` will not be finished; `sent_bytes` of its payload were sent."""

    message: int
    sent_bytes: int


Frame: TypeAlias = DataFrame | Grant | KeepAlive | Probe | Report | LaneSignal | Withdrawal


def digest_of(message: bytes) -> bytes:
    """BLAKE2b (RFC 7693) with DIGEST_BYTES of output."""
    return hashlib.blake2b(message, digest_size=DIGEST_BYTES).digest()


def encode_grant(grant: Grant) -> bytes:
    """The grant's frame."""
    return SHORT.pack(_GRANT, grant.lane, 0, grant.frame_bytes)


def encode_keep_alive(frame: KeepAlive) -> bytes:
    """The ping's or pong's frame."""
    return SHORT.pack(_PONG if frame.is_pong else _PING, 0, 0, frame.number)


def encode_probe(probe: Probe) -> bytes:
    """The probe's frame."""
    return SHORT.pack(_PROBE, 0, 0, probe.number)


def encode_report(report: Report) -> bytes:
    """The report's frame."""
    head = REPORT.pack(
        _REPORT,
        len(report.frames),
        0,
        report.number,
        report.clock_us,
        report.probes,
        report.granted_bytes,
    )
    return head + b"".join(COUNT.pack(lane, 0, frames) for lane, frames in report.frames)


def encode_signal(signal: LaneSignal) -> bytes:
    """The lane signal's frame."""
    return SIGNAL.pack(signal.step, 0, signal.lane) + signal.sdp.encode("ascii")


def encode_withdrawal(withdrawal: Withdrawal) -> bytes:
    """The withdrawal's frame."""
    return WITHDRAWAL.pack(_WITHDRAWAL, 0, 0, withdrawal.message, withdrawal.sent_bytes)


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
    parse = _PARSERS.get(kind)
    if parse is None:
        raise WireError(f"a frame of unknown kind {kind}")
    return parse(data)


def _fields(layout: struct.Struct, data: bytes) -> tuple[int, ...]:
    """What follows the zero u16 of a frame of fixed size, with the second byte before it."""
    if len(data) != layout.size:
        raise WireError(f"a frame of kind {data[0]} has {len(data)} bytes, not {layout.size}")
    _, second, zero, *rest = layout.unpack(data)
    _check_zero(data, zero)
    return (second, *rest)


def _check_zero(data: bytes, *values: int) -> None:
    if any(values):
        raise WireError(f"a frame of kind {data[0]} has bits set where there must be none")


def _parse_grant(data: bytes) -> Grant:
    lane, frame_bytes = _fields(SHORT, data)
    if lane > 1:
        raise WireError(f"a grant for lane {lane}, which does not exist")
    return Grant(lane, frame_bytes)


def _parse_keep_alive(data: bytes) -> KeepAlive:
    second, number = _fields(SHORT, data)
    _check_zero(data, second)
    return KeepAlive(number, data[0] == _PONG)


def _parse_probe(data: bytes) -> Probe:
    second, number = _fields(SHORT, data)
    _check_zero(data, second)
    return Probe(number)


def _parse_report(data: bytes) -> Report:
    if len(data) < REPORT.size:
        raise WireError(f"a report is truncated to {len(data)} bytes")
    _, lanes, zero, number, clock, probes, granted = REPORT.unpack_from(data)
    _check_zero(data, zero)
    if lanes > MAX_LANES or len(data) != REPORT.size + lanes * COUNT.size:
        raise WireError(f"a report on {lanes} lanes has {len(data)} bytes")
    frames = tuple(_parse_count(data, REPORT.size + place * COUNT.size) for place in range(lanes))
    return Report(number, clock, probes, granted, frames)


def _parse_count(data: bytes, at: int) -> tuple[int, int]:
    lane, zero, frames = COUNT.unpack_from(data, at)
    _check_zero(data, zero)
    return lane, frames


def _parse_signal(data: bytes) -> LaneSignal:
    if not SIGNAL.size <= len(data) <= SIGNAL.size + MAX_LANE_SIGNAL_BYTES:
        raise WireError(f"a lane signal of {len(data)} bytes")
    _, zero, lane = SIGNAL.unpack_from(data)
    _check_zero(data, zero)
    if lane == 0:
        raise WireError("a lane signal about the link's first lane")
    step, text = LaneStep(data[0]), data[SIGNAL.size :]
    if not text.isascii() or (step is LaneStep.CLOSING and text):
        raise WireError(f"a lane signal of kind {data[0]} with text that does not belong there")
    return LaneSignal(step, lane, text.decode("ascii"))


def _parse_withdrawal(data: bytes) -> Withdrawal:
    second, message, sent_bytes = _fields(WITHDRAWAL, data)
    _check_zero(data, second)
    return Withdrawal(message, sent_bytes)


_PARSERS: Final[dict[int, Callable[[bytes], Frame]]] = {
    _GRANT: _parse_grant,
    _PING: _parse_keep_alive,
    _PONG: _parse_keep_alive,
    _PROBE: _parse_probe,
    _REPORT: _parse_report,
    _OFFER: _parse_signal,
    _ANSWER: _parse_signal,
    _CLOSING: _parse_signal,
    _WITHDRAWAL: _parse_withdrawal,
}


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


def encode_data(message: int, index: int, message_bytes: int, payload: memoryview, digest: bytes | None) -> bytes:
    """A data frame; `digest` makes it the message's last."""
    header = HEADER.pack(_DATA, 0 if digest is None else _LAST, 0, message, index, message_bytes)
    return b"".join((header, payload) if digest is None else (header, payload, digest))


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
            yield encode_data(number, index, size, view[index * step : (index + 1) * step], None)
        yield encode_data(number, count - 1, size, view[(count - 1) * step :], digest_of(message))


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
