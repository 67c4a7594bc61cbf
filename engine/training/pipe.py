"""Frames on the worker's pipe: four bytes of length, little-endian, then msgpack. Spec: docs/specs/worker.md. Pure."""

import struct
from typing import Final

import msgspec

from engine.training.protocol import MAX_FRAME_BYTES, FromWorker, ToWorker, WorkerMessage

_LENGTH: Final = struct.Struct("<I")

_ENCODER: Final = msgspec.msgpack.Encoder()
_TO_WORKER: Final[msgspec.msgpack.Decoder[ToWorker]] = msgspec.msgpack.Decoder(ToWorker)
_FROM_WORKER: Final[msgspec.msgpack.Decoder[FromWorker]] = msgspec.msgpack.Decoder(FromWorker)


class PipeError(Exception):
    """The other end of the pipe sent what is no message."""


def encode_frame(message: WorkerMessage) -> bytes:
    """A message as a frame.

    Raises:
        PipeError: it is longer than MAX_FRAME_BYTES.
    """
    body = _ENCODER.encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise PipeError(f"a message of {len(body)} bytes, at most {MAX_FRAME_BYTES}")
    return _LENGTH.pack(len(body)) + body


def decode_to_worker(body: bytes) -> ToWorker:
    """Read what the engine sent.

    Raises:
        PipeError: it is no message of this direction.
    """
    try:
        return _TO_WORKER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PipeError(f"not a message to the worker: {error}") from error


def decode_from_worker(body: bytes) -> FromWorker:
    """Read what the worker sent.

    Raises:
        PipeError: it is no message of this direction.
    """
    try:
        return _FROM_WORKER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PipeError(f"not a message from the worker: {error}") from error


class FrameReader:
    """Cuts a stream of bytes into frames; holds at most one frame and what was fed with it."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Bodies that are complete with `data`, in order.

        Raises:
            PipeError: a frame announces more than MAX_FRAME_BYTES, or nothing.
        """
        self._buffer += data
        bodies: list[bytes] = []
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if not 0 < length <= MAX_FRAME_BYTES:
                raise PipeError(f"a frame of {length} bytes, at most {MAX_FRAME_BYTES} and not empty")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                break
            bodies.append(bytes(self._buffer[_LENGTH.size : end]))
            del self._buffer[:end]
        return bodies

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._buffer)
