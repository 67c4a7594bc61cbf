"""Signed receipts: only the canonical bytes, only by the aggregator."""

import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ledger.receipts import SIGNING_CONTEXT, Receipt, SignedReceipt
from engine.ledger.signing import (
    BadReceiptSignature,
    MalformedReceipt,
    ReceiptError,
    canonical_bytes,
    members_hash,
    open_receipt,
    sign_receipt,
)
from tests.helpers.hub_samples import identity, receipt

ANN, BEN = identity(0), identity(1)
GOOD = receipt(BEN, ANN, (ANN, BEN))


def signed_by_ben(payload: bytes) -> SignedReceipt:
    return SignedReceipt(payload=payload, signature=BEN.sign(SIGNING_CONTEXT + payload))


def test_what_was_signed_comes_out() -> None:
    assert open_receipt(sign_receipt(GOOD, BEN)) == GOOD


def test_only_the_aggregator_signs() -> None:
    with pytest.raises(ValueError, match="aggregator"):
        sign_receipt(GOOD, ANN)
    with pytest.raises(BadReceiptSignature):
        open_receipt(
            SignedReceipt(payload=canonical_bytes(GOOD), signature=ANN.sign(SIGNING_CONTEXT + canonical_bytes(GOOD)))
        )


def test_a_signature_without_the_context_does_not_count() -> None:
    payload = canonical_bytes(GOOD)
    with pytest.raises(BadReceiptSignature):
        open_receipt(SignedReceipt(payload=payload, signature=BEN.sign(payload)))


def test_another_encoding_of_the_same_receipt_is_refused() -> None:
    fields = msgspec.structs.asdict(GOOD)
    backwards = msgspec.msgpack.encode(dict(reversed(fields.items())))
    assert msgspec.msgpack.decode(backwards, type=Receipt) == GOOD
    with pytest.raises(MalformedReceipt, match="canonical"):
        open_receipt(signed_by_ben(backwards))
    with pytest.raises(MalformedReceipt, match="canonical"):
        open_receipt(signed_by_ben(msgspec.msgpack.encode({**fields, "bonus": 1})))


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": -1},
        {"tokens": 2**54},
        {"member_count": 0},
        {"round_id": b"short"},
        {"manifest_hash": b""},
        {"contributor": "A" * 52},
        {"committed_at": float("nan")},
        {"samples": 1.5},
    ],
)
def test_fields_out_of_bounds_are_refused(change: dict[str, object]) -> None:
    payload = msgspec.msgpack.encode({**msgspec.structs.asdict(GOOD), **change})
    with pytest.raises(MalformedReceipt):
        open_receipt(signed_by_ben(payload))


def test_an_aggregator_id_that_is_no_canonical_key_is_refused() -> None:
    payload = canonical_bytes(msgspec.structs.replace(GOOD, aggregator="a" * 51 + "b"))
    with pytest.raises(MalformedReceipt, match="not a key"):
        open_receipt(signed_by_ben(payload))


@given(st.binary(max_size=400))
def test_random_bytes_are_refused(payload: bytes) -> None:
    with pytest.raises(ReceiptError):
        open_receipt(signed_by_ben(payload))


@given(st.integers(0, len(canonical_bytes(GOOD)) - 1), st.integers(1, 255))
def test_any_changed_byte_is_noticed(position: int, difference: int) -> None:
    signed = sign_receipt(GOOD, BEN)
    changed = bytearray(signed.payload)
    changed[position] ^= difference
    with pytest.raises(ReceiptError):
        open_receipt(SignedReceipt(payload=bytes(changed), signature=signed.signature))


def test_members_hash_is_over_the_ids_in_roll_order() -> None:
    expected = hashlib.sha256((ANN.peer_id + BEN.peer_id).encode()).digest()
    assert members_hash([ANN.peer_id, BEN.peer_id]) == expected
    assert members_hash([BEN.peer_id, ANN.peer_id]) != expected
