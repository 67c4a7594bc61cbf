"""Receipts, names and projects in the database, compared with what the PURE accounting says."""

import base64
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from engine.hub import catalogue, names, receipts
from engine.hub.config import sqlite_url
from engine.hub.leaderboard import read_board
from engine.hub.limits import MAX_RECEIPTS_PER_CONTRIBUTION, HubLimits
from engine.hub.models import Contribution
from engine.hub.protocol import NameClaim, SignedName, name_bytes
from engine.hub.refusals import Refusal
from engine.hub.upgrade import upgrade
from engine.identity.keys import Identity
from engine.ledger.accounting import LedgerRow, board, tally
from engine.ledger.receipts import SIGNING_CONTEXT, Receipt, SignedReceipt
from engine.ledger.signing import canonical_bytes, open_receipt, sign_receipt
from engine.manifest.schema import SignedManifest
from engine.manifest.verify import open_signed
from tests.helpers.hub_samples import SEQUENCE_LENGTH, identity, receipt, sealed

NOW = 1_700_000_000.0
PUBLISHER = identity(100)
ANN, BEN, CAT, DAN = TABLE = tuple(identity(number) for number in range(4))
SIGNED = sealed(PUBLISHER)
PROJECT = open_signed(SIGNED)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    engine = sa.create_engine(sqlite_url(tmp_path / "hub.db"))
    with engine.begin() as connection:
        upgrade(connection)
    with Session(engine) as opened:
        yield opened
    engine.dispose()


def put(session: Session, signed: SignedManifest = SIGNED, policy: Any = "open", **limits: Any) -> tuple[str, str]:
    return catalogue.publish(session, signed, policy, HubLimits(**limits), NOW)


def about(aggregator: Identity, contributor: Identity, **changes: Any) -> tuple[Receipt, SignedReceipt]:
    made = receipt(aggregator, contributor, TABLE, manifest_hash=PROJECT.manifest_hash, **changes)
    return made, sign_receipt(made, aggregator)


def post(session: Session, *signed: SignedReceipt, now: float = NOW) -> list[tuple[str, str]]:
    raw = [msgspec.Raw(msgspec.json.encode(one)) for one in signed]
    return [(result.status, result.reason) for result in receipts.store_all(session, raw, now)]


def stored_rows(session: Session) -> list[LedgerRow]:
    rows = session.scalars(sa.select(Contribution)).all()
    return sorted(
        msgspec.convert(
            {
                "manifest_hash": bytes.fromhex(row.project_id),
                "round_id": row.round_id,
                "contributor": row.contributor,
                **{name: getattr(row, name) for name in ("state", "reason", "tokens", "samples", "global_step")},
                "signers": row.signers,
                "quorum": row.quorum,
            },
            LedgerRow,
        )
        for row in rows
    )


def test_publishing_twice_changes_nothing(session: Session) -> None:
    assert put(session) == (PROJECT.project_id, "stored")
    assert put(session) == (PROJECT.project_id, "duplicate")
    projects, cursor = catalogue.page(session, None)
    assert [catalogue.signed_manifest_of(project) for project in projects] == [SIGNED]
    assert cursor is None


@pytest.mark.parametrize("field", ["payload", "public_key", "signature"])
def test_a_manifest_that_was_touched_is_refused(session: Session, field: str) -> None:
    data = bytearray(getattr(SIGNED, field))
    data[5] ^= 1
    with pytest.raises(Refusal) as caught:
        put(session, msgspec.structs.replace(SIGNED, **{field: bytes(data)}))
    assert caught.value.code == "bad_manifest"


def test_who_may_publish_and_how_much(session: Session) -> None:
    with pytest.raises(Refusal) as caught:
        put(session, policy=(ANN.peer_id,))
    assert caught.value.code == "not_allowed"
    put(session, policy=(PUBLISHER.peer_id,))
    with pytest.raises(Refusal) as caught:
        put(session, sealed(ANN, created_at=3.0))
    assert caught.value.code == "name_taken"
    with pytest.raises(Refusal) as caught:
        put(session, sealed(PUBLISHER, name="two"), max_projects_per_publisher=1)
    assert caught.value.code == "full"
    with pytest.raises(Refusal) as caught:
        put(session, sealed(ANN, name="two"), max_projects=1)
    assert caught.value.code == "full"
    put(session, sealed(PUBLISHER, created_at=2.0))
    assert len(catalogue.versions_of(session, "pocket-python", 10)) == 2
    assert len(catalogue.newest_of_each(session, 10)) == 1


def test_the_catalogue_comes_in_pages_of_bounded_size(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "MAX_CATALOGUE_PAGE_BYTES", 2 * len(SIGNED.payload) + 100)
    published = [put(session, sealed(PUBLISHER, name=f"project-{number}"))[0] for number in range(5)]
    found: list[str] = []
    cursor, pages = None, 0
    while True:
        projects, cursor = catalogue.page(session, cursor)
        found += [project.project_id for project in projects]
        pages += 1
        if cursor is None:
            break
    assert (found, pages) == (published[::-1], 3)


def test_each_posted_receipt_has_its_own_result(session: Session) -> None:
    put(session)
    _, good = about(BEN, ANN)
    stranger = receipt(BEN, ANN, TABLE, manifest_hash=b"\x09" * 32)
    forged = msgspec.structs.replace(about(CAT, ANN)[1], signature=bytes(64))
    assert post(
        session,
        good,
        good,
        forged,
        sign_receipt(stranger, BEN),
        about(ANN, ANN)[1],
        about(CAT, ANN, tokens=4 * SEQUENCE_LENGTH + 1)[1],
        about(BEN, ANN, committed_at=1.0)[1],
    ) == [
        ("stored", ""),
        ("duplicate", ""),
        ("rejected", "bad_signature"),
        ("rejected", "unknown_project"),
        ("rejected", "self_signed"),
        ("rejected", "over_bounds"),
        ("duplicate", ""),
    ]


@pytest.mark.parametrize("raw", [b"1", b"{}", b'{"payload":"!","signature":""}', b'{"payload":"AA=="}', b"[[[["])
def test_what_is_no_receipt_is_malformed(session: Session, raw: bytes) -> None:
    (result,) = receipts.store_all(session, [msgspec.Raw(raw)], NOW)
    assert (result.status, result.reason) == ("rejected", "malformed")


def test_a_receipt_under_another_signature_of_the_right_key_is_a_duplicate(session: Session) -> None:
    put(session)
    made, signed = about(BEN, ANN)
    payload = canonical_bytes(made)
    again = SignedReceipt(payload=payload, signature=BEN.sign(SIGNING_CONTEXT + payload))
    assert post(session, signed, again) == [("stored", ""), ("duplicate", "")]


def test_receipts_about_one_contribution_are_bounded(session: Session) -> None:
    put(session)
    strangers = [about(identity(1000 + n), ANN)[1] for n in range(MAX_RECEIPTS_PER_CONTRIBUTION + 1)]
    assert post(session, *strangers)[-2:] == [("stored", ""), ("rejected", "full")]


def test_the_database_says_what_the_export_adds_up_to(session: Session) -> None:
    """The hub's incremental rows equal `tally` over the receipts that it gives away, in any order of arrival."""
    put(session)
    dice = random.Random(5)
    lengths = {PROJECT.manifest_hash: SEQUENCE_LENGTH}
    made = [
        about(
            dice.choice(TABLE),
            dice.choice(TABLE),
            round_id=bytes([dice.randrange(12)]) * 16,
            tokens=dice.choice([96, 96, 96, 96, 64]),
            member_count=dice.choice([4, 4, 4, 4, 2]),
        )[1]
        for _ in range(150)
    ]
    for start in range(0, len(made), 10):
        post(session, *made[start : start + 10])
        entries, _ = receipts.export(session, PROJECT.project_id, 0, 1000)
        exported = [open_receipt(entry.receipt) for entry in entries]
        rows = tally(exported, lengths)
        assert stored_rows(session) == list(rows)
    assert {row.state.value for row in rows} == {"verified", "pending", "rejected"}
    shown = read_board(session, PROJECT.project_id)
    expected = board(rows, PROJECT.manifest_hash)
    assert [(r.peer_id, r.verified_tokens, r.pending_tokens, r.rejected_tokens, r.rounds) for r in shown.rows] == [
        (r.peer_id, r.verified_tokens, r.pending_tokens, r.rejected_tokens, r.rounds) for r in expected
    ]
    assert shown.peers_total == len(expected)
    assert shown.verified_tokens_total == sum(r.verified_tokens for r in expected)
    assert catalogue.verified_tokens(session, [PROJECT.project_id]) == {PROJECT.project_id: shown.verified_tokens_total}


def test_the_export_pages_through_everything_once(session: Session) -> None:
    put(session)
    signed = [about(BEN, ANN, round_id=bytes([n]) * 16)[1] for n in range(7)]
    post(session, *signed)
    found: list[SignedReceipt] = []
    after: int | None = 0
    while after is not None:
        entries, after = receipts.export(session, PROJECT.project_id, after, 3)
        found += [entry.receipt for entry in entries]
    assert found == signed


def test_the_board_of_the_last_days(session: Session) -> None:
    put(session)
    post(session, about(BEN, ANN)[1], about(CAT, ANN)[1], now=NOW)
    later = {"round_id": b"\x03" * 16, "tokens": 5}
    post(session, about(BEN, ANN, **later)[1], about(CAT, ANN, **later)[1], now=NOW + 10.0)
    assert read_board(session, PROJECT.project_id).rows[0].verified_tokens == 4 * SEQUENCE_LENGTH + 5
    assert read_board(session, PROJECT.project_id, since=NOW + 5.0).rows[0].verified_tokens == 5
    assert read_board(session, PROJECT.project_id, since=NOW + 20.0).rows == ()


def test_the_board_survives_the_largest_claims(session: Session) -> None:
    put(session)
    for number in range(20):
        claim = {"round_id": bytes([number]) * 16, "tokens": 2**40, "samples": 2**50}
        post(session, about(BEN, ANN, **claim)[1], about(CAT, ANN, **claim)[1])
    assert read_board(session, PROJECT.project_id).verified_tokens_total == 20 * 2**40


def named(peer: Identity, name: str, at: float, signer: Identity | None = None) -> SignedName:
    data = name_bytes(NameClaim(peer_id=peer.peer_id, name=name, at=at))
    return SignedName(peer_id=peer.peer_id, name=name, at=at, signature=(signer or peer).sign(data))


def test_names_are_signed_and_only_go_forward(session: Session) -> None:
    assert names.set_name(session, named(ANN, "Ann", 1.0), NOW) == "stored"
    assert names.set_name(session, named(ANN, "Ann", 1.0), NOW) == "duplicate"
    assert names.set_name(session, named(ANN, "Anna", 2.0), NOW) == "stored"
    with pytest.raises(Refusal) as caught:
        names.set_name(session, named(ANN, "Ann", 1.0), NOW)
    assert caught.value.code == "stale"
    with pytest.raises(Refusal) as caught:
        names.set_name(session, named(ANN, "Mallory", 3.0, signer=BEN), NOW)
    assert caught.value.code == "bad_signature"
    with pytest.raises(Refusal) as caught:
        names.set_name(session, msgspec.structs.replace(named(ANN, "Anna", 3.0), at=4.0), NOW)
    assert caught.value.code == "bad_signature"
    put(session)
    post(session, about(BEN, ANN)[1])
    assert [row.name for row in read_board(session, PROJECT.project_id).rows] == ["Anna"]
    assert names.set_name(session, named(ANN, "", 5.0), NOW) == "stored"
    assert [row.name for row in read_board(session, PROJECT.project_id).rows] == [""]


@pytest.mark.parametrize("name", ["a\nb", "\u202eevil", " Ann", "\x00", "zero\u200bwidth"])
def test_names_that_would_trick_a_reader_are_refused(session: Session, name: str) -> None:
    with pytest.raises(Refusal) as caught:
        names.set_name(session, named(ANN, name, 1.0), NOW)
    assert caught.value.code == "bad_request"


def test_a_name_dated_far_ahead_is_refused(session: Session) -> None:
    with pytest.raises(Refusal) as caught:
        names.set_name(session, named(ANN, "Ann", NOW + 2 * 86_400.0), NOW)
    assert caught.value.code == "bad_request"


def test_bytes_are_base64_in_json() -> None:
    _, signed = about(BEN, ANN)
    assert msgspec.json.decode(msgspec.json.encode(signed)) == {
        "payload": base64.b64encode(signed.payload).decode(),
        "signature": base64.b64encode(signed.signature).decode(),
    }
