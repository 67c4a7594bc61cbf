"""Whole swarms on the virtual clock: they train, lead, break, fork and come together again."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.averaging.config import RoundConfig
from engine.averaging.effects import Committed
from engine.averaging.states import RoundState
from engine.swarm.progress import SwarmView
from tests.helpers.sim_network import Fault, SimNetwork

CONFIG = RoundConfig(vector_length=600, minimum_peers=2, max_gradient_norm=1e3, max_tokens_per_sample=8)
TARGET = 60


def swarm(count: int, seed: int, fault: Fault | None = None) -> SimNetwork:
    net = SimNetwork(count, CONFIG, seed=seed, fault=fault)
    for peer in net.peers:
        peer.join_swarm(SwarmView(peer.id, TARGET, minimum_peers=2), rate=10 + 5 * peer.number)
    return net


def check_one_branch(net: SimNetwork, *, least_steps: int) -> None:
    """Every living peer is on one branch, give or take the round in flight, and their pasts are the same."""
    alive = [peer for peer in net.peers if not peer.dead]
    least = min(peer.step for peer in alive)
    assert least >= least_steps
    assert max(peer.step for peer in alive) - least <= 1
    shared = set.intersection(*(set(peer.applied) for peer in alive)) if alive else set()
    for step in shared:
        assert len({peer.applied[step] for peer in alive}) == 1


def test_a_calm_swarm_steps_together() -> None:
    net = swarm(4, seed=1)
    net.run(until=60.0)
    check_one_branch(net, least_steps=8)
    outcomes = [outcome for peer in net.peers for outcome in peer.history]
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    for outcome in outcomes:
        assert isinstance(outcome, Committed)
        assert outcome.result.samples >= TARGET * 0.8


@pytest.mark.parametrize("phase", [RoundState.GATHERING, RoundState.EXCHANGING, RoundState.VOTED, RoundState.COMMITTED])
@pytest.mark.parametrize("kind", ["kill", "freeze"])
@pytest.mark.parametrize("cut", [0, 1])
def test_a_swarm_outlives_any_one_of_its_members(phase: RoundState, kind: str, cut: int) -> None:
    for target in range(4):
        net = swarm(4, seed=target, fault=Fault(kind, target, phase, cut, seconds=20.0))
        net.run(until=80.0)
        check_one_branch(net, least_steps=8)


def test_a_swarm_cut_in_two_comes_together_on_one_branch() -> None:
    net = swarm(4, seed=5)
    for one in (0, 1):
        for other in (2, 3):
            net.at(10.0, lambda one=one, other=other: net.cut_link(one, other))
            net.at(40.0, lambda one=one, other=other: net.mend_link(one, other))
    net.run(until=39.0)
    halves = [{peer.weights_hash for peer in net.peers[:2]}, {peer.weights_hash for peer in net.peers[2:]}]
    assert not halves[0] & halves[1], "the halves went on alone"
    net.run(until=100.0)
    check_one_branch(net, least_steps=8)


def test_a_liar_who_claims_to_be_ahead_holds_nobody_up() -> None:
    net = swarm(4, seed=6)
    net.peers[3].step = 10**6
    net.peers[3].rate = 0
    honest = net.peers[:3]

    def refuse() -> None:
        net.peers[3].weights_hash = bytes([net.dice.randrange(256)]) * 32  # never what it said a moment ago
        net.at(net.now + 0.2, refuse)

    refuse()
    net.run(until=120.0)
    assert min(peer.step for peer in honest) >= 5
    assert max(peer.step for peer in honest) < 10**6


@settings(max_examples=8)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(3, 5),
    troubles=st.lists(
        st.tuples(st.sampled_from(["freeze", "cut"]), st.integers(0, 4), st.integers(0, 4), st.floats(1.0, 50.0)),
        max_size=5,
    ),
)
def test_after_any_troubles_there_is_one_branch(
    seed: int, count: int, troubles: list[tuple[str, int, int, float]]
) -> None:
    net = swarm(count, seed)
    for kind, first, second, at in troubles:
        one, other = first % count, second % count
        if kind == "freeze":
            net.at(at, lambda one=one: net.freeze(one, 15.0))
        elif one != other:
            net.at(at, lambda one=one, other=other: net.cut_link(one, other))
            net.at(at + 8.0, lambda one=one, other=other: net.mend_link(one, other))
    net.run(until=120.0)
    check_one_branch(net, least_steps=5)
