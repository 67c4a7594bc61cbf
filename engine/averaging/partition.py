"""Partitions of the flat vector among a roll's members, and the checks on a roll that somebody else wrote."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from engine.averaging.codecs.int8 import QUANTISED_BLOCK_ELEMENTS as BLOCK_ELEMENTS
from engine.averaging.config import MAX_MEMBER_SAMPLES, RoundConfig
from engine.averaging.effects import Contribution, RoundSetup
from engine.averaging.planner import MAX_PARTITION_ELEMENTS, Claim, shares, shares_fault
from engine.transport.base import PeerId
from engine.wire.messages import MAX_MEMBERS, Accept, Begin, Member

LEAST_PARTITION_ELEMENTS: Final = 16_384
TARGET_PARTITIONS: Final = 256
"""With a rest for each of MAX_MEMBERS shares there are at most 320, within what a vote may list."""


def make_roll(
    answers: Sequence[tuple[PeerId, Contribution]], vector_length: int, max_members: int = MAX_MEMBERS
) -> tuple[Member, ...]:
    """The roll in ascending order of peer id, with each member's share of the vector.

    Raises:
        ValueError: nobody, too many, or a vector that these members cannot carry.
    """
    if len(answers) > max_members:
        raise ValueError(f"a roll of {len(answers)} exceeds {max_members}")
    ordered = sorted(answers, key=lambda answer: answer[0])
    plan = shares(vector_length, [_claim(contribution) for _, contribution in ordered])
    return tuple(
        Member(
            peer_id=peer,
            samples=contribution.samples,
            tokens=contribution.tokens,
            loss_sum=contribution.loss_sum,
            share=share,
            upload_bytes_per_second=contribution.upload_bytes_per_second,
            download_bytes_per_second=contribution.download_bytes_per_second,
        )
        for (peer, contribution), share in zip(ordered, plan, strict=True)
    )


def _claim(row: Contribution | Member) -> Claim:
    return Claim(row.upload_bytes_per_second, row.download_bytes_per_second, row.samples > 0)


@dataclass(frozen=True, slots=True)
class Partition:
    """A run [start, stop) of the vector that one member aggregates at once."""

    owner: int  # index in the roll
    start: int
    stop: int

    @property
    def length(self) -> int:
        """Elements."""
        return self.stop - self.start


def partition_elements(vector_length: int) -> int:
    """The largest partition: small enough that parts, averages and arithmetic flow side by side, large enough that few
    are needed. A multiple of 4096, so that a codec's blocks do not depend on it."""
    most = max(LEAST_PARTITION_ELEMENTS, -(-vector_length // TARGET_PARTITIONS))
    return -(-most // BLOCK_ELEMENTS) * BLOCK_ELEMENTS


def partitions_of(members: Sequence[Member]) -> tuple[Partition, ...]:
    """The shares in roll order, each cut into partitions of `partition_elements`, the last of a share shorter."""
    largest = partition_elements(sum(member.share for member in members))
    found: list[Partition] = []
    start = 0
    for owner, member in enumerate(members):
        end = start + member.share
        found += [Partition(owner, at, min(at + largest, end)) for at in range(start, end, largest)]
        start = end
    return tuple(found)


def claim_fault(row: Contribution | Accept | Member, config: RoundConfig) -> str:
    """What is impossible in a claimed contribution, or ""."""
    if not 0 <= row.samples <= MAX_MEMBER_SAMPLES:
        return f"{row.samples} samples are not within 0 to {MAX_MEMBER_SAMPLES}"
    if not 0 <= row.tokens <= row.samples * config.max_tokens_per_sample:
        return f"{row.tokens} tokens cannot come from {row.samples} samples"
    if not (math.isfinite(row.loss_sum) and row.loss_sum >= 0.0):
        return "the loss is not a number"
    return ""


def begin_fault(
    begin: Begin, setup: RoundSetup, config: RoundConfig, me: PeerId, mine: Contribution, max_members: int = MAX_MEMBERS
) -> str:
    """What is wrong with a leader's roll from where `me` stands, or ""."""
    members = begin.members
    ids = [member.peer_id for member in members]
    if begin.global_step != setup.global_step:
        return f"the roll is for step {begin.global_step}, the proposal was for {setup.global_step}"
    if not config.minimum_peers <= len(members) <= max_members:
        return f"a roll of {len(members)} is not within {config.minimum_peers} to {max_members}"
    if any(first >= second for first, second in itertools.pairwise(ids)):
        return "the roll is not in ascending order of peer ids"
    if setup.leader not in ids:
        return "the leader is not on its own roll"
    if me not in ids:
        return "the roll does not name this peer"
    own = members[ids.index(me)]
    if (own.samples, own.tokens, own.loss_sum) != (mine.samples, mine.tokens, mine.loss_sum):
        return "the roll alters this peer's contribution"
    line = (mine.upload_bytes_per_second, mine.download_bytes_per_second)
    if (own.upload_bytes_per_second, own.download_bytes_per_second) != line:
        return "the roll alters this peer's line"
    if fault := _sums_fault(members, config):
        return fault
    claims = [_claim(member) for member in members]
    return shares_fault(config.vector_length, claims, [member.share for member in members])


def _sums_fault(members: Sequence[Member], config: RoundConfig) -> str:
    for member in members:
        if fault := claim_fault(member, config):
            return f"{member.peer_id}: {fault}"
        if member.share > MAX_PARTITION_ELEMENTS:
            return f"a share of {member.share} exceeds {MAX_PARTITION_ELEMENTS}"
    if not any(member.samples for member in members):
        return "nobody on the roll contributes"
    total = sum(member.share for member in members)
    if total != config.vector_length:
        return f"the shares sum to {total}, the vector has {config.vector_length}"
    return ""
