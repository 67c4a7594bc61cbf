"""When the leader's count commits: more than half of the roll behind its own digests, and nobody to wait for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.averaging.effects import Contribution
from engine.averaging.exchange import Ballot, Verdict
from engine.averaging.partition import make_roll
from tests.helpers.sim_network import peer_id

MINE, OTHER = (b"a" * 32,), (b"b" * 32,)


def ballot(count: int, votes: int) -> Ballot:
    result = Ballot(make_roll([(peer_id(n), Contribution(1, 1, 1.0)) for n in range(count)], 10))
    for number in range(votes):
        assert result.vote(peer_id(number), MINE)
    return result


@pytest.mark.parametrize(("count", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (64 // 4, 9)])
def test_the_smallest_majority(count: int, needed: int) -> None:
    assert ballot(count, needed).verdict(MINE, set(), overdue=True) is Verdict.COMMIT
    assert ballot(count, needed - 1).verdict(MINE, set(), overdue=True) is Verdict.HOPELESS


def test_a_live_silent_member_is_waited_for_and_a_lost_one_is_not() -> None:
    assert ballot(4, 3).verdict(MINE, set(), overdue=False) is Verdict.WAIT
    assert ballot(4, 3).verdict(MINE, {peer_id(3)}, overdue=False) is Verdict.COMMIT
    assert ballot(4, 2).verdict(MINE, {peer_id(2), peer_id(3)}, overdue=False) is Verdict.HOPELESS


def test_without_a_result_of_its_own_the_leader_waits_as_long_as_there_is_hope() -> None:
    assert ballot(3, 2).verdict(None, {peer_id(2)}, overdue=False) is Verdict.WAIT
    hopeless = ballot(3, 0)
    assert hopeless.abstain(peer_id(1))
    assert hopeless.abstain(peer_id(2))
    assert hopeless.verdict(None, set(), overdue=False) is Verdict.HOPELESS


def test_the_vote_of_one_that_died_since_counts() -> None:
    assert ballot(3, 2).verdict(MINE, {peer_id(1), peer_id(2)}, overdue=False) is Verdict.COMMIT


@given(st.lists(st.sampled_from(["mine", "other", "abstain", "silent", "lost"]), min_size=1, max_size=9), st.booleans())
def test_every_count(words: list[str], overdue: bool) -> None:
    count = ballot(len(words), 0)
    lost = set()
    for number, word in enumerate(words):
        if word in ("mine", "other"):
            count.vote(peer_id(number), MINE if word == "mine" else OTHER)
        elif word == "abstain":
            count.abstain(peer_id(number))
        elif word == "lost":
            lost.add(peer_id(number))
    verdict = count.verdict(MINE, lost, overdue)
    majority = 2 * words.count("mine") > len(words)
    still_possible = 2 * (words.count("mine") + words.count("silent")) > len(words)
    waiting = "silent" in words and not overdue
    if verdict is Verdict.COMMIT:
        assert majority
        assert not waiting
    elif verdict is Verdict.WAIT:
        assert waiting
        assert still_possible
    else:
        assert not (majority and not waiting)
        assert not (still_possible and waiting)
