import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.signaling.messages import (
    MAX_ROOM_FRAME_BYTES,
    MAX_ROOM_PAYLOAD_BYTES,
    MAX_ROOM_PEERS,
    Absent,
    Auth,
    Challenge,
    Delivered,
    FromHub,
    IceServer,
    Joined,
    Present,
    RoomRefusal,
    Send,
    SignalingError,
    ToHub,
    decode_envelope,
    decode_from_hub,
    decode_to_hub,
    encode_room,
    room_auth_bytes,
)

PEER = "a" * 52
FROM_HUB: list[FromHub] = [
    Challenge(nonce=bytes(32)),
    Joined(peers=(PEER,), ice_servers=(IceServer(urls=("stun:stun.example.org",)),)),
    Present(peer_id=PEER),
    Absent(peer_id=PEER),
    Delivered(from_peer=PEER, payload=b"\x00\xff"),
    RoomRefusal(code="full", detail="try later"),
]
TO_HUB: list[ToHub] = [Auth(peer_id=PEER, signature=bytes(64)), Send(to=PEER, payload=b"x")]


@pytest.mark.parametrize("message", FROM_HUB, ids=lambda message: type(message).__name__)
def test_the_hubs_messages_round_trip(message: FromHub) -> None:
    assert decode_from_hub(encode_room(message)) == message


@pytest.mark.parametrize("message", TO_HUB, ids=lambda message: type(message).__name__)
def test_the_peers_messages_round_trip(message: ToHub) -> None:
    assert decode_to_hub(encode_room(message)) == message


def test_the_names_on_the_wire() -> None:
    raw = json.loads(encode_room(Delivered(from_peer=PEER, payload=b"hi")))
    assert raw == {"type": "message", "from": PEER, "payload": "aGk="}
    assert json.loads(encode_room(Send(to=PEER, payload=b"hi"))) == {"type": "send", "to": PEER, "payload": "aGk="}


def test_what_is_signed_to_enter() -> None:
    assert room_auth_bytes(b"m" * 32, b"n" * 32) == b"potluck room v1\n" + b"m" * 32 + b"n" * 32


def test_the_largest_legal_messages_fit_a_frame() -> None:
    servers = tuple(
        IceServer(urls=("stun:" + "x" * 290,) * 2, username="u" * 300, credential="c" * 300) for _ in range(16)
    )
    assert len(encode_room(Joined(peers=(PEER,) * MAX_ROOM_PEERS, ice_servers=servers))) <= MAX_ROOM_FRAME_BYTES
    assert len(encode_room(Send(to=PEER, payload=bytes(MAX_ROOM_PAYLOAD_BYTES)))) <= MAX_ROOM_FRAME_BYTES


def test_our_own_oversized_frame_is_our_fault() -> None:
    with pytest.raises(ValueError, match="exceeds"):
        encode_room(Send(to=PEER, payload=bytes(MAX_ROOM_FRAME_BYTES)))


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "{}",
        "[]",
        '{"type":"challenge","nonce":"AAAA"}',
        '{"type":"present","peer_id":"short"}',
        '{"type":"message","from":"' + PEER + '","payload":"!"}',
        '{"type":"auth"}',
        "[" * 10_000,
        "x" * (MAX_ROOM_FRAME_BYTES + 1),
    ],
)
def test_nonsense_is_refused(frame: str) -> None:
    with pytest.raises(SignalingError):
        decode_from_hub(frame)
    with pytest.raises(SignalingError):
        decode_to_hub(frame)


@given(st.text(max_size=200))
def test_random_text_is_refused(frame: str) -> None:
    for decode in (decode_from_hub, decode_to_hub):
        with pytest.raises(SignalingError):
            decode(frame)


@given(st.binary(max_size=200))
def test_random_envelopes_are_refused(data: bytes) -> None:
    with pytest.raises(SignalingError):
        decode_envelope(data)
