"""A member checks the roll that its leader wrote."""

import itertools
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.averaging.config import MAX_MEMBER_SAMPLES, RoundConfig, RoundDeadlines, deadlines_for
from engine.averaging.effects import Contribution, RoundSetup
from engine.averaging.partition import begin_fault, make_roll, partition_elements, partitions_of
from engine.averaging.planner import MAX_PARTITION_ELEMENTS
from engine.wire.messages import MAX_MEMBERS, MAX_PARTITIONS, Begin, Member
from tests.helpers.sim_network import peer_id

LENGTH = 50_000
CONFIG = RoundConfig(vector_length=LENGTH, minimum_peers=2, max_gradient_norm=10.0, max_tokens_per_sample=8)
MINE = Contribution(4, 32, 50.0)
SETUP = RoundSetup(b"r" * 16, peer_id(0), 7, bytes(32))


def roll() -> tuple[Member, ...]:
    return make_roll(
        [(peer_id(2), Contribution(0, 0, 0.0)), (peer_id(0), Contribution(5, 40, 60.0)), (peer_id(1), MINE)], LENGTH
    )


def begin(members: tuple[Member, ...], step: int = 7) -> Begin:
    return Begin(round_id=b"r" * 16, global_step=step, members=members)


def altered(index: int, **changes: object) -> tuple[Member, ...]:
    members = list(roll())
    members[index] = msgspec.structs.replace(members[index], **changes)
    return tuple(members)


def test_an_honest_roll_is_sound_and_its_partitions_are_consecutive() -> None:
    members = roll()
    assert begin_fault(begin(members), SETUP, CONFIG, peer_id(1), MINE) == ""
    assert [member.peer_id for member in members] == [peer_id(0), peer_id(1), peer_id(2)]
    partitions = partitions_of(members)
    assert partitions[0].start == 0
    assert partitions[-1].stop == LENGTH
    assert all(first.stop == second.start for first, second in itertools.pairwise(partitions))


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=MAX_MEMBERS).filter(any))
def test_shares_are_cut_into_partitions_that_a_vote_can_list(shares: list[int]) -> None:
    members = [Member(peer_id=peer_id(0), samples=1, tokens=1, loss_sum=0.0, share=share) for share in shares]
    partitions = partitions_of(members)
    assert len(partitions) <= MAX_PARTITIONS
    assert max(partition.length for partition in partitions) <= partition_elements(sum(shares))
    assert min(partition.length for partition in partitions) > 0
    for owner, share in enumerate(shares):
        assert sum(partition.length for partition in partitions if partition.owner == owner) == share


@pytest.mark.parametrize(("length", "largest"), [(1, 16_384), (4_000_000, 16_384), (5_000_000, 20_480)])
def test_the_size_of_partitions(length: int, largest: int) -> None:
    assert partition_elements(length) == largest


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: begin(roll(), step=8), "step 8"),
        (lambda: begin(roll()[1:2]), "within 2 to 64"),
        (lambda: begin(roll()[::-1]), "ascending"),
        (lambda: begin((*roll()[:2], roll()[1])), "ascending"),
        (lambda: begin(roll()[1:]), "leader is not"),
        (lambda: begin((roll()[0], roll()[2])), "does not name this peer"),
        (lambda: begin(altered(1, samples=5)), "alters this peer's"),
        (lambda: begin(altered(1, tokens=31)), "alters this peer's"),
        (lambda: begin(altered(1, loss_sum=1.0)), "alters this peer's"),
        (lambda: begin(altered(0, tokens=41)), "cannot come from"),
        (lambda: begin(altered(0, samples=MAX_MEMBER_SAMPLES + 1)), "samples are not within"),
        (lambda: begin(altered(0, loss_sum=float("nan"))), "not a number"),
        (lambda: begin(altered(0, share=roll()[0].share + 1)), "sum to 50001"),
        (lambda: begin(altered(0, share=MAX_PARTITION_ELEMENTS + 1)), "exceeds"),
    ],
)
def test_a_bad_roll_is_named(make: Callable[[], Begin], expected: str) -> None:
    assert expected in begin_fault(make(), SETUP, CONFIG, peer_id(1), MINE)


def test_a_roll_without_contributors_is_refused() -> None:
    nobody = Contribution(0, 0, 0.0)
    members = make_roll([(peer_id(0), nobody), (peer_id(1), nobody)], LENGTH)
    assert "nobody" in begin_fault(begin(members), SETUP, CONFIG, peer_id(1), nobody)


def test_too_many_members_are_refused() -> None:
    with pytest.raises(ValueError, match="exceeds 2"):
        make_roll([(peer_id(n), MINE) for n in range(3)], LENGTH, max_members=2)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"gather_seconds": 15.0}, "gather_seconds must be less than begin_seconds"),
        ({"parts_seconds": 45.0}, "parts_seconds must be less than averages_seconds"),
        ({"averages_seconds": 60.0}, "averages_seconds must be less than votes_seconds"),
        ({"votes_seconds": 65.0}, "votes_seconds must be less than commit_seconds"),
        ({"echo_grace_seconds": 0.0}, "positive"),
        ({"commit_seconds": float("inf")}, "positive"),
    ],
)
def test_deadlines_that_contradict_each_other_are_refused(changes: dict[str, float], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        RoundDeadlines(**changes)


def test_deadlines_grow_with_the_vector() -> None:
    small, large = deadlines_for(1000), deadlines_for(10_000_000)
    assert large.parts_seconds > small.parts_seconds
    assert large.averages_seconds - large.parts_seconds > 40_000_000 / 64_000
    with pytest.raises(ValueError, match="positive rate"):
        deadlines_for(1000, 0.0)


@pytest.mark.parametrize(
    "changes",
    [{"vector_length": 0}, {"minimum_peers": 0}, {"max_tokens_per_sample": 0}, {"max_gradient_norm": 0.0}],
)
def test_a_config_that_makes_no_sense_is_refused(changes: dict[str, float]) -> None:
    good = {"vector_length": 1, "minimum_peers": 1, "max_gradient_norm": 1.0, "max_tokens_per_sample": 1}
    with pytest.raises(ValueError, match="must be"):
        RoundConfig(**{**good, **changes})  # type: ignore[arg-type]
