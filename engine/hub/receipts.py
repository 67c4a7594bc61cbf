"""Receipts into credit. Functions of a database session, run in the database's thread.

A receipt that is wrong by itself never enters the ledger. What enters is judged anew with every receipt about the same
contribution, by the same PURE function that anyone can run over the export.
"""

import hashlib
from collections.abc import Sequence

import msgspec
import sqlalchemy as sa
from sqlalchemy.orm import Session

from engine.hub.limits import MAX_RECEIPTS_PER_CONTRIBUTION
from engine.hub.models import Contribution, Project, StoredReceipt
from engine.hub.protocol import ReceiptEntry, ReceiptResult
from engine.ledger.accounting import LedgerRow, claim_of, fault_of, judge
from engine.ledger.receipts import Receipt, SignedReceipt
from engine.ledger.signing import BadReceiptSignature, MalformedReceipt, open_receipt

_DUPLICATE = ReceiptResult(status="duplicate")
_STORED = ReceiptResult(status="stored")


def store_all(session: Session, posted: Sequence[msgspec.Raw], now: float) -> tuple[ReceiptResult, ...]:
    """What became of each posted receipt, in order."""
    lengths: dict[str, int | None] = {}
    return tuple(_store(session, raw, lengths, now) for raw in posted)


def _store(session: Session, raw: msgspec.Raw, lengths: dict[str, int | None], now: float) -> ReceiptResult:
    try:
        signed = msgspec.json.decode(raw, type=SignedReceipt)
        receipt = open_receipt(signed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, MalformedReceipt):
        return _rejected("malformed")
    except BadReceiptSignature:
        return _rejected("bad_signature")
    project_id = receipt.manifest_hash.hex()
    if project_id not in lengths:
        lengths[project_id] = session.scalar(sa.select(Project.sequence_length).where(Project.project_id == project_id))
    sequence_length = lengths[project_id]
    if sequence_length is None:
        return _rejected("unknown_project")
    fault = fault_of(receipt, sequence_length)
    return _rejected(fault.value) if fault else _enter(session, signed, receipt, sequence_length, now)


def _rejected(reason: str) -> ReceiptResult:
    return ReceiptResult(status="rejected", reason=reason)


def _enter(
    session: Session, signed: SignedReceipt, receipt: Receipt, sequence_length: int, now: float
) -> ReceiptResult:
    """Store a sound receipt unless its aggregator said the same before; judge the contribution anew."""
    known = _receipts_about(session, receipt)
    if any(other.aggregator == receipt.aggregator and claim_of(other) == claim_of(receipt) for other in known):
        return _DUPLICATE
    if len(known) >= MAX_RECEIPTS_PER_CONTRIBUTION:
        return _rejected("full")
    project_id = receipt.manifest_hash.hex()
    session.add(
        StoredReceipt(
            project_id=project_id,
            round_id=receipt.round_id,
            contributor=receipt.contributor,
            receipt_hash=hashlib.sha256(signed.payload).digest(),
            payload=signed.payload,
            signature=signed.signature,
            received_at=now,
        )
    )
    _write_row(session, project_id, judge([*known, receipt], sequence_length), now)
    session.flush()
    return _STORED


def _receipts_about(session: Session, receipt: Receipt) -> list[Receipt]:
    payloads = session.scalars(
        sa.select(StoredReceipt.payload).where(
            StoredReceipt.project_id == receipt.manifest_hash.hex(),
            StoredReceipt.round_id == receipt.round_id,
            StoredReceipt.contributor == receipt.contributor,
        )
    )
    return [msgspec.msgpack.decode(payload, type=Receipt) for payload in payloads]


def _write_row(session: Session, project_id: str, row: LedgerRow, now: float) -> None:
    stored = session.get(Contribution, (project_id, row.round_id, row.contributor))
    if stored is None:
        stored = Contribution(
            project_id=project_id, round_id=row.round_id, contributor=row.contributor, first_received_at=now
        )
        session.add(stored)
    stored.state, stored.reason = row.state.value, row.reason.value
    stored.tokens, stored.samples, stored.global_step = row.tokens, row.samples, row.global_step
    stored.signers, stored.quorum = row.signers, row.quorum


def export(session: Session, project_id: str, after: int, count: int) -> tuple[tuple[ReceiptEntry, ...], int | None]:
    """Up to `count` receipts behind the cursor `after`, oldest first; and the cursor to go on from, None at the end."""
    stored = session.scalars(
        sa.select(StoredReceipt)
        .where(StoredReceipt.project_id == project_id, StoredReceipt.sequence > after)
        .order_by(StoredReceipt.sequence)
        .limit(count + 1)
    ).all()
    entries = tuple(
        ReceiptEntry(receipt=SignedReceipt(payload=row.payload, signature=row.signature), received_at=row.received_at)
        for row in stored[:count]
    )
    return entries, stored[count - 1].sequence if len(stored) > count else None
