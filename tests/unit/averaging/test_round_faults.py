"""The fault matrix: every phase, every role, killed, frozen and slow, in rounds of two to five."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.averaging.config import RoundConfig
from engine.averaging.states import RoundState
from tests.helpers.sim_network import Fault, SimNetwork, peer_id, reference_mean

ONE_AGGREGATOR = RoundConfig(vector_length=5_000, minimum_peers=2, max_gradient_norm=1e3, max_tokens_per_sample=8)
TWO_AGGREGATORS = dataclasses.replace(ONE_AGGREGATOR, vector_length=9_000)
MANY_PARTITIONS = dataclasses.replace(ONE_AGGREGATOR, vector_length=100_000)
PHASES = (
    RoundState.FREEZING,
    RoundState.GATHERING,
    RoundState.EXCHANGING,
    RoundState.VOTED,
    RoundState.COMMITTED,
)


def check_agreement(net: SimNetwork, target: int | None) -> None:
    """What docs/specs/averaging.md promises of any round with at most one faulty peer."""
    results = net.results()
    assert len({(r.digests, r.mean, r.accepted, r.contributors) for r in results.values()}) <= 1
    for result in results.values():
        assert b"".join(result.mean) == reference_mean(net, result)
    survivors = [peer for peer in net.peers if peer.number != target and peer.machine is not None]
    for peer in survivors:
        assert peer.outcome is not None, "a survivor hangs"
        assert peer.ended_at is not None
        assert peer.ended_at - peer.started_at <= net.config.deadlines.bound_seconds
        assert peer.faults == []
    if any(peer.number in results for peer in survivors):
        roll = {member.peer_id for member in next(iter(results.values())).roll}
        words = {net.outcomes()[peer.number] for peer in survivors if peer.id in roll}
        assert "Discarded" not in words
    if target is not None:
        patient = net.peers[target]
        if patient.machine is not None and not patient.dead and patient.frozen_until < 1e8:
            assert patient.outcome is not None, "the faulty peer hangs after it recovered"


def roles(count: int) -> dict[str, int]:
    """Lines grow with the number, so the last ones aggregate and 0 leads."""
    return {"leader": 0, "aggregator": count - 1} | ({"member": 1} if count > 2 else {})


@pytest.mark.parametrize("count", [2, 3, 4, 5])
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.value)
@pytest.mark.parametrize(
    ("kind", "seconds"),
    [("kill", 1e9), ("freeze", 1e9), ("freeze", 3.0), ("freeze", 9.0), ("freeze", 300.0), ("slow", 3.0)],
)
@pytest.mark.parametrize("heartbeat", [None, 4.0])
def test_survivors_agree_and_end(
    count: int, phase: RoundState, kind: str, seconds: float, heartbeat: float | None
) -> None:
    config = {4: TWO_AGGREGATORS, 5: MANY_PARTITIONS}.get(count, ONE_AGGREGATOR)
    for role, target in roles(count).items():
        for cut in range(count):
            fault = Fault(kind, target, phase, cut, seconds)
            net = SimNetwork(count, config, seed=31 * count + cut, fault=fault, heartbeat_seconds=heartbeat)
            net.peers[0].freeze_seconds = 0.05
            net.start_round()
            net.run()
            last_to_hold = role == "leader" and phase is RoundState.VOTED  # then it commits in the same breath
            assert net.fault is None or last_to_hold, f"the {role} never met {phase}"
            check_agreement(net, target)


@pytest.mark.parametrize("count", [3, 4, 5])
def test_a_killed_member_costs_its_own_contribution_and_not_the_round(count: int) -> None:
    net = SimNetwork(count, ONE_AGGREGATOR, fault=Fault("kill", 1, RoundState.EXCHANGING))
    net.start_round()
    net.run()
    words = net.outcomes()
    assert {words[n] for n in range(count) if n != 1} == {"Committed"}
    assert net.results()[0].accepted == tuple(n for n in range(count) if n != 1)


def test_a_lost_aggregator_voids_the_round_at_once_and_is_blamed() -> None:
    net = SimNetwork(4, ONE_AGGREGATOR, fault=Fault("kill", 3, RoundState.EXCHANGING))
    net.start_round()
    net.run()
    outcomes = [net.peers[n].outcome for n in range(3)]
    assert {getattr(outcome, "blame", None) for outcome in outcomes} == {peer_id(3)}
    assert all(peer.ended_at is not None and peer.ended_at < 3.0 for peer in net.peers[:3])


def test_gradients_of_a_voided_round_count_in_the_next_one() -> None:
    net = SimNetwork(4, ONE_AGGREGATOR, fault=Fault("kill", 3, RoundState.EXCHANGING))
    net.start_round()
    net.run()
    assert set(net.outcomes().values()) == {"Discarded"}
    net.start_round(leader=1, absent=(3,))
    net.run()
    results = net.results()
    assert results.keys() == {0, 1, 2}
    assert results[0].samples == 1 + 2 + 3
    check_agreement(net, 3)


def test_a_leader_that_dies_amid_its_broadcast_does_not_split_the_group() -> None:
    for cut in (1, 2, 3):
        fault = Fault("kill", 0, RoundState.COMMITTED, cut)
        net = SimNetwork(5, TWO_AGGREGATORS, seed=cut, fault=fault)
        net.start_round()
        net.run()
        assert {net.outcomes()[n] for n in range(1, 5)} == {"Committed"}


def test_a_leader_that_dies_before_anybody_heard_discards_for_all() -> None:
    net = SimNetwork(4, TWO_AGGREGATORS, fault=Fault("kill", 0, RoundState.COMMITTED, 0))
    net.start_round()
    net.run()
    assert {net.outcomes()[n] for n in range(1, 4)} == {"Discarded"}
    assert all(getattr(net.peers[n].outcome, "blame", None) == peer_id(0) for n in range(1, 4))


def test_a_leader_that_wakes_too_late_commits_nothing() -> None:
    fault = Fault("freeze", 0, RoundState.EXCHANGING, 5, seconds=61.0)
    net = SimNetwork(3, ONE_AGGREGATOR, fault=fault, heartbeat_seconds=None)
    net.start_round()
    net.run()
    assert "Committed" not in net.outcomes().values()


@pytest.mark.parametrize("lonely", [1, 2])
def test_one_broken_link_leaves_the_rest_of_the_round_standing(lonely: int) -> None:
    net = SimNetwork(5, ONE_AGGREGATOR, seed=3)
    net.at(0.4, lambda: net.cut_link(lonely, 4))
    net.start_round()
    net.run()
    words = net.outcomes()
    assert words[lonely] in {"Missed", "Committed"}
    assert {words[n] for n in range(5) if n != lonely} == {"Committed"}


@settings(max_examples=150)
@given(
    count=st.integers(2, 5),
    seed=st.integers(0, 10**6),
    kind=st.sampled_from([None, "kill", "freeze", "slow"]),
    phase=st.sampled_from(PHASES),
    target=st.integers(0, 4),
    cut=st.integers(0, 6),
    seconds=st.sampled_from([0.5, 2.0, 3.5]),
    duplicates=st.sampled_from([0.0, 0.3]),
    leader=st.integers(0, 4),
)
def test_any_history_with_one_fault_keeps_the_promise(
    count: int,
    seed: int,
    kind: str | None,
    phase: RoundState,
    target: int,
    cut: int,
    seconds: float,
    duplicates: float,
    leader: int,
) -> None:
    fault = Fault(kind, target % count, phase, cut, seconds) if kind else None
    net = SimNetwork(count, TWO_AGGREGATORS, seed=seed, fault=fault, duplicates=duplicates)
    net.start_round(leader=leader % count)
    net.run()
    check_agreement(net, target % count if fault else None)
    if fault is None:
        assert set(net.outcomes().values()) == {"Committed"}
        assert net.results()[0].accepted == tuple(range(count))


@settings(max_examples=80)
@given(
    count=st.integers(3, 6),
    seed=st.integers(0, 10**6),
    faults=st.lists(
        st.tuples(
            st.sampled_from(["kill", "freeze", "cut"]), st.integers(0, 5), st.floats(0.0, 3.0), st.integers(0, 5)
        ),
        max_size=4,
    ),
)
def test_many_faults_at_any_time_never_hang_and_never_give_two_results(
    count: int, seed: int, faults: list[tuple[str, int, float, int]]
) -> None:
    net = SimNetwork(count, TWO_AGGREGATORS, seed=seed)
    for kind, target, at, other in faults:
        number, second = target % count, other % count
        if kind == "kill":
            net.at(at, lambda number=number: net.kill(number))
        elif kind == "freeze":
            net.at(at, lambda number=number: net.freeze(number, 7.0))
        elif number != second:
            net.at(at, lambda number=number, second=second: net.cut_link(number, second))
    net.start_round()
    net.run()
    results = net.results()
    assert len({(r.digests, r.mean, r.accepted) for r in results.values()}) <= 1
    for result in results.values():
        assert b"".join(result.mean) == reference_mean(net, result)
    for peer in net.peers:
        if peer.machine is not None and not peer.dead:
            assert peer.outcome is not None
