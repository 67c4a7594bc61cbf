"""What travels through a hub's room, and what peers sign for each other. PURE. Spec: docs/specs/signaling.md.

The room's websocket carries JSON text frames of at most MAX_ROOM_FRAME_BYTES. Bytes are standard base64 in JSON.
The hub reads only the outer messages; the `payload` that it carries is a msgpack `SignedEnvelope` that it cannot forge.
"""

import hashlib
from typing import Annotated, Final, TypeAlias

import msgspec

from engine.core.errors import PeerError
from engine.wire.messages import HashBytes, PeerIdText, Signature

ROOM_SIGNING_CONTEXT: Final = b"potluck room v1\n"
ENVELOPE_SIGNING_CONTEXT: Final = b"potluck introduction v1\n"

MAX_ROOM_FRAME_BYTES: Final = 64 * 1024
MAX_ROOM_PAYLOAD_BYTES: Final = 40 * 1024
MAX_ROOM_PEERS: Final = 512
MAX_SDP_BYTES: Final = 24 * 1024
ROOM_NONCE_BYTES: Final = 32
OFFER_NONCE_BYTES: Final = 16

RoomNonce: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=ROOM_NONCE_BYTES, max_length=ROOM_NONCE_BYTES)]
OfferNonce: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=OFFER_NONCE_BYTES, max_length=OFFER_NONCE_BYTES)]
RoomPayload: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=MAX_ROOM_PAYLOAD_BYTES)]
Sdp: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_SDP_BYTES)]


class SignalingError(PeerError):
    """A room message or envelope was refused; the text says what and why."""


class RoomMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Base of the websocket's messages; unknown fields are ignored so that newer hubs may add some."""


class IceServer(RoomMessage, frozen=True, kw_only=True):
    """A STUN or TURN server; the credential is short-lived."""

    urls: Annotated[tuple[Annotated[str, msgspec.Meta(max_length=300)], ...], msgspec.Meta(min_length=1, max_length=8)]
    username: Annotated[str, msgspec.Meta(max_length=300)] = ""
    credential: Annotated[str, msgspec.Meta(max_length=300)] = ""


# Hub to peer.


class Challenge(RoomMessage, frozen=True, kw_only=True, tag="challenge"):
    """First message of every websocket: sign this."""

    nonce: RoomNonce


class Joined(RoomMessage, frozen=True, kw_only=True, tag="joined"):
    """The peer is in the room; `peers` are the others there."""

    peers: Annotated[tuple[PeerIdText, ...], msgspec.Meta(max_length=MAX_ROOM_PEERS)]
    ice_servers: Annotated[tuple[IceServer, ...], msgspec.Meta(max_length=16)] = ()


class Present(RoomMessage, frozen=True, kw_only=True, tag="present"):
    """A peer came into the room (or came anew)."""

    peer_id: PeerIdText


class Absent(RoomMessage, frozen=True, kw_only=True, tag="absent"):
    """A peer left the room. Links that it has go on."""

    peer_id: PeerIdText


class Delivered(RoomMessage, frozen=True, kw_only=True, tag="message", rename={"from_peer": "from"}):
    """A payload from another peer of the room."""

    from_peer: PeerIdText
    payload: RoomPayload


class RoomRefusal(RoomMessage, frozen=True, kw_only=True, tag="error"):
    """The hub closes the websocket after this."""

    code: Annotated[str, msgspec.Meta(max_length=40)]
    detail: Annotated[str, msgspec.Meta(max_length=300)] = ""


# Peer to hub.


class Auth(RoomMessage, frozen=True, kw_only=True, tag="auth"):
    """Answer to `Challenge`: a signature over `room_auth_bytes(...)` by the key that `peer_id` stands for."""

    peer_id: PeerIdText
    signature: Signature


class Send(RoomMessage, frozen=True, kw_only=True, tag="send"):
    """Carry `payload` to a peer of this room, if it is there."""

    to: PeerIdText
    payload: RoomPayload


FromHub: TypeAlias = Challenge | Joined | Present | Absent | Delivered | RoomRefusal
ToHub: TypeAlias = Auth | Send

_encoder = msgspec.json.Encoder()
_from_hub: msgspec.json.Decoder[FromHub] = msgspec.json.Decoder(
    Challenge | Joined | Present | Absent | Delivered | RoomRefusal
)
_to_hub: msgspec.json.Decoder[ToHub] = msgspec.json.Decoder(Auth | Send)


def room_auth_bytes(manifest_hash: bytes, nonce: bytes) -> bytes:
    """What a peer signs to enter the room of `manifest_hash` (32 bytes)."""
    return ROOM_SIGNING_CONTEXT + manifest_hash + nonce


def encode_room(message: FromHub | ToHub) -> str:
    """One JSON text frame.

    Raises:
        ValueError: it exceeds MAX_ROOM_FRAME_BYTES.
    """
    data = _encoder.encode(message)
    if len(data) > MAX_ROOM_FRAME_BYTES:
        raise ValueError(f"a room message of {len(data)} bytes exceeds {MAX_ROOM_FRAME_BYTES}")
    return data.decode("utf-8")


def decode_from_hub(frame: str | bytes) -> FromHub:
    """A text frame that came from the hub.

    Raises:
        SignalingError: it is no such message.
    """
    _check_size(frame)
    try:
        return _from_hub.decode(frame)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise SignalingError(f"the hub sent something that is no room message: {str(error)[:200]}") from error


def decode_to_hub(frame: str | bytes) -> ToHub:
    """A text frame that came from a peer.

    Raises:
        SignalingError: it is no such message.
    """
    _check_size(frame)
    try:
        return _to_hub.decode(frame)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise SignalingError(f"the peer sent something that is no room message: {str(error)[:200]}") from error


def _check_size(frame: str | bytes) -> None:
    # A character is at least one byte, so the cheap length also bounds text.
    if len(frame) > MAX_ROOM_FRAME_BYTES:
        raise SignalingError(f"a room message of {len(frame)} exceeds {MAX_ROOM_FRAME_BYTES} bytes")


# Peer to peer, through the room: signed, so that the hub can drop them but not change them.


class Offer(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="offer"):
    """The smaller peer id of a pair proposes a connection."""

    from_peer: PeerIdText = msgspec.field(name="from")
    to_peer: PeerIdText = msgspec.field(name="to")
    run: HashBytes  # manifest hash
    nonce: OfferNonce
    expires_at: Annotated[float, msgspec.Meta(ge=0.0, le=2.0**40)]  # seconds since the epoch
    sdp: Sdp


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="answer"):
    """The other one accepts exactly that offer."""

    from_peer: PeerIdText = msgspec.field(name="from")
    to_peer: PeerIdText = msgspec.field(name="to")
    run: HashBytes
    nonce: OfferNonce
    expires_at: Annotated[float, msgspec.Meta(ge=0.0, le=2.0**40)]
    offer_hash: HashBytes  # `description_hash` of the offer's payload
    sdp: Sdp


class Call(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="call"):
    """The larger peer id of a pair has no link any more and asks for a new offer."""

    from_peer: PeerIdText = msgspec.field(name="from")
    to_peer: PeerIdText = msgspec.field(name="to")
    run: HashBytes
    nonce: OfferNonce
    expires_at: Annotated[float, msgspec.Meta(ge=0.0, le=2.0**40)]


Description: TypeAlias = Offer | Answer | Call


class SignedEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """A `Description` as the bytes that were signed, and the signature of its `from`."""

    payload: Annotated[bytes, msgspec.Meta(max_length=MAX_ROOM_PAYLOAD_BYTES)]
    signature: Signature  # over ENVELOPE_SIGNING_CONTEXT + payload


_pack = msgspec.msgpack.Encoder()
_envelope: msgspec.msgpack.Decoder[SignedEnvelope] = msgspec.msgpack.Decoder(SignedEnvelope)
_description: msgspec.msgpack.Decoder[Description] = msgspec.msgpack.Decoder(Offer | Answer | Call)


def encode_description(description: Description) -> bytes:
    """The canonical bytes that are signed."""
    return _pack.encode(description)


def encode_envelope(envelope: SignedEnvelope) -> bytes:
    """The payload for the room."""
    return _pack.encode(envelope)


def decode_envelope(data: bytes) -> tuple[SignedEnvelope, Description]:
    """Both layers of a room payload; the signature is not checked here.

    Raises:
        SignalingError: it is no envelope.
    """
    if len(data) > MAX_ROOM_PAYLOAD_BYTES:
        raise SignalingError(f"an envelope of {len(data)} bytes exceeds {MAX_ROOM_PAYLOAD_BYTES}")
    try:
        envelope = _envelope.decode(data)
        return envelope, _description.decode(envelope.payload)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise SignalingError(f"an envelope cannot be read: {str(error)[:200]}") from error


def description_hash(payload: bytes) -> bytes:
    """SHA-256 of an offer's signed payload: what its answer refers to."""
    return hashlib.sha256(payload).digest()
