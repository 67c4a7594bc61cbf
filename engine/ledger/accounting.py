"""PURE: from receipts to credit. Anyone who holds the receipts gets the same rows. Spec: docs/specs/receipts.md."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from engine.ledger.receipts import Receipt

MAX_TOKENS_PER_RECEIPT: Final = 2**40
"""One peer's tokens in one round. Keeps the sums of eight million rows within 64 bits."""

NO_BOUNDS: Final[Mapping[bytes, int]] = {}


class CreditState(StrEnum):
    """What a contribution counts as."""

    VERIFIED = "verified"
    PENDING = "pending"
    REJECTED = "rejected"


class RejectReason(StrEnum):
    """Why a contribution, or a single receipt, does not count."""

    NONE = ""
    CONFLICT = "conflict"  # signed receipts about one contribution say different things
    SELF_SIGNED = "self_signed"  # the contributor vouches for itself
    OVER_BOUNDS = "over_bounds"  # more tokens than the samples can hold


class LedgerRow(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One peer's contribution to one round, and what the receipts about it add up to.

    Of a row in conflict, the figures are those of the largest claim.
    """

    manifest_hash: bytes
    round_id: bytes
    contributor: str
    state: CreditState
    reason: RejectReason
    tokens: int
    samples: int
    global_step: int
    signers: int  # distinct aggregators whose receipts count
    quorum: int  # how many make it verified


class BoardRow(msgspec.Struct, frozen=True, kw_only=True):
    """One peer's sums in one project."""

    peer_id: str
    verified_tokens: int
    pending_tokens: int
    rejected_tokens: int
    rounds: int  # verified ones


Key: TypeAlias = tuple[bytes, bytes, str]
Claim: TypeAlias = tuple[int, int, int, int, bytes]


def key_of(receipt: Receipt) -> Key:
    """What a receipt is about: (project, round, contributor)."""
    return (receipt.manifest_hash, receipt.round_id, receipt.contributor)


def claim_of(receipt: Receipt) -> Claim:
    """What a receipt says about it, in an order in which the larger claim is the one with more tokens."""
    return (receipt.tokens, receipt.samples, receipt.global_step, receipt.member_count, receipt.members_hash)


def quorum_of(member_count: int) -> int:
    """Receipts that verify a contribution: half of the other members, rounded up, at least one."""
    return max(1, member_count // 2)


def fault_of(receipt: Receipt, sequence_length: int | None = None) -> RejectReason:
    """What is wrong with a receipt by itself, whatever others say; `NONE` if nothing.

    `sequence_length` is the project's, in tokens a sample; `None` checks the absolute bound only.
    """
    if receipt.aggregator == receipt.contributor:
        return RejectReason.SELF_SIGNED
    if receipt.tokens > MAX_TOKENS_PER_RECEIPT:
        return RejectReason.OVER_BOUNDS
    if sequence_length is not None and receipt.tokens > receipt.samples * sequence_length:
        return RejectReason.OVER_BOUNDS
    return RejectReason.NONE


def tally(receipts: Iterable[Receipt], sequence_lengths: Mapping[bytes, int] = NO_BOUNDS) -> tuple[LedgerRow, ...]:
    """The rows that `receipts` add up to, sorted; order and repetition of the receipts do not matter.

    The caller has checked the signatures. `sequence_lengths` maps a manifest's hash to its tokens a sample.
    """
    grouped: defaultdict[Key, list[Receipt]] = defaultdict(list)
    for receipt in receipts:
        grouped[key_of(receipt)].append(receipt)
    return tuple(judge(grouped[key], sequence_lengths.get(key[0])) for key in sorted(grouped))


def judge(receipts: Iterable[Receipt], sequence_length: int | None = None) -> LedgerRow:
    """The row of one contribution. All `receipts` have the same key; there is at least one.

    A receipt that is wrong by itself cannot harm or help one that is not: it decides the row only where it is alone.

    Raises:
        ValueError: no receipt, or receipts about different contributions.
    """
    every = tuple(receipts)
    if len({key_of(receipt) for receipt in every}) != 1:
        raise ValueError("a row is about exactly one contribution")
    sound = [receipt for receipt in every if not fault_of(receipt, sequence_length)]
    if not sound:
        largest = max(every, key=claim_of)
        reasons = {fault_of(receipt, sequence_length) for receipt in every}
        reason = RejectReason.SELF_SIGNED if RejectReason.SELF_SIGNED in reasons else RejectReason.OVER_BOUNDS
        return _row(largest, CreditState.REJECTED, reason, signers=0)
    largest = max(sound, key=claim_of)
    signers = len({receipt.aggregator for receipt in sound})
    if len({claim_of(receipt) for receipt in sound}) > 1:
        return _row(largest, CreditState.REJECTED, RejectReason.CONFLICT, signers)
    enough = signers >= quorum_of(largest.member_count)
    return _row(largest, CreditState.VERIFIED if enough else CreditState.PENDING, RejectReason.NONE, signers)


def board(rows: Iterable[LedgerRow], manifest_hash: bytes) -> tuple[BoardRow, ...]:
    """The leaderboard of one project: most verified tokens first, then pending ones, then by id."""
    sums: defaultdict[str, dict[CreditState, int]] = defaultdict(lambda: dict.fromkeys(CreditState, 0))
    rounds: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        if row.manifest_hash == manifest_hash:
            sums[row.contributor][row.state] += row.tokens
            rounds[row.contributor] += row.state is CreditState.VERIFIED
    board_rows = [
        BoardRow(
            peer_id=peer_id,
            verified_tokens=total[CreditState.VERIFIED],
            pending_tokens=total[CreditState.PENDING],
            rejected_tokens=total[CreditState.REJECTED],
            rounds=rounds[peer_id],
        )
        for peer_id, total in sums.items()
    ]
    return tuple(sorted(board_rows, key=lambda row: (-row.verified_tokens, -row.pending_tokens, row.peer_id)))


def _row(claim: Receipt, state: CreditState, reason: RejectReason, signers: int) -> LedgerRow:
    return LedgerRow(
        manifest_hash=claim.manifest_hash,
        round_id=claim.round_id,
        contributor=claim.contributor,
        state=state,
        reason=reason,
        tokens=claim.tokens,
        samples=claim.samples,
        global_step=claim.global_step,
        signers=signers,
        quorum=quorum_of(claim.member_count),
    )
