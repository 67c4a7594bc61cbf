"""Making and opening signed receipts. Spec: docs/specs/receipts.md."""

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from engine.core.errors import PeerError
from engine.identity.keys import Identity, public_key_of
from engine.identity.signing import verify
from engine.ledger.receipts import SIGNING_CONTEXT, Receipt, SignedReceipt

MAX_DETAIL_CHARS: Final = 200

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Receipt)


class ReceiptError(PeerError):
    """A signed receipt is refused; the text says why."""


class MalformedReceipt(ReceiptError):
    """The payload is not the canonical encoding of a receipt."""


class BadReceiptSignature(ReceiptError):
    """The aggregator named in the receipt did not sign it."""


def canonical_bytes(receipt: Receipt) -> bytes:
    """The one encoding of a receipt that is signed."""
    return _encoder.encode(receipt)


def members_hash(peer_ids: Iterable[str]) -> bytes:
    """SHA-256 over a round's roll: the peer ids in roll order, 52 ASCII bytes each. 32 bytes."""
    return hashlib.sha256("".join(peer_ids).encode("ascii")).digest()


def sign_receipt(receipt: Receipt, identity: Identity) -> SignedReceipt:
    """Sign as the aggregator.

    Raises:
        ValueError: `identity` is not the receipt's aggregator.
    """
    if identity.peer_id != receipt.aggregator:
        raise ValueError("a receipt is signed by its aggregator")
    payload = canonical_bytes(receipt)
    return SignedReceipt(payload=payload, signature=identity.sign(SIGNING_CONTEXT + payload))


def open_receipt(signed: SignedReceipt) -> Receipt:
    """What the aggregator signed.

    Raises:
        MalformedReceipt: not a receipt within its bounds, or not in its canonical encoding.
        BadReceiptSignature: the signature is not the aggregator's.
    """
    try:
        receipt = _decoder.decode(signed.payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedReceipt(f"the receipt cannot be read: {str(error)[:MAX_DETAIL_CHARS]}") from error
    # Two encodings of one receipt would be two receipts to whoever compares bytes.
    if canonical_bytes(receipt) != signed.payload:
        raise MalformedReceipt("the receipt is not in its canonical encoding")
    try:
        public_key = public_key_of(receipt.aggregator)
    except ValueError as error:
        raise MalformedReceipt("the aggregator's id is not a key") from error
    if not verify(public_key, SIGNING_CONTEXT + signed.payload, signed.signature):
        raise BadReceiptSignature("the aggregator named in the receipt did not sign it")
    return receipt
