"""Sessions that train together: rounds commit, everybody ends with the same bits, and the books add up."""

from pathlib import Path

import numpy as np
import pytest

from engine.averaging.codecs.base import CodecId
from engine.averaging.kernels import apply_step, initial_state, reduce_parts, weights_hash
from engine.contract.reasons import ProblemAction, ProblemCode
from engine.ledger.accounting import CreditState, tally
from engine.runtime.session_events import Limits, NameChange, WatcherChange, WorkerRestart
from engine.wire.messages import AveragedPart, Part, Progress
from tests.helpers.run_session import Swarm, project
from tests.helpers.virtual_time import virtual_time

TOKENS_PER_SAMPLE = 32


@virtual_time
async def test_rounds_commit_with_the_same_weights_everywhere(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two, three = swarm.start(1, 2, 3)
        await swarm.until_step(6)
        await swarm.leave_all()
        assert swarm.disagreements() == []
        for peer in (one, two, three):
            assert [info.global_step for info in peer.told.committed][:6] == [1, 2, 3, 4, 5, 6]
            assert all(info.members == 3 for info in peer.told.committed[:6])
            assert peer.told.problems == []
        first, last = one.told.losses[0], one.told.losses[5]
        assert first is not None
        assert last is not None
        assert last < first


@virtual_time
async def test_a_project_that_asks_for_coarse_exchange_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.averaging.codecs.choose.EXACT_ELEMENTS", 16)  # the model is a tiny one
    monkeypatch.setattr("engine.averaging.codecs.choose.SMALL_ELEMENTS", 32)
    async with Swarm(tmp_path, project(exchange="int8")) as swarm:
        one, *_ = swarm.start(1, 2, 3)
        await swarm.until_step(6)
        await swarm.leave_all()
        assert swarm.disagreements() == []
        parts = [message for _, _, message in swarm.messages if isinstance(message, Part | AveragedPart)]
        assert {message.codec for message in parts} == {CodecId.INT8}
        first, last = one.told.losses[0], one.told.losses[5]
        assert first is not None
        assert last is not None
        assert last < first


@virtual_time
async def test_a_step_is_what_plain_arithmetic_says(tmp_path: Path) -> None:
    """Recomputed from the gradients that the trainers handed over, in the roll's order."""
    async with Swarm(tmp_path) as swarm:
        peers = swarm.start(1, 2, 3)
        await swarm.until_step(3)
        await swarm.leave_all()
        manifest = swarm.project.manifest
        state = initial_state(manifest.model, swarm.project.manifest_hash)
        for step in range(3):
            parts = [
                (spent.gradients, spent.samples)
                for peer in sorted(peers, key=lambda peer: peer.peer_id)
                for spent in peer.trainer.spent
                if spent.global_step == step
            ]
            assert len(parts) == 3
            mean = reduce_parts([row for row, _ in parts], [samples for _, samples in parts])
            state = apply_step(state, mean, manifest.optimizer)
            assert weights_hash(state.weights).hex() == peers[0].told.hashes[step + 1]


@virtual_time
async def test_tokens_of_rounds_equal_what_trainers_handed_over(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        peers = swarm.start(1, 2, 3)
        await swarm.until_step(5)
        await swarm.leave_all()
        for step, info in enumerate(peers[0].told.committed[:5]):
            spent = [row.samples for peer in peers for row in peer.trainer.spent if row.global_step == step]
            assert info.tokens == sum(spent) * TOKENS_PER_SAMPLE
            mine = next(row.samples for row in peers[0].trainer.spent if row.global_step == step)
            assert info.my_tokens == mine * TOKENS_PER_SAMPLE
        for peer in peers:
            state = peer.state
            assert state.tokens_committed == sum(info.tokens for info in peer.told.committed)
            assert state.my_tokens_committed == sum(info.my_tokens for info in peer.told.committed)
            assert state.rounds_committed == len(peer.told.committed)
            assert peer.told.tokens_trained >= state.my_tokens_committed


@virtual_time
async def test_receipts_verify_and_add_up_to_the_committed_tokens(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        peers = swarm.start(1, 2, 3, 4)
        await swarm.until_step(4)
        await swarm.leave_all()
        receipts = [receipt for peer in peers for receipt in peer.told.opened_receipts()]
        rows = tally(receipts, {swarm.project.manifest_hash: TOKENS_PER_SAMPLE})
        rounds = swarm.committed_rounds()
        assert {row.state for row in rows} == {CreditState.VERIFIED}
        assert {row.round_id.hex() for row in rows} == set(rounds)
        assert sum(row.tokens for row in rows) == sum(info.tokens for info in rounds.values())
        for peer in peers:
            credited = sum(row.tokens for row in rows if row.contributor == peer.peer_id)
            assert credited == sum(info.my_tokens for info in peer.told.committed)


@virtual_time
async def test_a_group_too_small_works_for_one_round_and_waits_for_the_smallest(tmp_path: Path) -> None:
    async with Swarm(tmp_path, project(minimum_peers=3)) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.pass_time(60)
        assert one.step == two.step == 0
        assert one.told.rounds == two.told.rounds == []
        assert one.state.my_samples >= swarm.project.manifest.training.target_batch_samples
        before = one.state.my_tokens_per_second
        assert before == pytest.approx(4 * TOKENS_PER_SAMPLE / 0.1, rel=0.01)
        swarm.start(3)
        await swarm.until_step(1)
        assert one.told.committed[0].my_tokens > 0
        await swarm.leave_all()


@virtual_time
async def test_one_computer_is_enough_where_the_project_says_so(tmp_path: Path) -> None:
    async with Swarm(tmp_path, project(minimum_peers=1)) as swarm:
        (one,) = swarm.start(1)
        await swarm.until_step(3)
        await one.leave()
        assert [info.members for info in one.told.committed[:3]] == [1, 1, 1]
        assert one.told.receipts == []  # nobody vouches for itself


@virtual_time
async def test_members_take_turns_at_measuring_and_all_learn_the_loss(tmp_path: Path) -> None:
    async with Swarm(tmp_path, project(evaluate_every_steps=1)) as swarm:
        peers = swarm.start(1, 2)
        await swarm.until_step(6)
        await swarm.leave_all()
        own = [
            {m.held_out_step for s, _, m in swarm.messages if s == peer.peer_id and isinstance(m, Progress)}
            for peer in peers
        ]
        assert {1, 2, 3, 4, 5} <= own[0] | own[1]
        assert len(own[0] & own[1] - {None, 0}) == 0  # nobody measures what another has measured
        for peer in peers:
            measured = {p.global_step: p.held_out_loss for p in peer.told.points if p.held_out_loss is not None}
            assert {1, 2, 3, 4} <= set(measured)
            assert peer.state.held_out_loss is not None


@virtual_time
async def test_the_curve_has_one_point_a_round(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, _two = swarm.start(1, 2)
        await swarm.until_step(4)
        await swarm.leave_all()
        points = {point.global_step: point for point in one.told.points}
        assert sorted(points)[:4] == [1, 2, 3, 4]
        assert [points[step].tokens_total for step in (1, 2, 3)] == [
            sum(info.tokens for info in one.told.committed[:count]) for count in (1, 2, 3)
        ]
        assert all(point.mine for point in points.values())


@virtual_time
async def test_the_model_writes_only_for_a_window(tmp_path: Path) -> None:
    async with Swarm(tmp_path, project(write_every_steps=1)) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until_step(2)
        assert one.state.sample is None
        one.session.post(WatcherChange(wants_samples=True))
        await swarm.until(lambda: one.state.sample is not None)
        await swarm.until(lambda: one.state.sample is not None and one.state.sample.global_step >= 5)
        assert one.state.sample is not None
        assert one.state.sample.prompt == swarm.project.manifest.prompt
        assert two.state.sample is None
        await swarm.leave_all()


@virtual_time
async def test_names_and_speeds_reach_the_others(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until(lambda: two.told.state is not None and any(p.name == "peer 1" for p in two.state.peers))
        one.session.post(NameChange("Ada"))
        await swarm.until(lambda: [p.name for p in two.state.peers] == ["Ada"])
        await swarm.until(lambda: (two.state.peers[0].samples_per_second or 0.0) > 1.0)
        assert two.state.peers[0].path == "memory"
        assert two.state.peers[0].bytes_received > 0
        await swarm.until(lambda: one.state.peers_agreeing == 1)
        await swarm.leave_all()


@virtual_time
async def test_limits_reach_trainer_and_network(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until_step(1)
        one.session.post(Limits(duty=0.5, threads=3, upload_bytes_per_second=50_000))
        await swarm.until_step(one.step + 1)
        assert (one.trainer.duty, one.trainer.threads) == (0.5, 3)
        inner = one.network._inner
        assert inner.upload_limit_bytes_per_second == 50_000  # type: ignore[attr-defined]
        assert two.trainer.duty == 1.0
        await swarm.leave_all()


# Checkpoints.


@virtual_time
async def test_checkpoints_come_at_their_steps_and_a_restart_goes_on_from_there(tmp_path: Path) -> None:
    async with Swarm(tmp_path, project(checkpoint_every_steps=2)) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until_step(4)
        assert one.state.checkpoint_step in (2, 4)
        await one.cancel()  # no last checkpoint, as after SIGKILL
        await two.leave()
        saved = one.checkpoints.load_newest()
        assert saved is not None
        assert saved.global_step >= 2
        swarm.hub.heal()
        again = [swarm.add(1).start(), swarm.add(2).start()]
        await swarm.until(lambda: all(peer.step >= 0 for peer in again))
        assert again[0].told.rounds == []
        assert again[0].model.saved_step == saved.global_step
        await swarm.until_step(two.step + 2, *again)
        await swarm.leave_all()
        assert swarm.disagreements() == []


@virtual_time
async def test_leaving_saves_and_the_next_start_is_at_that_step(tmp_path: Path) -> None:
    async with Swarm(tmp_path, project(checkpoint_every_steps=100)) as swarm:
        peers = swarm.start(1, 2)
        await swarm.until_step(3)
        await swarm.leave_all()
        for peer in peers:
            saved = peer.checkpoints.load_newest()
            assert saved is not None
            assert (saved.global_step, weights_hash(saved.weights).hex()) == peer.branch


@virtual_time
async def test_a_full_disk_is_told_and_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = True

    def write(path: Path, data: bytes, mode: int = 0o600) -> None:
        if full:
            raise OSError(28, "No space left on device")
        path.write_bytes(data)

    monkeypatch.setattr("engine.checkpoints.store.write_atomic", write)
    async with Swarm(tmp_path, project(checkpoint_every_steps=1)) as swarm:
        one, _two = swarm.start(1, 2)
        await swarm.until_step(3)
        code, action, params = one.told.problems[0]
        assert (code, action) == (ProblemCode.CHECKPOINT_DISK_FULL, ProblemAction.DISMISS)
        assert "disk is full" in str(params["detail"])
        assert params["path"] == str(tmp_path / "peer-1")  # one card, whatever the step
        assert one.state.checkpoint_step is None
        full = False
        await swarm.until(lambda: one.state.checkpoint_step is not None)
        assert ProblemCode.CHECKPOINT_DISK_FULL in one.told.mended
        await swarm.leave_all()
        assert swarm.disagreements() == []


@virtual_time
async def test_a_full_disk_at_the_end_does_not_stop_the_leaving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Swarm(tmp_path, project(checkpoint_every_steps=100)) as swarm:
        one, _two = swarm.start(1, 2)
        await swarm.until_step(1)

        def write(path: Path, data: bytes, mode: int = 0o600) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("engine.checkpoints.store.write_atomic", write)
        await one.leave()
        assert [code for code, _, _ in one.told.problems] == [ProblemCode.CHECKPOINT_DISK_FULL]
        assert one.trainer.closed
        assert one.network.closed


# The worker.


@virtual_time
async def test_a_request_for_another_try_reaches_the_trainer(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until_step(1)
        one.trainer.give_up("data_unavailable")
        await swarm.until(lambda: one.state.worker_gave_up == "data_unavailable")
        code, action, params = one.told.problems[-1]
        assert (code, action) == (ProblemCode.DATA_UNAVAILABLE, ProblemAction.RESTART_WORKER)
        assert params["detail"] == "out of memory"
        step = two.step
        await swarm.until_step(step + 2)  # it stays in step with nothing of its own
        assert one.told.committed[-1].my_tokens == 0
        one.session.post(WorkerRestart())
        await swarm.until(lambda: one.state.worker_gave_up == "" and one.told.committed[-1].my_tokens > 0)
        assert one.trainer.started_again == 1
        await swarm.leave_all()
        assert swarm.disagreements() == []


@virtual_time
async def test_trainers_hand_over_what_the_weights_of_the_step_ask_for(tmp_path: Path) -> None:
    """The toy's gradient at its goal is noise: the trainer computes on the weights that it was given."""
    async with Swarm(tmp_path) as swarm:
        one, _two = swarm.start(1, 2)
        await swarm.until_step(2)
        await swarm.leave_all()
        first = one.trainer.spent[0]
        weights = initial_state(swarm.project.manifest.model, swarm.project.manifest_hash).weights
        pull = first.samples * (weights - np.float32(0.1))
        assert np.abs(first.gradients - pull).max() < 0.2


@virtual_time
async def test_a_worker_rests_while_too_few_are_there_and_goes_on_with_what_it_has(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        (one,) = swarm.start(1)
        await swarm.until(lambda: one.told.state is not None and one.state.worker_state == "paused")
        await swarm.pass_time(600.0)
        samples = one.state.my_samples
        assert 32 <= samples <= 32 + one.trainer.micro_batch_samples
        one.session.post(Limits(duty=0.5, threads=2))
        await swarm.until(lambda: one.trainer.threads == 2)
        assert one.trainer.duty == 0.0
        (two,) = swarm.start(2)
        await swarm.until_step(2)
        assert one.trainer.duty == 0.5
        assert one.trainer.spent[0].samples >= samples
        await two.leave()
        await swarm.until(lambda: one.state.worker_state == "paused")
        await swarm.leave_all()
        assert swarm.disagreements() == []
