"""The round machine: its tables, whole rounds by the numbers, and its leader."""

from collections.abc import Callable

import numpy as np
import pytest

from engine.averaging import kernels
from engine.averaging.config import MAX_MEMBER_SAMPLES, RoundConfig
from engine.averaging.effects import (
    Begun,
    Committed,
    Contribution,
    Discarded,
    Freeze,
    Ignored,
    NeedParts,
    Reduce,
    RoundMessage,
    Send,
)
from engine.averaging.exchange import Exchange
from engine.averaging.round import RoundMachine
from engine.averaging.states import ENDED, LEADER_HANDLES, MEMBER_HANDLES, TRANSITIONS, RoundState, Trigger
from engine.wire.messages import (
    Abstain,
    Accept,
    AveragedPart,
    Begin,
    Commit,
    Decline,
    Discard,
    Member,
    Part,
    Propose,
    Vote,
)
from tests.helpers.round_bench import (
    CONFIG,
    LENGTH,
    LIMITS,
    MINE,
    ROUND,
    A,
    B,
    C,
    D,
    accept,
    faults,
    good_digest,
    leading,
    outcome,
    payload,
    sent,
    setup,
    three,
)
from tests.helpers.sim_network import SimNetwork, reference_mean

# The tables.


def test_every_state_can_be_reached_and_the_ends_are_ends() -> None:
    assert set(TRANSITIONS.values()) | {RoundState.FREEZING} == set(RoundState)
    assert not [state for state, _ in TRANSITIONS if state in ENDED]
    assert {trigger for _, trigger in TRANSITIONS} == set(Trigger)


def test_the_dead_states_take_no_message() -> None:
    for table in (LEADER_HANDLES, MEMBER_HANDLES):
        assert not [pair for pair, handling in table.items() if pair[1] in ENDED and handling.name != "LATE"]


# A whole round, by the numbers.


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_round_commits_the_exact_mean_on_every_peer(count: int) -> None:
    config = RoundConfig(
        vector_length=20_011, minimum_peers=min(count, 2), max_gradient_norm=1e3, max_tokens_per_sample=8
    )
    net = SimNetwork(count, config, seed=count)
    net.start_round()
    net.run()
    results = net.results()
    assert len(results) == count
    result = results[0]
    expected = sum((peer.gradient for peer in net.peers[1:]), start=net.peers[0].gradient)
    expected = expected / np.float32(sum(peer.samples for peer in net.peers))
    assert {b"".join(each.mean) for each in results.values()} == {expected.tobytes()}
    assert b"".join(result.mean) == reference_mean(net, result)
    assert result.accepted == tuple(range(count))
    assert result.samples == sum(range(1, count + 1))
    assert result.tokens == 8 * result.samples
    assert result.train_loss == pytest.approx(1.5)
    assert len(result.digests) == len(result.slices) >= len([member for member in result.roll if member.share])
    assert all(peer.faults == [] for peer in net.peers)


def test_a_member_without_samples_aggregates_and_receives() -> None:
    net = SimNetwork(
        3, RoundConfig(vector_length=5000, minimum_peers=2, max_gradient_norm=1e3, max_tokens_per_sample=8)
    )
    net.peers[2].samples = 0  # the fastest line: it aggregates everything
    net.start_round()
    net.run()
    assert set(net.outcomes().values()) == {"Committed"}
    assert net.results()[2].contributors == ((0, 1),)
    assert net.results()[2].accepted == (0, 1)


def test_a_nan_costs_its_sender_and_names_it() -> None:
    net = SimNetwork(
        4, RoundConfig(vector_length=9000, minimum_peers=2, max_gradient_norm=1e3, max_tokens_per_sample=8)
    )
    net.peers[1].gradient[5] = np.nan
    net.start_round()
    net.run()
    assert set(net.outcomes().values()) == {"Committed"}
    result = net.results()[0]
    assert result.accepted == (0, 2, 3)
    assert result.tokens == 8 * (1 + 3 + 4)
    named = [fault for peer in net.peers for fault in peer.faults]
    assert [(fault.peer, "a value of nan" in fault.what) for fault in named] == [(B, True)]


def test_an_oversized_gradient_costs_its_sender_and_names_it() -> None:
    net = SimNetwork(
        3, RoundConfig(vector_length=5000, minimum_peers=2, max_gradient_norm=10.0, max_tokens_per_sample=8)
    )
    net.peers[0].gradient *= np.float32(1e4)
    net.start_round()
    net.run()
    assert set(net.outcomes().values()) == {"Committed"}
    assert net.results()[1].accepted == (1, 2)
    assert [fault.peer for fault in net.peers[2].faults] == [A]


def test_an_aggregator_that_tells_each_another_result_commits_nothing() -> None:
    net = SimNetwork(
        4, RoundConfig(vector_length=5000, minimum_peers=2, max_gradient_norm=1e3, max_tokens_per_sample=8)
    )
    served = iter(range(100))

    def two_faced(message: RoundMessage) -> RoundMessage:
        if not isinstance(message, AveragedPart):
            return message
        lie = np.full(5000, next(served) * 0.001, dtype="<f4").tobytes()
        return AveragedPart(round_id=message.round_id, contributors=message.contributors, payload=lie)

    net.peers[3].spoil = two_faced
    net.start_round()
    net.run()
    assert set(net.outcomes().values()) == {"Discarded"}


def test_a_worker_that_does_not_freeze_leaves_the_others_to_go_on() -> None:
    net = SimNetwork(
        3, RoundConfig(vector_length=5000, minimum_peers=2, max_gradient_norm=1e3, max_tokens_per_sample=8)
    )
    net.peers[1].freeze_seconds = None
    net.start_round()
    net.run()
    assert net.outcomes() == {0: "Committed", 1: "Discarded", 2: "Committed"}
    assert net.peers[1].ended_at is not None
    assert net.peers[1].ended_at < LIMITS.begin_seconds


def test_a_leader_whose_worker_does_not_freeze_tells_the_others() -> None:
    net = SimNetwork(
        3, RoundConfig(vector_length=5000, minimum_peers=2, max_gradient_norm=1e3, max_tokens_per_sample=8)
    )
    net.peers[0].freeze_seconds = None
    net.start_round()
    net.run()
    assert set(net.outcomes().values()) == {"Discarded"}
    assert all(peer.ended_at is not None and peer.ended_at < LIMITS.begin_seconds for peer in net.peers)


# The leader.


def test_a_leader_asks_then_freezes() -> None:
    effects = RoundMachine(A, CONFIG, setup(A, B, C), 0.0).take_effects()
    assert sent(effects, Propose) == [B, C]
    assert isinstance(effects[-1], Freeze)


def test_a_leader_begins_when_all_answered_and_leaves_out_who_declined() -> None:
    machine = leading(B, C)
    machine.on_message(B, Decline(round_id=ROUND, reason="busy"), 0.2)
    assert machine.state is RoundState.GATHERING
    machine.on_message(C, accept(), 0.3)
    effects = machine.take_effects()
    assert [member.peer_id for member in machine.roll] == [A, C]
    assert sent(effects, Begin) == [C]
    assert [type(effect) for effect in effects if not isinstance(effect, Send)] == [Begun, NeedParts]


def test_a_leader_leaves_out_who_is_silent_and_says_so() -> None:
    machine = leading(B, C)
    machine.on_message(C, accept(), 0.3)
    machine.on_timer(LIMITS.gather_seconds)
    effects = machine.take_effects()
    assert sent(effects, Discard) == [B]
    assert sent(effects, Begin) == [C]
    machine.on_message(B, accept(), 12.0)
    effects = machine.take_effects()
    assert sent(effects, Discard) == [B]
    machine.on_message(C, accept(), 12.0)
    assert sent(machine.take_effects(), Discard) == []


@pytest.mark.parametrize(
    ("give", "reason"),
    [
        (lambda m: m.on_timer(LIMITS.gather_seconds), "1 of at least 2"),
        (lambda m: m.on_timer(LIMITS.begin_seconds), "too late to begin"),
        (lambda m: m.on_message(B, Decline(round_id=ROUND, reason="x"), 1.0), "1 of at least 2"),
        (lambda m: m.on_peer_lost(B, 1.0), "1 of at least 2"),
        (lambda m: m.abort("the user left", 1.0), "the user left"),
    ],
)
def test_a_leader_voids_what_cannot_begin(give: Callable[[RoundMachine], None], reason: str) -> None:
    machine = leading(B)
    give(machine)
    ended = outcome(machine.take_effects())
    assert isinstance(ended, Discarded)
    assert reason in ended.reason


def test_a_round_without_samples_is_void() -> None:
    machine = RoundMachine(A, CONFIG, setup(A, B), 0.0)
    machine.on_frozen(Contribution(0, 0, 0.0), 0.1)
    machine.on_message(B, accept(0, 0), 0.2)
    effects = machine.take_effects()
    assert isinstance(outcome(effects), Discarded)
    assert sent(effects, Discard) == [B]


@pytest.mark.parametrize("claim", [accept(MAX_MEMBER_SAMPLES + 1, 0), accept(3, 25)])
def test_an_impossible_claim_is_named_and_left_out(claim: Accept) -> None:
    machine = leading(B, C)
    machine.on_message(B, claim, 0.2)
    effects = machine.take_effects()
    assert len(faults(effects)) == 1
    assert sent(effects, Discard) == [B]
    machine.on_message(C, accept(), 0.3)
    assert [member.peer_id for member in machine.roll] == [A, C]


def test_answers_that_were_not_asked_for_change_nothing() -> None:
    machine = leading(B, C)
    machine.on_message(B, accept(), 0.2)
    machine.on_message(B, accept(1, 8), 0.2)
    machine.on_message(D, accept(), 0.2)
    effects = machine.take_effects()
    assert [type(effect) for effect in effects] == [Ignored, Ignored, Send]
    machine.on_message(C, accept(), 0.2)
    assert [(member.peer_id, member.samples) for member in machine.roll] == [(A, 2), (B, 3), (C, 3)]


def test_a_solo_round_is_fine_where_one_peer_is_enough() -> None:
    config = RoundConfig(vector_length=LENGTH, minimum_peers=1, max_gradient_norm=100.0, max_tokens_per_sample=8)
    machine = RoundMachine(A, config, setup(A), 0.0)
    machine.on_frozen(MINE, 0.1)
    machine.on_parts([payload(3.0)], 0.2)
    job = machine.take_effects()[-1]
    assert isinstance(job, Reduce)
    machine.on_job_done(kernels.perform(job), 0.3)
    ended = outcome(machine.take_effects())
    assert isinstance(ended, Committed)
    assert b"".join(ended.result.mean) == payload(1.5)


def test_a_leader_waits_for_every_live_vote_then_commits() -> None:
    machine = three()
    machine.on_message(B, Vote(round_id=ROUND, digests=(good_digest(),)), 0.5)
    assert machine.take_effects() == []
    machine.on_message(C, Vote(round_id=ROUND, digests=(good_digest(),)), 0.6)
    effects = machine.take_effects()
    assert sent(effects, Commit) == [B, C]
    assert isinstance(outcome(effects), Committed)


def test_more_than_half_is_enough_once_the_rest_is_lost_or_late() -> None:
    for end in (lambda m: m.on_peer_lost(C, 0.6), lambda m: m.on_timer(0.2 + LIMITS.votes_seconds)):
        machine = three()
        machine.on_message(B, Vote(round_id=ROUND, digests=(good_digest(),)), 0.5)
        end(machine)
        assert isinstance(outcome(machine.take_effects()), Committed)


def test_half_is_not_enough_and_the_silent_one_is_blamed() -> None:
    machine = three()
    machine.on_timer(0.2 + LIMITS.votes_seconds)
    ended = outcome(machine.take_effects())
    assert isinstance(ended, Discarded)
    assert ended.blame == B


def test_votes_for_something_else_or_of_another_size_do_not_count() -> None:
    machine = three()
    machine.on_message(B, Vote(round_id=ROUND, digests=(bytes(32),)), 0.5)
    machine.on_message(C, Vote(round_id=ROUND, digests=(good_digest(), good_digest())), 0.6)
    effects = machine.take_effects()
    assert faults(effects) == ["votes on 2 partitions of 1"]
    assert isinstance(outcome(effects), Discarded)


def test_what_a_member_said_first_stands() -> None:
    machine = three()
    machine.on_message(B, Abstain(round_id=ROUND, reason="x"), 0.5)
    machine.on_message(B, Vote(round_id=ROUND, digests=(good_digest(),)), 0.5)
    assert [type(effect) for effect in machine.take_effects()] == [Ignored]
    machine.on_message(B, Abstain(round_id=ROUND, reason="x"), 0.5)
    assert [type(effect) for effect in machine.take_effects()] == [Ignored]
    machine.on_message(C, Vote(round_id=ROUND, digests=(good_digest(),)), 0.6)
    assert isinstance(outcome(machine.take_effects()), Committed)


def test_a_member_that_leaves_after_accepting_counts_as_abstaining() -> None:
    machine = three()
    machine.on_message(B, Decline(round_id=ROUND, reason="leaves"), 0.5)
    machine.on_message(C, Decline(round_id=ROUND, reason="leaves"), 0.5)
    assert isinstance(outcome(machine.take_effects()), Discarded)


def test_a_leader_never_commits_after_the_members_may_have_stopped_waiting() -> None:
    machine = three()
    machine.on_message(B, Vote(round_id=ROUND, digests=(good_digest(),)), 0.5)
    machine.on_message(C, Vote(round_id=ROUND, digests=(good_digest(),)), 0.2 + LIMITS.last_commit_seconds + 0.1)
    assert isinstance(outcome(machine.take_effects()), Discarded)


def test_an_aggregator_that_cannot_deliver_voids_the_round_and_is_blamed() -> None:
    machine = RoundMachine(A, CONFIG, setup(A, B, C), 0.0)
    machine.on_frozen(MINE, 0.1)
    machine.on_message(B, accept(upload=9e7), 0.2)
    machine.on_message(C, accept(upload=1e5), 0.2)
    machine.on_message(B, Abstain(round_id=ROUND, reason="out of memory"), 0.3)
    effects = machine.take_effects()
    ended = outcome(effects)
    assert isinstance(ended, Discarded)
    assert ended.blame == B
    assert sent(effects, Discard) == [B, C]


def test_what_is_in_is_averaged_before_the_rest_has_come() -> None:
    """Parts, arithmetic and averages flow side by side: a partition does not wait for the next one."""
    length = 40_000
    config = RoundConfig(vector_length=length, minimum_peers=2, max_gradient_norm=1e3, max_tokens_per_sample=8)
    machine = RoundMachine(A, config, setup(A, B), 0.0)
    machine.on_frozen(Contribution(2, 16, 20.0, 9e6), 0.1)
    machine.on_message(B, accept(samples=2, tokens=16, upload=1e3), 0.2)
    needed = next(effect for effect in machine.take_effects() if isinstance(effect, NeedParts))
    runs = [(start, stop) for number, (start, stop) in enumerate(needed.slices) if number in needed.mine]
    assert len(runs) > 1
    machine.on_parts([np.ones(stop - start, dtype="<f4").tobytes() for start, stop in needed.slices], 0.2)
    machine.take_effects()
    start, stop = runs[0]
    part = Part(round_id=ROUND, partition=min(needed.mine), payload=np.ones(stop - start, dtype="<f4").tobytes())
    machine.on_message(B, part, 0.3)
    (job,) = machine.take_effects()
    assert isinstance(job, Reduce)
    assert job.partition == min(needed.mine)
    machine.on_job_done(kernels.perform(job), 0.4)
    (sending,) = machine.take_effects()
    assert isinstance(sending, Send)
    assert isinstance(sending.message, AveragedPart)
    assert machine.state is RoundState.EXCHANGING
    machine.on_message(B, part, 0.5)
    assert [type(effect) for effect in machine.take_effects()] == [Ignored]


def test_parts_leave_in_turn_for_every_aggregator() -> None:
    members = tuple(
        Member(peer_id=peer, samples=1, tokens=8, loss_sum=1.0, share=share)
        for peer, share in ((A, 40_000), (B, 0), (C, 20_000))
    )
    exchange = Exchange(B, members, {0})
    owners = [exchange.partitions[number].owner for number in exchange.sending_order()]
    assert owners == [0, 2, 0, 2, 0]
    assert sorted(exchange.sending_order()) == list(range(5))
