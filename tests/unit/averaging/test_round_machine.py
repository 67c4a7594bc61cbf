"""One machine, message by message: what it sends, what it makes of nonsense, and when it stops waiting."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.averaging import kernels
from engine.averaging.config import MAX_MEMBER_SAMPLES, RoundConfig
from engine.averaging.effects import (
    Begun,
    Committed,
    Contribution,
    Discarded,
    Effect,
    Freeze,
    Ignored,
    Inspect,
    Inspected,
    Missed,
    NeedParts,
    PeerFault,
    Reduce,
    Reduced,
    RoundMessage,
    RoundSetup,
    Send,
)
from engine.averaging.partition import make_roll
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
    Part,
    Propose,
    Vote,
)
from tests.helpers.sim_network import SimNetwork, peer_id, reference_mean

ROUND = b"r" * 16
LENGTH = 6
A, B, C, D = (peer_id(number) for number in range(4))
CONFIG = RoundConfig(vector_length=LENGTH, minimum_peers=2, max_gradient_norm=100.0, max_tokens_per_sample=8)
LIMITS = CONFIG.deadlines
MINE = Contribution(2, 16, 20.0, 1e6)


def setup(leader: str, *candidates: str) -> RoundSetup:
    return RoundSetup(ROUND, leader, 7, bytes(32), candidates)


def accept(samples: int = 3, tokens: int = 24, upload: float = 0.0) -> Accept:
    return Accept(round_id=ROUND, samples=samples, tokens=tokens, loss_sum=30.0, upload_bytes_per_second=upload)


def sent(effects: list[Effect], kind: type[RoundMessage]) -> list[str]:
    return [effect.peer for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)]


def faults(effects: list[Effect]) -> list[str]:
    return [effect.what for effect in effects if isinstance(effect, PeerFault)]


def payload(value: float) -> bytes:
    return np.full(LENGTH, value, dtype="<f4").tobytes()


class Bench:
    """A machine of peer B in a round of A (leads and aggregates), B and C; the vector is one partition."""

    def __init__(self, aggregator: str = A) -> None:
        self.machine = RoundMachine(B, CONFIG, setup(A), 0.0)
        rates = {peer: 9e6 if peer == aggregator else 1e5 for peer in (A, B, C)}
        self.roll = make_roll([(peer, Contribution(2, 16, 20.0, rates[peer])) for peer in (A, B, C)], LENGTH)

    def take(self) -> list[Effect]:
        return self.machine.take_effects()

    def gathered(self) -> "Bench":
        self.machine.on_frozen(MINE, 0.1)
        self.take()
        return self

    def exchanging(self) -> "Bench":
        self.gathered().hear(A, Begin(round_id=ROUND, global_step=7, members=self.roll), 0.2)
        self.machine.on_parts([payload(2.0)], 0.2)
        self.take()
        return self

    def average(self, value: float = 1.0) -> AveragedPart:
        return AveragedPart(round_id=ROUND, contributors=(0, 1, 2), payload=payload(value))

    def voted(self) -> "Bench":
        self.exchanging().hear(A, self.average(), 0.5)
        self.machine.on_inspected(Inspected(0, kernels.digest((0, 1, 2), payload(1.0)), ""), 0.5)
        assert sent(self.take(), Vote) == [A]
        return self

    def abstained(self) -> "Bench":
        self.exchanging().machine.on_timer(0.2 + LIMITS.averages_seconds)
        assert sent(self.take(), Abstain) == [A]
        return self

    def concluding(self) -> "Bench":
        self.exchanging().hear(C, self.commit(), 0.4)
        assert sorted(sent(self.take(), Commit)) == [A]
        return self

    def commit(self, value: float = 1.0, accepted: tuple[int, ...] = (0, 1, 2)) -> Commit:
        digest = kernels.digest((0, 1, 2), payload(value))
        return Commit(round_id=ROUND, global_step=7, digests=(digest,), accepted=accepted)

    def hear(self, peer: str, message: RoundMessage, now: float) -> None:
        self.machine.on_message(peer, message, now)


def outcome(effects: list[Effect]) -> Committed | Discarded | Missed:
    found = [effect for effect in effects if isinstance(effect, Committed | Discarded | Missed)]
    assert len(found) == 1
    assert [effect for effect in effects if not isinstance(effect, Ignored)][-1] is found[0]
    return found[0]


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
    assert len(result.digests) == len([member for member in result.roll if member.share])
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
    assert [(fault.peer, "finite" in fault.what) for fault in named] == [(B, True)]


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


def leading(*candidates: str) -> RoundMachine:
    machine = RoundMachine(A, CONFIG, setup(A, *candidates), 0.0)
    machine.on_frozen(MINE, 0.1)
    machine.take_effects()
    return machine


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


def three(aggregator_rate: float = 9e6) -> RoundMachine:
    """A leads and aggregates for B and C; all parts are in and reduced."""
    machine = RoundMachine(A, CONFIG, setup(A, B, C), 0.0)
    machine.on_frozen(Contribution(2, 16, 20.0, aggregator_rate), 0.1)
    machine.on_message(B, accept(upload=1e5), 0.2)
    machine.on_message(C, accept(upload=1e5), 0.2)
    machine.on_parts([payload(2.0)], 0.2)
    for peer in (B, C):
        machine.on_message(peer, Part(round_id=ROUND, payload=payload(3.0)), 0.3)
    job = machine.take_effects()[-1]
    assert isinstance(job, Reduce)
    machine.on_reduced(kernels.perform(job), 0.4)  # type: ignore[arg-type]
    assert sent(machine.take_effects(), AveragedPart) == [B, C]
    assert machine.state is RoundState.VOTED
    return machine


def good_digest() -> bytes:
    return kernels.digest((0, 1, 2), payload(1.0))


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


# A member.


def test_a_member_freezes_accepts_and_delivers() -> None:
    bench = Bench(aggregator=C)
    assert [type(effect) for effect in bench.take()] == [Freeze]
    bench.machine.on_frozen(MINE, 0.1)
    assert sent(bench.take(), Accept) == [A]
    bench.hear(A, Begin(round_id=ROUND, global_step=7, members=bench.roll), 0.2)
    assert [type(effect) for effect in bench.take()] == [Begun, NeedParts]
    bench.machine.on_parts([payload(2.0)], 0.3)
    assert sent(bench.take(), Part) == [C]


def test_a_member_that_cannot_freeze_declines() -> None:
    bench = Bench()
    bench.take()
    bench.machine.on_freeze_failed("the worker died", 0.1)
    effects = bench.take()
    assert sent(effects, Decline) == [A]
    assert outcome(effects) == Discarded("the worker died", None)


def test_messages_that_outrun_the_roll_are_kept_for_it() -> None:
    bench = Bench().gathered()
    bench.hear(A, bench.average(), 0.15)
    bench.hear(C, bench.commit(), 0.16)
    assert bench.take() == []
    bench.hear(A, Begin(round_id=ROUND, global_step=7, members=bench.roll), 0.2)
    effects = bench.take()
    assert [type(effect) for effect in effects] == [Begun, NeedParts, Inspect, Send]
    bench.machine.on_inspected(Inspected(0, kernels.digest((0, 1, 2), payload(1.0)), ""), 0.3)
    assert isinstance(outcome(bench.take()), Committed)


def test_what_is_kept_is_bounded() -> None:
    bench = Bench().gathered()
    bench.hear(A, AveragedPart(round_id=ROUND, contributors=(0,), payload=bytes(LENGTH * 4 + 4)), 0.15)
    bench.hear(A, bench.average(), 0.15)
    bench.hear(A, bench.average(), 0.15)
    assert [type(effect) for effect in bench.take()] == [PeerFault, Ignored]


def test_an_unsound_roll_ends_the_round_here_and_names_the_leader() -> None:
    bench = Bench().gathered()
    bench.hear(A, Begin(round_id=ROUND, global_step=9, members=bench.roll), 0.2)
    effects = bench.take()
    assert len(faults(effects)) == 1
    assert sent(effects, Abstain) == [A]
    ended = outcome(effects)
    assert isinstance(ended, Discarded)
    assert ended.blame == A


def test_a_commit_that_matches_is_echoed_once_and_applied() -> None:
    bench = Bench().voted()
    bench.hear(A, bench.commit(), 0.6)
    effects = bench.take()
    assert sent(effects, Commit) == [C]
    ended = outcome(effects)
    assert isinstance(ended, Committed)
    assert ended.result.mean == (payload(1.0),)
    bench.hear(C, bench.commit(), 0.7)
    assert [type(effect) for effect in bench.take()] == [Ignored]


def test_a_commit_before_the_last_partition_waits_for_it() -> None:
    bench = Bench().concluding()
    bench.hear(A, bench.average(), 0.6)
    bench.machine.on_inspected(Inspected(0, kernels.digest((0, 1, 2), payload(1.0)), ""), 0.7)
    assert isinstance(outcome(bench.take()), Committed)


@pytest.mark.parametrize(
    "end",
    [
        lambda b: b.machine.on_timer(0.2 + LIMITS.averages_seconds),
        lambda b: b.machine.on_peer_lost(A, 1.0),
        lambda b: b.machine.abort("leaves", 1.0),
        lambda b: (b.hear(A, b.average(2.0), 0.6), b.machine.on_inspected(Inspected(0, bytes(32), ""), 0.7)),
        lambda b: (b.hear(A, b.average(2.0), 0.6), b.machine.on_inspected(Inspected(0, b"", "norm"), 0.7)),
    ],
)
def test_a_commit_whose_partition_never_comes_is_missed(end: Callable[[Bench], None]) -> None:
    bench = Bench().concluding()
    end(bench)
    assert isinstance(outcome(bench.take()), Missed)


def test_the_leaders_commit_of_something_else_is_missed_and_not_echoed() -> None:
    bench = Bench().voted()
    bench.hear(A, bench.commit(2.0), 0.6)
    effects = bench.take()
    assert isinstance(outcome(effects), Missed)
    assert sent(effects, Commit) == []


@pytest.mark.parametrize(
    ("value", "accepted", "step", "count"),
    [(2.0, (0, 1, 2), 7, 1), (1.0, (0, 1), 7, 1), (1.0, (2, 1), 7, 1), (1.0, (0,), 8, 1), (1.0, (0,), 7, 2)],
)
def test_a_forged_echo_changes_nothing(value: float, accepted: tuple[int, ...], step: int, count: int) -> None:
    bench = Bench().voted()
    digest = kernels.digest((0, 1, 2), payload(value))
    forged = Commit(round_id=ROUND, global_step=step, digests=(digest,) * count, accepted=accepted)
    bench.hear(C, forged, 0.6)
    assert [type(effect) for effect in bench.take()] == [PeerFault]
    bench.hear(A, bench.commit(), 0.7)
    assert isinstance(outcome(bench.take()), Committed)


def test_a_member_that_abstained_misses_a_commit_and_echoes_it() -> None:
    bench = Bench().abstained()
    bench.hear(A, bench.commit(), 46.0)
    effects = bench.take()
    assert sent(effects, Commit) == [C]
    assert isinstance(outcome(effects), Missed)


def test_a_lost_leader_is_waited_for_by_way_of_echoes_only_so_long() -> None:
    bench = Bench(aggregator=C).exchanging()
    bench.machine.on_peer_lost(A, 1.0)
    assert bench.machine.next_deadline() == 1.0 + LIMITS.echo_grace_seconds
    bench.machine.on_timer(1.0 + LIMITS.echo_grace_seconds)
    assert outcome(bench.take()) == Discarded("the leader was lost", A)
    bench = Bench().voted()
    bench.machine.on_peer_lost(A, 1.0)
    bench.hear(C, bench.commit(), 2.0)
    assert isinstance(outcome(bench.take()), Committed)


def test_a_leader_lost_before_its_roll_ends_the_round_at_once() -> None:
    bench = Bench().gathered()
    bench.machine.on_peer_lost(A, 0.5)
    assert outcome(bench.take()) == Discarded("the leader was lost", A)
    bench = Bench().gathered()
    bench.hear(C, bench.commit(), 0.4)
    bench.machine.on_peer_lost(A, 0.5)
    assert isinstance(outcome(bench.take()), Missed)


def test_a_discard_from_the_leader_carries_the_blame() -> None:
    bench = Bench().voted()
    bench.hear(A, Discard(round_id=ROUND, reason="an aggregator was lost", blame=C), 0.6)
    assert outcome(bench.take()) == Discarded("an aggregator was lost", C)


@pytest.mark.parametrize(
    ("make", "due"),
    [
        (Bench, LIMITS.begin_seconds),
        (lambda: Bench().gathered(), LIMITS.begin_seconds),
        (lambda: Bench().exchanging(), 0.2 + LIMITS.averages_seconds),
        (lambda: Bench().concluding(), 0.2 + LIMITS.averages_seconds),
        (lambda: Bench().voted(), 0.2 + LIMITS.commit_seconds),
        (lambda: Bench().abstained(), 0.2 + LIMITS.commit_seconds),
    ],
)
def test_every_state_has_its_deadline(make: Callable[[], Bench], due: float) -> None:
    bench = make()
    bench.take()
    assert bench.machine.next_deadline() == pytest.approx(due)
    bench.machine.on_timer(LIMITS.bound_seconds)
    assert bench.machine.ended
    assert bench.machine.next_deadline() is None
    outcome(bench.take())


def test_a_lost_aggregator_makes_a_member_abstain_but_still_serve() -> None:
    bench = Bench(aggregator=B)
    machine = bench.gathered().machine
    bench.roll = make_roll([(p, Contribution(2, 16, 20.0, 1e6)) for p in (A, B, C)], LENGTH)
    wide = tuple(
        m.__class__(peer_id=m.peer_id, samples=m.samples, tokens=m.tokens, loss_sum=m.loss_sum, share=2)
        for m in bench.roll
    )
    bench.hear(A, Begin(round_id=ROUND, global_step=7, members=wide), 0.2)
    machine.on_parts([bytes(8)] * 3, 0.2)
    machine.on_peer_lost(C, 0.3)
    assert sent(bench.take(), Abstain) == [A]
    bench.hear(A, Part(round_id=ROUND, payload=bytes(8)), 0.4)
    job = bench.take()[-1]
    assert isinstance(job, Reduce)
    machine.on_job_done(kernels.perform(job), 0.5)
    assert sent(bench.take(), AveragedPart) == [A]


def test_an_aggregator_waits_for_no_part_longer_than_its_patience() -> None:
    bench = Bench(aggregator=B).exchanging()
    bench.hear(A, Part(round_id=ROUND, payload=payload(1.0)), 0.4)
    assert bench.take() == []
    bench.machine.on_timer(0.2 + LIMITS.parts_seconds)
    job = bench.take()[-1]
    assert isinstance(job, Reduce)
    assert [row.index for row in job.rows] == [0, 1]
    bench.hear(C, Part(round_id=ROUND, payload=payload(1.0)), 31.0)
    assert [type(effect) for effect in bench.take()] == [Ignored]


def test_an_aggregator_with_nothing_sound_abstains() -> None:
    bench = Bench(aggregator=B).exchanging()
    bench.machine.on_timer(0.2 + LIMITS.parts_seconds)
    bench.take()
    bench.machine.on_reduced(Reduced((), b"", b"", ((1, "sent numbers that are not finite"),)), 31.0)
    effects = bench.take()
    assert faults(effects) == ["sent numbers that are not finite"]
    assert sent(effects, Abstain) == [A]


def test_an_aggregator_to_whom_nothing_came_abstains() -> None:
    bench = Bench(aggregator=B).gathered()
    bench.hear(A, Begin(round_id=ROUND, global_step=7, members=bench.roll), 0.2)
    bench.take()
    bench.machine.on_timer(0.2 + LIMITS.parts_seconds)  # not even its own part
    assert sent(bench.take(), Abstain) == [A]


def test_a_member_that_leaves_says_so() -> None:
    for make, kind in ((Bench.gathered, Decline), (Bench.exchanging, Abstain), (Bench.voted, Abstain)):
        bench = make(Bench())
        bench.machine.abort("the user left", 1.0)
        effects = bench.take()
        assert sent(effects, kind) == [A]
        assert outcome(effects) == Discarded("the user left", None)


def test_a_peer_whose_link_came_back_counts_again() -> None:
    machine = three()
    machine.on_peer_lost(C, 0.45)
    machine.on_message(C, Part(round_id=ROUND, payload=payload(3.0)), 0.5)  # late, but it lives
    machine.on_message(B, Vote(round_id=ROUND, digests=(good_digest(),)), 0.6)
    assert not machine.ended
    machine.on_message(C, Vote(round_id=ROUND, digests=(good_digest(),)), 0.7)
    assert machine.state is RoundState.COMMITTED


def test_a_leader_whose_link_came_back_is_waited_for_again() -> None:
    bench = Bench().voted()
    bench.machine.on_peer_lost(A, 1.0)
    bench.hear(A, bench.average(), 1.5)
    assert bench.machine.next_deadline() == 0.2 + LIMITS.commit_seconds


# Misbehaviour.


@pytest.mark.parametrize(
    ("make", "peer", "message"),
    [
        (Bench.gathered, C, Begin(round_id=ROUND, global_step=7, members=Bench().roll)),
        (Bench.gathered, C, Discard(round_id=ROUND, reason="x")),
        (Bench.gathered, C, accept()),
        (Bench.gathered, C, Vote(round_id=ROUND, digests=())),
        (Bench.exchanging, C, Abstain(round_id=ROUND, reason="x")),
        (Bench.exchanging, C, Part(round_id=ROUND, payload=payload(1.0))),
        (Bench.exchanging, C, Bench().average()),
        (Bench.exchanging, D, Bench().average()),
        (Bench.exchanging, D, Bench().commit()),
        (Bench.exchanging, C, Propose(round_id=ROUND, global_step=7, weights_hash=bytes(32), attempt=0)),
    ],
)
def test_what_no_correct_peer_sends_is_named_and_changes_nothing(
    make: Callable[[Bench], Bench], peer: str, message: RoundMessage
) -> None:
    bench = make(Bench())
    state = bench.machine.state
    bench.hear(peer, message, 0.3)
    effects = bench.take()
    assert [type(effect) for effect in effects] == [PeerFault]
    assert bench.machine.state is state


@pytest.mark.parametrize(
    "message",
    [
        AveragedPart(round_id=ROUND, contributors=(0, 1), payload=bytes(4)),
        AveragedPart(round_id=ROUND, contributors=(), payload=payload(1.0)),
        AveragedPart(round_id=ROUND, contributors=(1, 1), payload=payload(1.0)),
        AveragedPart(round_id=ROUND, contributors=(0, 3), payload=payload(1.0)),
    ],
)
def test_a_garbled_average_is_the_aggregators_fault(message: AveragedPart) -> None:
    bench = Bench().exchanging()
    bench.hear(A, message, 0.3)
    effects = bench.take()
    assert len(faults(effects)) == 1
    assert bench.machine.state is RoundState.ABSTAINED


def test_a_part_of_another_size_costs_its_sender() -> None:
    bench = Bench(aggregator=B).exchanging()
    bench.hear(C, Part(round_id=ROUND, payload=bytes(4)), 0.3)
    assert len(faults(bench.take())) == 1
    bench.hear(A, Part(round_id=ROUND, payload=payload(1.0)), 0.3)
    job = bench.take()[-1]
    assert isinstance(job, Reduce)
    assert [row.index for row in job.rows] == [0, 1]


def test_what_comes_without_samples_or_names_one_without_is_a_fault() -> None:
    bench = Bench(aggregator=B).gathered()
    bench.roll = make_roll(
        [(A, Contribution(2, 16, 20.0, 1e5)), (B, Contribution(2, 16, 20.0, 9e6)), (C, Contribution(0, 0, 0.0, 1e5))],
        LENGTH,
    )
    bench.hear(A, Begin(round_id=ROUND, global_step=7, members=bench.roll), 0.2)
    bench.take()
    bench.hear(C, Part(round_id=ROUND, payload=payload(1.0)), 0.3)
    assert faults(bench.take()) == ["sent a part without having samples"]
    bench = Bench(aggregator=A).gathered()
    bench.roll = make_roll(
        [(A, Contribution(2, 16, 20.0, 9e6)), (B, Contribution(2, 16, 20.0, 1e5)), (C, Contribution(0, 0, 0.0, 1e5))],
        LENGTH,
    )
    bench.hear(A, Begin(round_id=ROUND, global_step=7, members=bench.roll), 0.2)
    bench.take()
    bench.hear(A, bench.average(), 0.3)
    assert faults(bench.take()) == ["names a contributor that has no samples"]


def test_another_round_and_a_repeated_message_are_ignored() -> None:
    bench = Bench().exchanging()
    bench.hear(A, Discard(round_id=b"x" * 16, reason="x"), 0.3)
    bench.hear(A, Begin(round_id=ROUND, global_step=7, members=bench.roll), 0.3)
    bench.hear(A, Propose(round_id=ROUND, global_step=7, weights_hash=bytes(32), attempt=0), 0.3)
    bench.hear(A, bench.average(), 0.3)
    bench.hear(A, bench.average(), 0.3)
    assert [type(effect) for effect in bench.take()] == [Ignored, Ignored, Ignored, Inspect, Ignored]


def test_a_hosts_own_mistakes_raise() -> None:
    with pytest.raises(ValueError, match="this peer's contribution"):
        Bench().machine.on_frozen(Contribution(1, 9, 0.0), 0.1)
    with pytest.raises(ValueError, match="expected parts"):
        Bench().exchanging().machine.on_parts([bytes(3)], 0.3)


def test_inputs_after_the_end_change_nothing() -> None:
    bench = Bench().voted()
    bench.hear(A, Discard(round_id=ROUND, reason="x"), 0.6)
    bench.take()
    machine = bench.machine
    machine.on_parts([payload(1.0)], 0.7)
    machine.on_reduced(Reduced((0,), payload(1.0), bytes(32), ()), 0.7)
    machine.on_inspected(Inspected(0, bytes(32), ""), 0.7)
    machine.on_frozen(MINE, 0.7)
    machine.on_freeze_failed("x", 0.7)
    machine.on_peer_lost(A, 0.7)
    machine.on_timer(1e9)
    machine.abort("x", 0.8)
    assert machine.take_effects() == []


messages = st.one_of(
    st.builds(accept, st.integers(0, 2**25), st.integers(0, 100)),
    st.builds(Decline, round_id=st.just(ROUND), reason=st.just("no")),
    st.builds(
        Begin,
        round_id=st.just(ROUND),
        global_step=st.sampled_from([7, 8]),
        members=st.sampled_from([Bench().roll, Bench(aggregator=B).roll, Bench(aggregator=C).roll, Bench().roll[:1]]),
    ),
    st.builds(Part, round_id=st.just(ROUND), payload=st.sampled_from([payload(1.0), bytes(8), bytes(99)])),
    st.builds(
        AveragedPart,
        round_id=st.just(ROUND),
        contributors=st.lists(st.integers(0, 4), max_size=3).map(tuple),
        payload=st.sampled_from([payload(1.0), payload(float("nan")), bytes(8)]),
    ),
    st.builds(Vote, round_id=st.just(ROUND), digests=st.sampled_from([(), (bytes(32),), (good_digest(),)])),
    st.builds(Abstain, round_id=st.just(ROUND), reason=st.just("no")),
    st.builds(
        Commit,
        round_id=st.just(ROUND),
        global_step=st.sampled_from([7, 8]),
        digests=st.sampled_from([(), (bytes(32),), (good_digest(),)]),
        accepted=st.lists(st.integers(0, 4), max_size=3).map(tuple),
    ),
    st.builds(Discard, round_id=st.sampled_from([ROUND, b"x" * 16]), reason=st.just("no")),
    st.builds(
        Propose, round_id=st.just(ROUND), global_step=st.just(7), weights_hash=st.just(bytes(32)), attempt=st.just(0)
    ),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("message"), st.sampled_from([A, B, C, D]), messages),
        st.tuples(st.sampled_from(["frozen", "lost", "timer", "abort"]), st.sampled_from([A, B, C, D]), st.none()),
    ),
    max_size=30,
)


@settings(max_examples=300)
@given(leads=st.booleans(), history=steps, pace=st.sampled_from([0.01, 1.0, 9.0]))
def test_no_history_breaks_a_machine(
    leads: bool, history: list[tuple[str, str, RoundMessage | None]], pace: float
) -> None:
    """Nothing raises; the machine ends within its bound, with one outcome, and never sends to itself."""
    me = A if leads else B
    machine = RoundMachine(me, CONFIG, setup(A, B, C) if leads else setup(A), 0.0)
    seen: list[Effect] = []
    now = 0.0

    def host() -> None:
        while effects := machine.take_effects():
            seen.extend(effects)
            for effect in effects:
                if isinstance(effect, NeedParts):
                    machine.on_parts([bytes(4 * (stop - start)) for start, stop in effect.slices], now)
                elif isinstance(effect, Reduce | Inspect):
                    machine.on_job_done(kernels.perform(effect), now)

    host()
    for kind, peer, message in history:
        now += pace
        if message is not None and peer != me:
            machine.on_message(peer, message, now)
        elif kind == "frozen":
            machine.on_frozen(MINE, now)
        elif kind == "lost":
            machine.on_peer_lost(peer, now)
        elif kind == "timer":
            machine.on_timer(now)
        elif kind == "abort" and peer == D:
            machine.abort("leaves", now)
        host()
    now = max(now, LIMITS.bound_seconds)
    machine.on_timer(now)
    host()
    assert machine.ended
    assert len([effect for effect in seen if isinstance(effect, Committed | Discarded | Missed)]) == 1
    assert not [effect for effect in seen if isinstance(effect, Send) and effect.peer == me]
