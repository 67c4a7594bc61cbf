import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.wire import codec, limits
from engine.wire.codec import decode, encode, lane_of
from engine.wire.errors import WireError
from engine.wire.messages import (
    MAX_CONTROL_BYTES,
    Accept,
    AveragedPart,
    Begin,
    Chunk,
    Goodbye,
    Member,
    Part,
    PeerHello,
    PeerMessage,
    Progress,
    StateRequest,
)

ROUND = bytes(16)
PEER = "a" * 52
MESSAGES: list[PeerMessage] = [
    PeerHello(protocol_version=1, manifest_hash=bytes(32), software="potluck 0.1"),
    Progress(
        sequence=1,
        global_step=2,
        weights_hash=bytes(32),
        samples=3,
        samples_per_second=1.5,
        upload_bytes_per_second=0.0,
        download_bytes_per_second=0.0,
        training=True,
    ),
    Goodbye(reason="closing"),
    Begin(round_id=ROUND, global_step=1, members=(Member(peer_id=PEER, samples=1, tokens=2, loss_sum=3.0, share=4),)),
    Part(round_id=ROUND, payload=b"\x00" * 8),
    AveragedPart(round_id=ROUND, contributors=(0, 2), payload=b""),
    StateRequest(),
    Chunk(state_hash=bytes(32), index=0, payload=b"abc"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_round_trip_in_their_lane(message: PeerMessage) -> None:
    assert decode(encode(message), lane_of(message)) == message


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_are_refused_in_the_other_lane(message: PeerMessage) -> None:
    with pytest.raises(WireError, match=f"a {type(message).__name__} does not belong in the"):
        decode(encode(message), not lane_of(message))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_truncation_is_refused(message: PeerMessage) -> None:
    data = encode(message)
    for size in range(len(data)):
        with pytest.raises(WireError):
            decode(data[:size], lane_of(message))


@given(data=st.binary(max_size=300), bulk=st.booleans())
def test_random_bytes_raise_wire_errors_only(data: bytes, bulk: bool) -> None:
    with pytest.raises(WireError, match="bytes in the"):
        decode(data, bulk)


@given(
    st.recursive(st.none() | st.integers(-5, 5) | st.text(max_size=5) | st.binary(max_size=5), st.lists, max_leaves=9)
)
def test_well_formed_nonsense_raises_wire_errors_only(value: object) -> None:
    with pytest.raises(WireError):
        decode(msgspec.msgpack.encode({"type": "vote", "round_id": value, "digests": value}), False)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 1e300])
def test_numbers_out_of_bounds_are_refused_by_name(value: float) -> None:
    raw = {"type": "accept", "round_id": ROUND, "samples": 1, "tokens": 1, "upload_bytes_per_second": 1.0}
    with pytest.raises(WireError, match="loss_sum"):
        decode(msgspec.msgpack.encode({**raw, "loss_sum": value}), False)


def test_fields_of_a_newer_peer_are_ignored() -> None:
    raw = {"type": "goodbye", "reason": "x", "farewell_party": True}
    assert decode(msgspec.msgpack.encode(raw), False) == Goodbye(reason="x")


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(WireError):
        decode(b"\x91" * 5000, False)


def test_a_control_message_over_the_limit_is_refused_unread() -> None:
    with pytest.raises(WireError, match=f"exceeds {MAX_CONTROL_BYTES}"):
        decode(bytes(MAX_CONTROL_BYTES + 1), False)


def test_a_bulk_message_over_the_limit_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_BULK_BYTES", 100)
    with pytest.raises(WireError, match="101 bytes in the bulk lane exceeds 100"):
        decode(bytes(101), True)


def test_our_own_oversized_message_is_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_BULK_BYTES", 50)
    with pytest.raises(ValueError, match="a Part of"):
        encode(Part(round_id=ROUND, payload=bytes(100)))


def test_accept_keeps_its_bounds() -> None:
    good = Accept(round_id=ROUND, samples=1, tokens=1, loss_sum=0.0, upload_bytes_per_second=1e15)
    assert decode(encode(good), False) == good
    assert limits.MAX_BULK_BYTES > MAX_CONTROL_BYTES
