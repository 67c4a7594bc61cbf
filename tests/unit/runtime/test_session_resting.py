"""A worker that ends to give back memory: what it accumulated is handed in, or another goes on from it."""

from pathlib import Path

import numpy as np

from engine.runtime.session_events import Limits
from tests.helpers.run_session import Peer, Swarm, project
from tests.helpers.virtual_time import virtual_time

PAUSE = Limits(duty=0.0, threads=1)
GO = Limits(duty=1.0, threads=1)


async def pause(swarm: Swarm, peer: Peer) -> int:
    """Pause; the samples that it has then."""
    peer.session.post(PAUSE)
    await swarm.until(lambda: peer.trainer.duty == 0.0)
    return peer.state.my_samples


async def rest(swarm: Swarm, peer: Peer) -> None:
    peer.trainer.wants_rest()
    await swarm.until(lambda: peer.trainer.resting and peer.state.worker_state == "stopped")


@virtual_time
async def test_a_round_carries_what_a_resting_worker_left(tmp_path: Path) -> None:
    async with Swarm(tmp_path, project(target_batch_samples=64)) as swarm:
        one, two = swarm.start(1, 2, think_seconds=0.5)
        await swarm.until_step(1)
        await swarm.until(lambda: one.step == two.step and one.state.my_samples >= 8)
        mine = await pause(swarm, one)
        await rest(swarm, one)
        assert one.state.my_samples == mine
        assert one.trainer.calls[-1] == "rest"
        step = one.step
        await swarm.until_step(step + 1)
        assert one.told.committed[-1].my_tokens == mine * 32
        assert one.state.my_samples == 0
        assert one.trainer.resting
        assert swarm.disagreements() == []
        await swarm.leave_all()


@virtual_time
async def test_the_next_worker_goes_on_from_it(tmp_path: Path) -> None:
    async with Swarm(tmp_path, project(minimum_peers=2, target_batch_samples=32)) as swarm:
        (one,) = swarm.start(1, think_seconds=0.5)  # nobody to hand it in to
        await swarm.until(lambda: one.told.state is not None and one.state.my_samples >= 12)
        mine = await pause(swarm, one)
        await rest(swarm, one)
        left = one.trainer.gradients().copy()
        assert np.any(left)
        one.session.post(GO)
        await swarm.until(lambda: one.state.my_samples > mine)
        assert "train 0 carried" in one.trainer.calls
        assert one.state.worker_restarts == 0
        swarm.start(2)
        await swarm.until_step(1)
        spent = one.trainer.spent[-1]
        assert spent.samples > mine
        assert swarm.disagreements() == []
        await swarm.leave_all()


@virtual_time
async def test_gradients_of_a_step_that_is_past_are_worth_nothing(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two, three = swarm.start(1, 2, 3)
        await swarm.until_step(1)
        await pause(swarm, one)
        await swarm.until_step(one.step + 3, two, three)
        await rest(swarm, one)
        one.session.post(GO)
        await swarm.until(lambda: one.told.committed[-1].my_tokens > 0 and one.step > 5)
        assert not any("carried" in call for call in one.trainer.calls)
        assert swarm.disagreements() == []
        await swarm.leave_all()


@virtual_time
async def test_a_rest_waits_for_the_round_in_progress(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, _two = swarm.start(1, 2)
        await swarm.until_step(1)
        await swarm.until(lambda: one.state.in_round or one.trainer.state == "frozen")
        one.trainer.wants_rest()
        await swarm.until_step(one.step + 2)
        assert swarm.disagreements() == []
        await swarm.leave_all()


@virtual_time
async def test_resting_with_nothing_accumulated_leaves_nothing(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        (one,) = swarm.start(1, most_samples=0)
        await swarm.until(lambda: one.told.state is not None and one.state.worker_state == "training")
        await pause(swarm, one)
        await rest(swarm, one)
        one.session.post(GO)
        await swarm.until(lambda: one.state.worker_state == "training")
        assert one.trainer.calls[-1] == "train 0"
        await swarm.leave_all()
