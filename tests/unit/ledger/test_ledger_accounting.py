"""What receipts add up to, whatever their order and however often they come."""

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ledger.accounting import (
    MAX_TOKENS_PER_RECEIPT,
    CreditState,
    RejectReason,
    board,
    fault_of,
    judge,
    quorum_of,
    tally,
)
from engine.ledger.receipts import Receipt
from tests.helpers.hub_samples import SEQUENCE_LENGTH, identity, receipt

ANN, BEN, CAT, DAN = (identity(number) for number in range(4))
TABLE = (ANN, BEN, CAT, DAN)
LENGTHS = {b"\x01" * 32: SEQUENCE_LENGTH}


@pytest.mark.parametrize(("members", "quorum"), [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (64, 32)])
def test_quorum_is_half_of_the_others_rounded_up(members: int, quorum: int) -> None:
    assert quorum_of(members) == quorum


def test_one_of_three_others_leaves_it_pending_and_two_verify_it() -> None:
    first, second = receipt(BEN, ANN, TABLE), receipt(CAT, ANN, TABLE)
    (row,) = tally([first], LENGTHS)
    assert (row.state, row.reason, row.signers, row.quorum) == (CreditState.PENDING, RejectReason.NONE, 1, 2)
    (row,) = tally([first, second], LENGTHS)
    assert (row.state, row.tokens, row.samples, row.global_step) == (CreditState.VERIFIED, 4 * SEQUENCE_LENGTH, 4, 7)


def test_the_same_aggregator_counts_once_whatever_its_clock_says() -> None:
    (row,) = tally([receipt(BEN, ANN, TABLE), receipt(BEN, ANN, TABLE, committed_at=1.0)], LENGTHS)
    assert (row.state, row.signers) == (CreditState.PENDING, 1)


@pytest.mark.parametrize(
    "change", [{"tokens": 5}, {"samples": 9}, {"global_step": 8}, {"member_count": 3}, {"members_hash": b"\x09" * 32}]
)
def test_receipts_that_disagree_reject_the_contribution(change: dict[str, object]) -> None:
    agreeing = [receipt(BEN, ANN, TABLE), receipt(CAT, ANN, TABLE)]
    (row,) = tally([*agreeing, receipt(DAN, ANN, TABLE, **change)], LENGTHS)
    assert (row.state, row.reason) == (CreditState.REJECTED, RejectReason.CONFLICT)


def test_an_aggregator_that_contradicts_itself_is_a_conflict_too() -> None:
    (row,) = tally([receipt(BEN, ANN, TABLE), receipt(BEN, ANN, TABLE, tokens=1)], LENGTHS)
    assert row.reason is RejectReason.CONFLICT
    assert row.tokens == 4 * SEQUENCE_LENGTH  # the largest claim


def test_nobody_vouches_for_itself() -> None:
    (row,) = tally([receipt(ANN, ANN, TABLE)], LENGTHS)
    assert (row.state, row.reason, row.signers) == (CreditState.REJECTED, RejectReason.SELF_SIGNED, 0)


def test_more_tokens_than_the_samples_hold_are_refused() -> None:
    exact, over = receipt(BEN, ANN, TABLE), receipt(BEN, ANN, TABLE, tokens=4 * SEQUENCE_LENGTH + 1)
    assert fault_of(exact, SEQUENCE_LENGTH) is RejectReason.NONE
    assert fault_of(over, SEQUENCE_LENGTH) is RejectReason.OVER_BOUNDS
    (row,) = tally([over], LENGTHS)
    assert (row.state, row.reason) == (CreditState.REJECTED, RejectReason.OVER_BOUNDS)


def test_the_absolute_bound_holds_without_a_manifest() -> None:
    assert fault_of(receipt(BEN, ANN, TABLE, tokens=MAX_TOKENS_PER_RECEIPT)) is RejectReason.NONE
    assert fault_of(receipt(BEN, ANN, TABLE, tokens=MAX_TOKENS_PER_RECEIPT + 1)) is RejectReason.OVER_BOUNDS


def test_a_receipt_wrong_by_itself_neither_harms_nor_helps_sound_ones() -> None:
    sound = [receipt(BEN, ANN, TABLE), receipt(CAT, ANN, TABLE)]
    wrong = [receipt(ANN, ANN, TABLE), receipt(DAN, ANN, TABLE, tokens=10**9)]
    assert tally([*sound, *wrong], LENGTHS) == tally(sound, LENGTHS)


def test_a_row_is_about_one_contribution() -> None:
    with pytest.raises(ValueError, match="exactly one"):
        judge([receipt(BEN, ANN, TABLE), receipt(ANN, BEN, TABLE)])
    with pytest.raises(ValueError, match="exactly one"):
        judge([])


def test_board_sums_rounds_and_sorts() -> None:
    pair = (ANN, BEN)
    receipts = [
        receipt(BEN, ANN, pair, tokens=10),
        receipt(BEN, ANN, pair, tokens=20, round_id=b"\x03" * 16),
        receipt(ANN, BEN, pair, tokens=40),
        receipt(ANN, BEN, TABLE, tokens=7, round_id=b"\x04" * 16),
        receipt(ANN, CAT, TABLE, tokens=1),
        receipt(BEN, CAT, TABLE, tokens=2),
        receipt(BEN, DAN, pair, tokens=99, manifest_hash=b"\x05" * 32),
    ]
    rows = board(tally(receipts), b"\x01" * 32)
    assert [(r.peer_id, r.verified_tokens, r.pending_tokens, r.rejected_tokens, r.rounds) for r in rows] == [
        (BEN.peer_id, 40, 7, 0, 1),
        (ANN.peer_id, 30, 0, 0, 2),
        (CAT.peer_id, 0, 0, 2, 0),
    ]


PEERS = [member.peer_id for member in TABLE]
RECEIPTS = st.builds(
    Receipt,
    manifest_hash=st.sampled_from([b"\x01" * 32, b"\x05" * 32]),
    round_id=st.sampled_from([b"\x02" * 16, b"\x03" * 16]),
    global_step=st.sampled_from([7, 7, 7, 8]),
    aggregator=st.sampled_from(PEERS),
    contributor=st.sampled_from(PEERS[:2]),
    tokens=st.sampled_from([64, 64, 64, 128, 10**6]),
    samples=st.sampled_from([4, 4, 4, 5]),
    member_count=st.sampled_from([4, 4, 4, 2]),
    members_hash=st.just(b"\x06" * 32),
    committed_at=st.sampled_from([0.0, 1.0]),
)


@given(st.lists(RECEIPTS, max_size=24), st.integers(0, 2**32))
def test_order_and_repetition_do_not_matter(receipts: list[Receipt], seed: int) -> None:
    dice = random.Random(seed)
    repeated = receipts + dice.choices(receipts, k=len(receipts)) if receipts else []
    dice.shuffle(repeated)
    assert tally(repeated, LENGTHS) == tally(receipts, LENGTHS)


@given(st.lists(RECEIPTS, max_size=24))
def test_no_receipt_of_one_peer_alone_makes_a_row_of_four_verified(receipts: list[Receipt]) -> None:
    mine = [msgspec.structs.replace(r, aggregator=PEERS[2], member_count=4) for r in receipts]
    assert all(row.state is not CreditState.VERIFIED for row in tally(mine, LENGTHS))


@given(st.lists(RECEIPTS, max_size=24), RECEIPTS)
def test_a_rejection_for_conflict_is_final(receipts: list[Receipt], more: Receipt) -> None:
    def conflicts(rows: list[Receipt]) -> set[tuple[bytes, bytes, str]]:
        return {
            (r.manifest_hash, r.round_id, r.contributor)
            for r in tally(rows, LENGTHS)
            if r.reason is RejectReason.CONFLICT
        }

    assert conflicts(receipts) <= conflicts([*receipts, more])


@given(st.lists(RECEIPTS, max_size=24))
def test_the_board_holds_every_token_of_every_row_once(receipts: list[Receipt]) -> None:
    rows = tally(receipts, LENGTHS)
    for manifest_hash in (b"\x01" * 32, b"\x05" * 32):
        sums = [r.verified_tokens + r.pending_tokens + r.rejected_tokens for r in board(rows, manifest_hash)]
        assert sum(sums) == sum(row.tokens for row in rows if row.manifest_hash == manifest_hash)
