"""What one peer concludes from what the others say."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.swarm.progress import (
    MAX_CHECK_SECONDS,
    MIN_CHECK_SECONDS,
    CatchUp,
    Lead,
    SwarmConfig,
    SwarmView,
    Train,
    Wait,
    WaitReason,
)
from engine.wire.messages import Progress, Propose
from tests.helpers.sim_network import peer_id

PEERS = [peer_id(number) for number in range(6)]
ME = PEERS[0]
H1, H2 = b"\x01" * 32, b"\x02" * 32
CONFIG = SwarmConfig()


def said(
    sequence: int = 1,
    step: int = 5,
    weights_hash: bytes = H1,
    samples: int = 0,
    rate: float = 0.0,
    training: bool = True,
) -> Progress:
    return Progress(
        sequence=sequence,
        global_step=step,
        weights_hash=weights_hash,
        samples=samples,
        samples_per_second=rate,
        upload_bytes_per_second=0.0,
        download_bytes_per_second=0.0,
        training=training,
    )


def view(*others: Progress, mine: Progress | None = None, target: int = 100, minimum: int = 2) -> SwarmView:
    result = SwarmView(ME, target, minimum)
    result.set_mine(mine or said(), 0.0)
    for number, progress in enumerate(others, start=1):
        result.on_peer_up(PEERS[number], 0.0)
        result.on_progress(PEERS[number], progress, 0.0)
    return result


def lot(step: int, peer: str) -> bytes:
    return hashlib.sha256(step.to_bytes(8, "little") + peer.encode()).digest()


def order(step: int, count: int) -> list[str]:
    return sorted(PEERS[:count], key=lambda peer: lot(step, peer))


def step_where(first: str, count: int) -> int:
    return next(step for step in range(1000) if order(step, count)[0] == first)


# The estimate.


def test_samples_are_extrapolated_by_each_peers_rate_but_not_far() -> None:
    swarm = view(said(samples=10, rate=4.0), said(samples=20, rate=6.0, training=False), mine=said(samples=5, rate=1.0))
    estimate = swarm.estimate(2.0)
    assert estimate.samples_now == 10 + 8 + 20 + 5 + 2
    assert estimate.samples_per_second == 5.0
    assert estimate.eta_seconds == (100 - 45) / 5.0
    assert (estimate.ready, estimate.agreeing) == (False, 2)
    assert swarm.estimate(20.0).samples_now == 35 + 5.0 * CONFIG.horizon_seconds


def test_nobody_trains_means_no_eta() -> None:
    swarm = view(said(training=False, rate=9.0), mine=said(training=False, rate=9.0))
    assert swarm.estimate(0.0).eta_seconds is None


def test_claims_are_bounded() -> None:
    swarm = view(said(samples=2**50, rate=1e15), target=100)
    estimate = swarm.estimate(0.0)
    assert estimate.samples_now == 100
    assert estimate.samples_per_second == 100 * CONFIG.max_batches_per_second


def test_other_steps_other_weights_and_the_silent_do_not_count() -> None:
    swarm = view(said(samples=7), said(step=4, samples=50), said(weights_hash=H2, samples=50))
    assert swarm.estimate(0.0).samples_now == 7
    assert swarm.estimate(CONFIG.stale_seconds + 1.0).samples_now == 0


def test_old_news_and_strangers_are_ignored() -> None:
    swarm = view(said(sequence=5, samples=7))
    swarm.on_progress(PEERS[1], said(sequence=5, samples=60), 1.0)
    swarm.on_progress(PEERS[1], said(sequence=4, samples=60), 1.0)
    swarm.on_progress(PEERS[4], said(sequence=4, samples=60), 1.0)
    assert swarm.estimate(1.0).samples_now == 7
    swarm.on_peer_lost(PEERS[1])
    assert swarm.estimate(1.0).samples_now == 0
    swarm.on_peer_up(PEERS[1], 2.0)
    swarm.on_progress(PEERS[1], said(sequence=0, samples=3), 2.0)
    assert swarm.estimate(2.0).samples_now == 3


# Who leads.


def test_the_first_in_line_leads_as_soon_as_the_batch_is_full() -> None:
    step = step_where(ME, 3)
    full = [said(step=step, samples=40), said(step=step, samples=40)]
    assert view(*full, mine=said(step=step, samples=10)).decide(0.0) == Train()
    assert view(*full, mine=said(step=step, samples=20)).decide(0.0) == Lead(0, (PEERS[1], PEERS[2]))


def test_the_next_in_line_leads_after_its_grace() -> None:
    step = next(step for step in range(1000) if order(step, 3)[2] == ME)
    swarm = view(said(step=step, samples=99), said(step=step), mine=said(step=step, samples=99))
    assert swarm.decide(0.0) == Train()
    due = 2 * CONFIG.leader_grace_seconds
    assert swarm.next_check_seconds(due - 1.0) == pytest.approx(1.0)
    assert swarm.decide(due - 0.01) == Train()
    assert isinstance(swarm.decide(due), Lead)


def test_members_accept_only_whose_turn_it_is() -> None:
    step = step_where(PEERS[1], 3)
    second = order(step, 3)[1]
    swarm = view(said(step=step, samples=60), said(step=step, samples=40), mine=said(step=step))
    assert swarm.may_lead(PEERS[1], 0.0)
    assert not swarm.may_lead(second, 0.0)
    assert swarm.may_lead(second, CONFIG.leader_grace_seconds - CONFIG.tolerance_seconds)
    assert not swarm.may_lead(PEERS[4], 100.0)


def test_the_first_in_line_may_be_a_little_early_but_not_more() -> None:
    step = step_where(PEERS[1], 2)
    for samples, rate, expected in ((89, 0.0, False), (90, 0.0, True), (80, 13.0, False), (80, 14.0, True)):
        swarm = view(said(step=step, samples=samples, rate=rate), mine=said(step=step))
        assert swarm.may_lead(PEERS[1], 0.0) is expected


def test_who_does_not_train_neither_leads_nor_is_asked() -> None:
    step = step_where(ME, 2)
    swarm = view(said(step=step, samples=100), mine=said(step=step, training=False))
    assert swarm.decide(0.0) == Train()
    assert swarm.may_lead(PEERS[1], 0.0)
    paused = said(step=step, samples=100, training=False)
    assert view(paused, mine=said(step=step)).decide(0.0) == Train()
    step = step_where(ME, 3)
    paused = said(step=step, samples=100, training=False)
    swarm = view(paused, said(step=step, samples=50), mine=said(step=step, samples=50))
    assert swarm.decide(0.0) == Lead(0, (PEERS[2],))


def test_a_proposal_is_judged_by_step_weights_and_turn() -> None:
    step = step_where(PEERS[1], 2)
    swarm = view(said(step=step, samples=100), mine=said(step=step))

    def propose(at: int, weights_hash: bytes) -> Propose:
        return Propose(round_id=bytes(16), global_step=at, weights_hash=weights_hash, attempt=0)

    assert swarm.judge(PEERS[1], propose(step, H1), 0.0) == ""
    assert "step" in swarm.judge(PEERS[1], propose(step + 1, H1), 0.0)
    assert "weights" in swarm.judge(PEERS[1], propose(step, H2), 0.0)
    assert "turn" in swarm.judge(PEERS[2], propose(step, H1), 0.0)
    assert SwarmView(ME, 100).judge(PEERS[1], propose(0, H1), 0.0) == "no state yet"


def test_who_outranks_whom() -> None:
    step = step_where(PEERS[1], 2)
    swarm = view(said(step=step), mine=said(step=step))
    assert swarm.outranks(PEERS[1], 0.0)
    swarm.set_mine(said(sequence=2, step=step_where(ME, 2)), 0.0)
    swarm.on_progress(PEERS[1], said(sequence=2, step=step_where(ME, 2)), 0.0)
    assert not swarm.outranks(PEERS[1], 0.0)
    assert not swarm.outranks(PEERS[3], 0.0)


def test_too_few_peers_wait_and_one_is_enough_where_that_is_said() -> None:
    assert view(mine=said(samples=500)).decide(0.0) == Wait(WaitReason.TOO_FEW_PEERS)
    assert view(mine=said(samples=500), minimum=1).decide(0.0) == Lead(0, ())
    lagging = view(said(step=4), mine=said(samples=500))
    assert lagging.decide(0.0) == Train()
    assert SwarmView(ME, 100).decide(0.0) == Wait(WaitReason.NO_STATE)


# After a failed round.


def test_a_discarded_round_is_tried_again_later_without_who_broke_it() -> None:
    step = step_where(ME, 3)
    swarm = view(said(step=step, samples=60), said(step=step, samples=60), mine=said(step=step, samples=60))
    swarm.on_round_discarded(PEERS[1], 10.0)
    assert swarm.decide(10.0) == Train()
    assert swarm.decide(10.0 + CONFIG.retry_seconds) == Lead(1, (PEERS[2],))
    assert not swarm.may_lead(PEERS[1], 11.0)
    swarm.on_round_discarded(None, 12.0)
    assert swarm.decide(12.0 + CONFIG.retry_seconds) == Train()
    assert swarm.decide(12.0 + 2 * CONFIG.retry_seconds) == Lead(2, (PEERS[1], PEERS[2]))


def test_who_breaks_rounds_again_sits_out_longer_but_not_for_ever() -> None:
    step = step_where(ME, 3)
    swarm = view(said(step=step, samples=60), said(step=step, samples=60), mine=said(step=step, samples=60))
    swarm.on_round_discarded(PEERS[1], 0.0)
    swarm.on_round_discarded(PEERS[1], 0.0)
    swarm.on_round_discarded(None, 0.0)
    assert swarm.decide(5.0) == Lead(3, (PEERS[2],))
    for number, at in ((1, 25.0), (2, 25.0), (1, 45.0), (2, 45.0)):
        swarm.on_progress(PEERS[number], said(sequence=int(at), step=step, samples=60), at)
    assert swarm.decide(45.0) == Lead(3, (PEERS[1], PEERS[2]))


def test_with_nobody_else_the_one_that_broke_it_is_asked_again() -> None:
    step = step_where(ME, 2)
    swarm = view(said(step=step, samples=60), mine=said(step=step, samples=60))
    swarm.on_round_discarded(PEERS[1], 0.0)
    assert swarm.decide(1.0) == Lead(1, (PEERS[1],))


def test_a_new_step_forgives() -> None:
    step = step_where(ME, 2)
    swarm = view(said(step=step, samples=60), mine=said(step=step - 1 if step else 99, samples=60))
    swarm.on_round_discarded(PEERS[1], 0.0)
    swarm.set_mine(said(sequence=2, step=step, samples=60), 0.1)
    assert swarm.decide(0.1) == Lead(0, (PEERS[1],))


def test_retries_slow_down_up_to_a_limit() -> None:
    swarm = view(said(samples=100), mine=said(samples=100))
    for _ in range(50):
        swarm.on_round_discarded(None, 0.0)
    assert swarm.next_check_seconds(CONFIG.max_retry_seconds - 1.0) == pytest.approx(1.0)


# Behind, and forks.


def test_a_higher_step_is_caught_up_with() -> None:
    swarm = view(said(step=6), said(step=7, weights_hash=H2), said(step=7, weights_hash=H2), said())
    decision = swarm.decide(0.0)
    assert isinstance(decision, CatchUp)
    assert (decision.global_step, decision.weights_hash) == (7, H2)
    assert sorted(decision.donors) == [PEERS[2], PEERS[3]]


def test_at_one_step_the_larger_branch_wins_then_the_lower_hash() -> None:
    assert isinstance(
        view(said(weights_hash=H2), said(weights_hash=H2), mine=said(weights_hash=H1)).decide(0.0), CatchUp
    )
    assert view(said(weights_hash=H1), mine=said(weights_hash=H1)).decide(0.0) == Train()
    assert view(said(weights_hash=H2), mine=said(weights_hash=H1)).decide(0.0) == Train()
    assert isinstance(view(said(weights_hash=H1), mine=said(weights_hash=H2)).decide(0.0), CatchUp)


def test_a_newcomer_takes_the_state_from_who_is_ahead() -> None:
    swarm = SwarmView(ME, 100)
    swarm.on_peer_up(PEERS[1], 0.0)
    swarm.on_progress(PEERS[1], said(step=0), 0.0)
    assert swarm.decide(0.0) == CatchUp((PEERS[1],), 0, H1)


def test_a_hollow_claim_costs_the_claimer_its_word_for_a_while() -> None:
    swarm = view(said(step=10**6, weights_hash=H2), said(samples=9))
    assert isinstance(swarm.decide(0.0), CatchUp)
    swarm.on_catch_up_failed(PEERS[1], 0.0)
    assert swarm.decide(0.1) == Train()
    assert isinstance(swarm.decide(CONFIG.distrust_seconds), CatchUp)
    swarm.on_catch_up_failed(PEERS[1], 10.0)
    assert swarm.decide(10.0 + 2 * CONFIG.distrust_seconds - 0.1) == Train()
    swarm.on_peer_lost(PEERS[1])
    swarm.on_peer_up(PEERS[1], 11.0)
    swarm.on_progress(PEERS[1], said(step=10**6, weights_hash=H2), 11.0)
    assert swarm.decide(11.0) == Train()
    swarm.on_caught_up(PEERS[1])
    assert isinstance(swarm.decide(11.0), CatchUp)


def test_who_is_distrusted_as_a_donor_still_counts_on_my_branch() -> None:
    swarm = view(said(samples=9))
    swarm.on_catch_up_failed(PEERS[1], 0.0)
    assert swarm.estimate(0.0).samples_now == 9


branches = st.tuples(st.integers(0, 2), st.sampled_from([H1, H2, b"\x03" * 32]))


@given(st.lists(branches, min_size=2, max_size=6))
def test_peers_who_see_each_other_agree_on_the_branch(holdings: list[tuple[int, bytes]]) -> None:
    """All views of the same facts name one branch, and those who are on it stay."""
    goals = set()
    for me, (step, weights_hash) in enumerate(holdings):
        swarm = SwarmView(PEERS[me], 100, 1)
        swarm.set_mine(said(step=step, weights_hash=weights_hash), 0.0)
        for other, (other_step, other_hash) in enumerate(holdings):
            if other != me:
                swarm.on_peer_up(PEERS[other], 0.0)
                swarm.on_progress(PEERS[other], said(step=other_step, weights_hash=other_hash), 0.0)
        decision = swarm.decide(0.0)
        if isinstance(decision, CatchUp):
            goals.add((decision.global_step, decision.weights_hash))
            assert set(decision.donors) == {
                PEERS[n]
                for n, held in enumerate(holdings)
                if held == holdings[n] and held == (decision.global_step, decision.weights_hash)
            }
        else:
            goals.add((step, weights_hash))
    assert len(goals) == 1


@given(st.floats(0.0, 100.0), st.integers(0, 200), st.floats(0.0, 1e6))
def test_the_next_look_is_neither_at_once_nor_far(now: float, samples: int, rate: float) -> None:
    swarm = view(said(samples=samples, rate=rate))
    assert MIN_CHECK_SECONDS <= swarm.next_check_seconds(now) <= MAX_CHECK_SECONDS


@pytest.mark.parametrize(
    "changes",
    [{"tolerance_seconds": 3.0}, {"tolerance_seconds": 0.0}, {"horizon_seconds": 30.0}, {"horizon_seconds": 0.0}],
)
def test_a_config_that_makes_no_sense_is_refused(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        SwarmConfig(**changes)
