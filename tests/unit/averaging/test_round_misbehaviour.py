"""The round machine among peers that do what no correct peer does, and hosts that err."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.averaging import kernels
from engine.averaging.effects import (
    Committed,
    Contribution,
    Discarded,
    Effect,
    Ignored,
    Inspect,
    Inspected,
    Missed,
    NeedParts,
    PeerFault,
    Reduce,
    Reduced,
    RoundMessage,
    Send,
)
from engine.averaging.partition import make_roll
from engine.averaging.round import RoundMachine
from engine.averaging.states import RoundState
from engine.wire.messages import (
    Abstain,
    AveragedPart,
    Begin,
    Commit,
    Decline,
    Discard,
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
    Bench,
    C,
    D,
    accept,
    faults,
    good_digest,
    payload,
    setup,
)


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
