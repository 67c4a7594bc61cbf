"""Receipts: an aggregator's signature under "this peer's work was accepted into that committed round".

Spec: docs/specs/receipts.md.
"""

from typing import Annotated, Final

import msgspec

from engine.wire.messages import Count, HashBytes, PeerIdText, RoundId, Signature

SIGNING_CONTEXT: Final = b"potluck receipt v1\n"
"""Prefix of the signed bytes, so that a receipt's signature can never stand for anything else."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What the aggregator says. Its canonical bytes are the msgpack encoding of the fields in this order."""

    manifest_hash: HashBytes
    round_id: RoundId
    global_step: Count  # the step that the round started from
    aggregator: PeerIdText
    contributor: PeerIdText
    tokens: Count
    samples: Count
    member_count: Annotated[int, msgspec.Meta(ge=1, le=2**31)]
    members_hash: HashBytes  # SHA-256 over the roll's peer ids in roll order, each 52 ASCII bytes
    committed_at: Annotated[float, msgspec.Meta(ge=0.0)]  # the aggregator's clock, informative only


class SignedReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """Travels to the hub."""

    payload: Annotated[bytes, msgspec.Meta(max_length=1024)]  # msgpack of a Receipt
    signature: Signature  # by the aggregator's key over SIGNING_CONTEXT + payload
