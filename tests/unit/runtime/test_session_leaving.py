"""How a session ends and pauses: nothing is lost that a round could still carry, nothing is left behind."""

import asyncio
from pathlib import Path

import pytest

from engine.checkpoints.errors import CheckpointError
from engine.runtime.session import LEAVE_SECONDS
from engine.runtime.session_events import LeaveRequest, Limits
from engine.wire.messages import Begin, Goodbye, Progress, StateRequest
from tests.helpers.run_session import Peer, Swarm
from tests.helpers.virtual_time import virtual_time


@virtual_time
async def test_leaving_after_the_round_delivers_the_last_work(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two, three = swarm.start(1, 2, 3)
        await swarm.until_step(2)
        await swarm.until(lambda: one.state.my_samples > 0)
        await one.leave("after_round")
        last = one.told.committed[-1]
        assert last.global_step == one.step >= 3
        assert last.my_tokens > 0
        assert one.state.my_samples == 0
        assert any(s == one.peer_id and isinstance(m, Goodbye) for s, _, m in swarm.messages)
        await swarm.until(lambda: [len(peer.state.peers) for peer in (two, three)] == [1, 1])
        await swarm.until_step(one.step + 2, two, three)
        assert two.told.committed[-1].members == 2
        await swarm.leave_all()


@virtual_time
async def test_leaving_with_nothing_done_is_at_once(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        (one,) = swarm.start(1, most_samples=0)
        await swarm.pass_time(5)
        before = asyncio.get_running_loop().time()
        await one.leave("after_round")
        assert asyncio.get_running_loop().time() - before < 3.0


@virtual_time
async def test_leaving_waits_for_no_round_that_cannot_come(tmp_path: Path) -> None:
    """Alone in a project for two: the work cannot be delivered, and the wait has an end."""
    async with Swarm(tmp_path) as swarm:
        (one,) = swarm.start(1)
        await swarm.pass_time(5)
        before = asyncio.get_running_loop().time()
        await one.leave("after_round")
        assert asyncio.get_running_loop().time() - before <= LEAVE_SECONDS + 3.0


@virtual_time
async def test_a_second_word_hastens_a_polite_leave_and_never_delays_it(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        (one,) = swarm.start(1)
        await swarm.pass_time(5)
        before = asyncio.get_running_loop().time()
        one.session.post(LeaveRequest("after_round"))
        one.session.post(LeaveRequest("now"))
        await one.leave("after_round")
        assert asyncio.get_running_loop().time() - before < 3.0


@virtual_time
async def test_leaving_now_does_not_wait_for_the_round(tmp_path: Path) -> None:
    """The other members fall silent in the middle of a round; whoever leaves now is not held up by that."""
    async with Swarm(tmp_path) as swarm:
        one, two, three = swarm.start(1, 2, 3)
        await swarm.until_step(1)
        silent = asyncio.Event()

        def silence(source: str, _target: str, message: object) -> None:
            if isinstance(message, Begin):
                silent.set()
                for peer in (two, three):
                    swarm.hub.mute(peer.peer_id)

        swarm.taps.append(silence)
        await silent.wait()
        before = asyncio.get_running_loop().time()
        await one.leave("now")
        assert asyncio.get_running_loop().time() - before < 3.0
        assert one.trainer.closed


@virtual_time
async def test_leaving_now_does_not_wait_for_a_download(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until_step(2)
        late = swarm.add(3).start()
        asked = asyncio.Event()

        def fall_silent(source: str, _target: str, message: object) -> None:
            if source == late.peer_id and isinstance(message, StateRequest):
                asked.set()
                for peer in (one, two):
                    swarm.hub.mute(peer.peer_id)

        swarm.taps.append(fall_silent)
        await asked.wait()
        before = asyncio.get_running_loop().time()
        await late.leave("now")
        assert asyncio.get_running_loop().time() - before < 3.0


# Pausing.


@virtual_time
async def test_a_pause_delivers_what_was_done_and_then_stays_out(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two, three = swarm.start(1, 2, 3)
        await swarm.until_step(1)
        await swarm.until(lambda: one.step == two.step and one.state.my_samples > 0)
        one.session.post(Limits(duty=0.0, threads=1))
        await swarm.until(lambda: one.trainer.duty == 0.0)
        mine = one.state.my_samples
        step = one.step
        await swarm.until_step(step + 1)
        assert one.told.committed[-1].my_tokens == mine * 32
        await swarm.until_step(step + 4, two, three)
        assert one.step == step + 1
        assert [info.members for info in two.told.committed[-2:]] == [2, 2]
        assert one.state.my_samples == 0
        assert one.trainer.state == "paused"
        await swarm.leave_all()


@virtual_time
async def test_after_a_pause_it_catches_up_and_contributes_again(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two, three = swarm.start(1, 2, 3)
        await swarm.until_step(1)
        one.session.post(Limits(duty=0.0, threads=1))
        await swarm.until_step(6, two, three)
        assert one.step < 5
        one.session.post(Limits(duty=1.0, threads=1))
        await swarm.until(lambda: one.told.committed[-1].global_step > 6 and one.told.committed[-1].my_tokens > 0)
        await swarm.leave_all()
        assert swarm.disagreements() == []


@virtual_time
async def test_a_paused_peer_is_not_waited_for(tmp_path: Path) -> None:
    """It says so in its progress, and the others' rounds take no longer for it."""
    async with Swarm(tmp_path) as swarm:
        one, two, three = swarm.start(1, 2, 3)
        one.session.post(Limits(duty=0.0, threads=1))
        await swarm.until_step(3, two, three)
        assert max(info.seconds for info in two.told.committed) < 1.0
        said = [m.training for s, _, m in swarm.messages if s == one.peer_id and isinstance(m, Progress)]
        assert said[-1] is False
        await swarm.leave_all()


# Ends that are not asked for.


def leftovers(peer: Peer) -> list[str]:
    names = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    return [name for name in names if name.startswith("session")]


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.37, 1.01, 3.33])
def test_cancelling_closes_everything(tmp_path: Path, seconds: float) -> None:
    @virtual_time
    async def run() -> None:
        async with Swarm(tmp_path) as swarm:
            one, two = swarm.start(1, 2)
            await swarm.pass_time(seconds)
            for peer in (one, two):
                await peer.cancel()
                assert peer.task is not None
                assert peer.task.cancelled()
                assert (peer.network.closed, peer.trainer.closed, peer.rendezvous.closed) == (True, True, True)
            assert leftovers(one) == []

    run()


@virtual_time
async def test_a_network_that_cannot_be_closed_leaves_no_worker_behind(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one = swarm.add(1)
        inner = one.network.close

        async def close() -> None:
            await inner()
            raise OSError("the socket is stuck")

        one.network.close = close  # type: ignore[method-assign]
        one.start()
        with pytest.raises(OSError, match="stuck"):
            await one.leave()
        assert one.trainer.closed
        assert one.rendezvous.closed
        one.task = None


@virtual_time
async def test_a_fault_of_ours_ends_the_session_and_is_not_hidden(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, _two = swarm.start(1, 2)
        await swarm.until_step(1)

        def broken() -> None:
            raise KeyError("no such thing")

        one.trainer.gradients = broken  # type: ignore[method-assign, assignment]
        assert one.task is not None
        with pytest.raises(KeyError):
            await one.task
        assert (one.network.closed, one.trainer.closed) == (True, True)
        one.task = None


@virtual_time
async def test_a_network_that_ends_by_itself_ends_the_session(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, _two = swarm.start(1, 2)
        await swarm.until_step(1)
        await one.network.close()
        assert one.task is not None
        with pytest.raises(RuntimeError, match="ended by itself"):
            await one.task
        assert one.trainer.closed
        one.task = None


@virtual_time
async def test_a_folder_that_cannot_be_read_ends_the_session_before_it_begins(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one = swarm.add(1)
        (tmp_path / "peer-1").rmdir()
        (tmp_path / "peer-1").write_bytes(b"in the way")
        with pytest.raises(CheckpointError, match="peer-1"):
            await one.session.run()
        assert (one.network.closed, one.trainer.closed) == (True, True)
