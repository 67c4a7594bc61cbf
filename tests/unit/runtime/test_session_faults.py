"""What goes wrong during a round costs that round at the most: peers vanish, fall silent or compute nonsense."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.contract.reasons import ProblemAction, ProblemCode
from engine.ledger.accounting import CreditState, tally
from engine.wire.messages import (
    Accept,
    AveragedPart,
    Begin,
    Commit,
    Part,
    PeerMessage,
    Propose,
    Vote,
)
from tests.helpers.run_session import Peer, Swarm, project
from tests.helpers.virtual_time import virtual_time

PHASES: list[type[PeerMessage]] = [Propose, Accept, Begin, Part, AveragedPart, Vote, Commit]


def on_first(swarm: Swarm, kind: type[PeerMessage], strike: Callable[[str], None], *, after_step: int = 1) -> list[str]:
    """Call `strike(sender)` when the first message of a kind is about to leave, once `after_step` was reached.

    The message itself still counts as sent or lost by what `strike` does. Gives the senders that were struck.
    """
    struck: list[str] = []

    def tap(source: str, _target: str, message: PeerMessage) -> None:
        reached = all(peer.step >= after_step for peer in swarm.peers if peer.told.state is not None)
        if not struck and isinstance(message, kind) and reached:
            struck.append(source)
            strike(source)

    swarm.taps.append(tap)
    return struck


def survivors(swarm: Swarm, gone: list[str]) -> list[Peer]:
    return [peer for peer in swarm.peers if peer.peer_id not in gone]


@pytest.mark.parametrize("kind", PHASES, ids=lambda kind: kind.__name__)
def test_a_peer_that_vanishes_in_a_round_stops_nobody(tmp_path: Path, kind: type[PeerMessage]) -> None:
    @virtual_time
    async def run() -> None:
        async with Swarm(tmp_path) as swarm:
            swarm.start(1, 2, 3, 4)
            gone = on_first(swarm, kind, swarm.hub.isolate)
            await swarm.until(lambda: bool(gone))
            left = survivors(swarm, gone)
            step = max(peer.step for peer in swarm.peers)
            await swarm.until_step(step + 4, *left)
            assert swarm.disagreements(*left) == []
            lost = [info for peer in left for info in peer.told.rounds if not info.committed]
            assert len({info.round_id for info in lost}) <= 2
            await swarm.leave_all()

    run()


@pytest.mark.parametrize("kind", PHASES, ids=lambda kind: kind.__name__)
def test_one_that_was_cut_off_comes_back_and_contributes(tmp_path: Path, kind: type[PeerMessage]) -> None:
    @virtual_time
    async def run() -> None:
        async with Swarm(tmp_path) as swarm:
            swarm.start(1, 2, 3)
            gone = on_first(swarm, kind, swarm.hub.isolate)
            await swarm.until(lambda: bool(gone))
            left = survivors(swarm, gone)
            (lost,) = [peer for peer in swarm.peers if peer.peer_id in gone]
            await swarm.until_step(max(peer.step for peer in left) + 3, *left)
            swarm.hub.rejoin(lost.peer_id)
            joined = max(peer.step for peer in left)
            await swarm.until(
                lambda: (
                    bool(lost.told.committed)
                    and lost.told.committed[-1].global_step > joined
                    and lost.told.committed[-1].my_tokens > 0
                )
            )
            await swarm.until_one_branch()
            assert swarm.disagreements(*left) == []
            # At the last message some commit and some may not: the lost one may have taken that step alone.
            assert len(swarm.disagreements()) <= (kind is Commit)
            assert lost.told.problems == []
            await swarm.leave_all()

    run()


@pytest.mark.parametrize("kind", PHASES, ids=lambda kind: kind.__name__)
def test_a_peer_that_falls_silent_in_a_round_is_waited_for_only_so_long(
    tmp_path: Path, kind: type[PeerMessage]
) -> None:
    """As by SIGSTOP: the links stay up, nothing comes any more."""

    @virtual_time
    async def run() -> None:
        async with Swarm(tmp_path) as swarm:
            swarm.start(1, 2, 3, 4)
            gone = on_first(swarm, kind, swarm.hub.mute)
            await swarm.until(lambda: bool(gone))
            left = survivors(swarm, gone)
            step = max(peer.step for peer in left)
            await swarm.until_step(step + 3, *left)
            swarm.hub.heal()
            await swarm.until_step(step + 5)
            await swarm.until_one_branch()
            assert swarm.disagreements(*left) == []
            assert len(swarm.disagreements()) <= (kind is Commit)
            await swarm.leave_all()

    run()


@pytest.mark.parametrize("kind", [Accept, Part, Vote, Commit], ids=lambda kind: kind.__name__)
def test_one_broken_link_between_two_stops_nobody(tmp_path: Path, kind: type[PeerMessage]) -> None:
    @virtual_time
    async def run() -> None:
        async with Swarm(tmp_path) as swarm:
            swarm.start(1, 2, 3)
            struck: list[str] = []

            def tap(source: str, target: str, message: PeerMessage) -> None:
                if not struck and isinstance(message, kind) and all(peer.step >= 1 for peer in swarm.peers):
                    struck.extend((source, target))
                    swarm.hub.drop_link(source, target)

            swarm.taps.append(tap)
            await swarm.until(lambda: bool(struck))
            step = max(peer.step for peer in swarm.peers)
            await swarm.until(lambda: sorted(peer.step for peer in swarm.peers)[1] >= step + 3)
            swarm.hub.heal()
            await swarm.until_step(step + 5)
            assert swarm.disagreements() == []
            await swarm.leave_all()

    run()


# Workers.


@virtual_time
async def test_a_worker_that_dies_before_it_answers_the_freeze_holds_nobody_up(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two, three = swarm.start(1, 2, 3)
        await swarm.until_step(1)
        one.trainer.answers_freeze = False
        one.trainer.on_freeze = one.trainer.die
        step = max(peer.step for peer in swarm.peers)
        await swarm.until_step(step + 1, two, three)
        one.trainer.answers_freeze, one.trainer.on_freeze = True, lambda: None
        info = two.told.committed[-1]
        assert info.seconds < 2.0  # not the deadline for answers
        await swarm.until_step(info.global_step, one)  # it had no gradient to give, and stayed in step all the same
        assert next(row for row in one.told.committed if row.global_step == info.global_step).my_tokens == 0
        await swarm.until(lambda: one.told.committed[-1].my_tokens > 0)
        assert swarm.disagreements() == []
        await swarm.leave_all()


@virtual_time
async def test_a_worker_that_dies_after_it_handed_over_costs_nothing(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, _two, _three = swarm.start(1, 2, 3)
        await swarm.until_step(1)
        struck = on_first(swarm, Begin, lambda _: one.trainer.die())
        await swarm.until(lambda: bool(struck))
        step = one.step
        await swarm.until(lambda: one.step == step + 1)
        assert one.told.committed[-1].my_tokens > 0
        await swarm.until(lambda: one.step > step + 1 and one.told.committed[-1].my_tokens > 0)
        assert one.trainer.restarts == 1
        assert one.state.worker_restarts == 1
        assert swarm.disagreements() == []
        await swarm.leave_all()


@virtual_time
async def test_a_worker_that_dies_between_rounds_loses_its_work_and_says_so(tmp_path: Path) -> None:
    async with Swarm(tmp_path, project(minimum_peers=2, target_batch_samples=400)) as swarm:
        one, _two = swarm.start(1, 2)
        await swarm.until(lambda: one.told.state is not None and one.state.my_samples >= 20)
        one.trainer.die()
        await swarm.until(lambda: one.state.my_samples == 0)
        assert one.state.worker_state == "stopped"
        await swarm.until(lambda: one.state.my_samples > 0)
        assert one.state.worker_state == "training"
        await swarm.until_step(1)
        assert one.told.committed[0].my_tokens == one.trainer.spent[0].samples * 32
        await swarm.leave_all()


@virtual_time
async def test_a_worker_that_never_answers_holds_up_one_round_at_the_most(tmp_path: Path) -> None:
    """Each leads in turn, so the one whose worker hangs does too: it goes on with nothing of its own."""
    async with Swarm(tmp_path) as swarm:
        one, two, three = swarm.start(1, 2, 3)
        await swarm.until_step(1)
        one.trainer.answers_freeze = False
        step = two.step
        await swarm.until_step(step + 8)
        during = [info for info in two.told.rounds if info.global_step > step + 1]
        assert sum(info.seconds > 1.0 for info in during) <= 1
        assert all(info.committed and info.members == 3 for info in during)
        assert one.told.committed[-1].my_tokens == 0
        assert one.trainer.calls.count("freeze") <= step + 3  # nobody asks it again and again
        one.trainer.answers_freeze = True
        one.trainer.answer_freeze()
        await swarm.until(lambda: one.told.committed[-1].my_tokens > 0)
        assert swarm.disagreements() == []
        assert three.told.problems == []
        await swarm.leave_all()


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("keeps_failing", ProblemCode.WORKER_FAILED),
        ("model_mismatch", ProblemCode.MODEL_MISMATCH),
        ("data_unavailable", ProblemCode.DATA_UNAVAILABLE),
    ],
)
def test_a_trainer_that_gives_up_is_shown(tmp_path: Path, kind: str, code: ProblemCode) -> None:
    @virtual_time
    async def run() -> None:
        async with Swarm(tmp_path) as swarm:
            one, two = swarm.start(1, 2)
            await swarm.until_step(1)
            one.trainer.give_up(kind)
            await swarm.until(lambda: one.state.worker_gave_up == kind)
            assert one.told.problems == [
                (code, ProblemAction.RESTART_WORKER, {"detail": "out of memory", "restarts": 0})
            ]
            assert one.state.my_samples == 0
            await swarm.until_step(two.step + 1)
            await swarm.leave_all()

    run()


@pytest.mark.parametrize("nonsense", [float("nan"), float("inf"), 1e30])
def test_nonsense_in_a_gradient_costs_only_that_contribution(tmp_path: Path, nonsense: float) -> None:
    @virtual_time
    async def run() -> None:
        async with Swarm(tmp_path) as swarm:
            one, two, three = swarm.start(1, 2, 3)
            await swarm.until_step(1)
            one.trainer.spoil = nonsense
            step = one.step
            await swarm.until_step(step + 4)
            assert swarm.disagreements() == []
            spoiled = [info for info in two.told.committed if info.global_step > step + 1]
            assert all(info.tokens > 0 for info in spoiled)
            assert [info.my_tokens for info in one.told.committed if info.global_step > step + 1] == [0] * len(
                [info for info in one.told.committed if info.global_step > step + 1]
            )
            assert all(loss is None or loss < 1.0 for loss in two.told.losses)
            one.trainer.spoil = None
            await swarm.until(lambda: one.told.committed[-1].my_tokens > 0)
            await swarm.leave_all()
            receipts = [receipt for peer in (one, two, three) for receipt in peer.told.opened_receipts()]
            credited = sum(row.tokens for row in tally(receipts) if row.contributor == one.peer_id)
            assert credited == sum(info.my_tokens for info in one.told.committed)
            assert all(row.state is CreditState.VERIFIED for row in tally(receipts))

    run()


@virtual_time
async def test_a_loss_that_is_no_number_costs_only_that_contribution(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two, three = swarm.start(1, 2, 3)
        await swarm.until_step(1)
        one.trainer.spoil_loss = float("nan")
        step = one.step
        await swarm.until_step(step + 4)
        assert [info.my_tokens for info in one.told.committed if info.global_step > step + 1] == [0, 0, 0]
        assert all(loss is not None and loss > 0.0 for loss in two.told.losses)
        assert swarm.disagreements() == []
        assert three.told.problems == []
        await swarm.leave_all()


@virtual_time
async def test_rounds_that_fail_keep_the_work_for_the_next(tmp_path: Path) -> None:
    """The leader loses everybody at the roll; what was accumulated is in the round after."""
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until_step(1)
        struck = on_first(swarm, Begin, lambda _: swarm.hub.drop_link(one.peer_id, two.peer_id))
        await swarm.until(lambda: bool(struck) and not one.told.rounds[-1].committed)
        kept = one.trainer.spent[-1].samples
        assert kept > 0
        swarm.hub.heal()
        step = one.step
        await swarm.until_step(step + 1)
        assert one.told.committed[-1].my_tokens >= kept * 32
        assert swarm.disagreements() == []
        await swarm.leave_all()
