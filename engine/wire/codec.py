"""Peer messages to bytes and back, with the lane and size rules. PURE. Spec: docs/specs/wire.md."""

from typing import Final

import msgspec

from engine.wire.errors import WireError
from engine.wire.limits import MAX_BULK_BYTES
from engine.wire.messages import BULK_MESSAGES, MAX_CONTROL_BYTES, PeerMessage

_ERROR_TEXT_CHARS: Final = 200

__all__ = ["WireError", "decode", "encode", "lane_of", "max_bytes_of"]

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[PeerMessage] = msgspec.msgpack.Decoder(PeerMessage)


def lane_of(message: PeerMessage) -> bool:
    """Whether `message` travels in the bulk lane."""
    return isinstance(message, BULK_MESSAGES)


def max_bytes_of(lane_is_bulk: bool) -> int:
    """The largest message of a lane."""
    return MAX_BULK_BYTES if lane_is_bulk else MAX_CONTROL_BYTES


def encode(message: PeerMessage) -> bytes:
    """The message's bytes.

    Raises:
        ValueError: it is larger than its lane allows, which is a fault of ours.
    """
    data = _encoder.encode(message)
    limit = max_bytes_of(lane_of(message))
    if len(data) > limit:
        raise ValueError(f"a {type(message).__name__} of {len(data)} bytes exceeds {limit}")
    return data


def decode(data: bytes, lane_is_bulk: bool) -> PeerMessage:
    """The message in `data`, every field within its bounds.

    Raises:
        WireError: too large, not a message, a field out of bounds, or in the wrong lane.
    """
    lane = "bulk" if lane_is_bulk else "control"
    limit = max_bytes_of(lane_is_bulk)
    if len(data) > limit:
        raise WireError(f"a message of {len(data)} bytes in the {lane} lane exceeds {limit}")
    try:
        message = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        detail = str(error)[:_ERROR_TEXT_CHARS]
        raise WireError(f"{len(data)} bytes in the {lane} lane are no message: {detail}") from error
    if lane_of(message) != lane_is_bulk:
        raise WireError(f"a {type(message).__name__} does not belong in the {lane} lane")
    return message
