"""The round machine as a member: what it sends, keeps, echoes, and how long it waits."""

from collections.abc import Callable

import msgspec
import pytest

from engine.averaging import kernels
from engine.averaging.effects import (
    Begun,
    Committed,
    Contribution,
    Discarded,
    Freeze,
    Ignored,
    Inspect,
    Inspected,
    Missed,
    NeedParts,
    PeerFault,
    Reduce,
    Reduced,
    Send,
)
from engine.averaging.partition import make_roll
from engine.averaging.states import RoundState
from engine.wire.messages import (
    Abstain,
    Accept,
    AveragedPart,
    Begin,
    Commit,
    Decline,
    Discard,
    Part,
    Vote,
)
from tests.helpers.round_bench import (
    LENGTH,
    LIMITS,
    ROUND,
    A,
    B,
    Bench,
    C,
    faults,
    good_digest,
    outcome,
    payload,
    sent,
    three,
)


def test_a_member_freezes_accepts_and_delivers() -> None:
    bench = Bench(aggregator=C)
    assert [type(effect) for effect in bench.take()] == [Freeze]
    bench.machine.on_frozen(bench.mine, 0.1)
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
    bench.mine = Contribution(2, 16, 20.0, 1e6)
    machine = bench.gathered().machine
    bench.roll = make_roll([(p, Contribution(2, 16, 20.0, 1e6)) for p in (A, B, C)], LENGTH)
    wide = tuple(msgspec.structs.replace(member, share=2) for member in bench.roll)
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
