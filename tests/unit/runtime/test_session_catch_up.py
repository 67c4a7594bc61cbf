"""Whoever is behind fetches what it lacks and goes on with the others: late joiners, the cut off, the forked."""

from pathlib import Path

import pytest

from engine.runtime.catch_up import OFFER_WAIT_SECONDS
from engine.runtime.model import MAX_DELTAS
from engine.runtime.session_events import Limits
from engine.wire.messages import Chunk, ChunkRequest, Progress, StateOffer, StateRequest
from tests.helpers.run_session import Peer, Swarm, project
from tests.helpers.virtual_time import virtual_time


def offers_to(swarm: Swarm, peer: Peer) -> list[StateOffer]:
    return [m for _, target, m in swarm.messages if target == peer.peer_id and isinstance(m, StateOffer)]


async def contributes(swarm: Swarm, peer: Peer, beyond: int) -> None:
    await swarm.until(
        lambda: any(info.global_step > beyond and info.my_tokens > 0 for info in peer.told.committed[-3:])
    )


@virtual_time
async def test_a_late_joiner_fetches_the_missed_steps_and_contributes(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until_step(5)
        late = swarm.add(3).start()
        await contributes(swarm, late, 5)
        kinds = {offer.kind for offer in offers_to(swarm, late)}
        assert kinds == {"deltas"}
        assert late.told.committed[0].global_step > 5
        assert swarm.disagreements() == []
        assert late.state.catch_up_fraction is None
        await swarm.until(lambda: two.told.committed[-1].members == 3)
        await swarm.leave_all()
        assert one.told.problems == late.told.problems == []


@virtual_time
async def test_a_joiner_that_missed_too_much_fetches_everything(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until_step(MAX_DELTAS + 3)
        late = swarm.add(3).start()
        await contributes(swarm, late, MAX_DELTAS + 3)
        assert {offer.kind for offer in offers_to(swarm, late)} == {"state"}
        assert swarm.disagreements() == []
        assert {one.branch[0], two.branch[0]} >= {late.branch[0]}
        await swarm.leave_all()


@virtual_time
async def test_a_restarted_peer_needs_only_the_steps_since_its_checkpoint(tmp_path: Path) -> None:
    async with Swarm(tmp_path, project(checkpoint_every_steps=2)) as swarm:
        one, two, three = swarm.start(1, 2, 3)
        await swarm.until_step(4)
        await three.cancel()
        saved = three.checkpoints.load_newest()
        assert saved is not None
        await swarm.until_step(8, one, two)
        again = swarm.add(3).start()
        await contributes(swarm, again, 8)
        assert {(offer.kind, offer.from_step) for offer in offers_to(swarm, again)} == {("deltas", saved.global_step)}
        assert swarm.disagreements() == []
        await swarm.leave_all()


@virtual_time
async def test_while_it_fetches_it_says_that_it_does_not_train(tmp_path: Path) -> None:
    """The donors are slow to answer, so that it fetches for a while."""
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until_step(2)
        late = swarm.add(3).start()

        def fall_silent(source: str, target: str, message: object) -> None:
            if source == late.peer_id and isinstance(message, StateRequest):
                swarm.hub.mute(target)

        swarm.taps.append(fall_silent)
        await swarm.until(lambda: late.told.state is not None and late.state.catch_up_fraction is not None)
        begun = len(swarm.messages)
        await swarm.pass_time(OFFER_WAIT_SECONDS - 2)
        assert late.state.catch_up_fraction == 0.0
        assert late.trainer.state == "frozen"
        said = [m for s, _, m in swarm.messages[begun:] if s == late.peer_id and isinstance(m, Progress)]
        assert said
        assert not any(m.training for m in said)
        swarm.taps.clear()
        swarm.hub.heal()
        await contributes(swarm, late, 2)
        assert late.state.catch_up_fraction is None
        assert one.told.problems == two.told.problems == []
        await swarm.leave_all()


@virtual_time
async def test_a_fetch_survives_the_loss_of_a_donor(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two, three = swarm.start(1, 2, 3)
        await swarm.until_step(4)
        late = swarm.add(4).start()
        gone: list[str] = []

        def vanish(source: str, target: str, message: object) -> None:
            if not gone and source == late.peer_id and isinstance(message, ChunkRequest):
                gone.append(target)
                swarm.hub.isolate(target)

        swarm.taps.append(vanish)
        await contributes(swarm, late, 4)
        left = [peer for peer in (one, two, three, late) if peer.peer_id not in gone]
        assert len(left) == 3
        assert swarm.disagreements(*left) == []
        await swarm.leave_all()


@virtual_time
async def test_a_donor_that_falls_silent_is_left_for_another(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two, three = swarm.start(1, 2, 3)
        await swarm.until_step(4)
        late = swarm.add(4).start()
        gone: list[str] = []

        def fall_silent(source: str, target: str, message: object) -> None:
            if not gone and source == late.peer_id and isinstance(message, StateRequest):
                gone.append(target)
                swarm.hub.mute(target)

        swarm.taps.append(fall_silent)
        await contributes(swarm, late, 4)
        left = [peer for peer in (one, two, three, late) if peer.peer_id not in gone]
        assert swarm.disagreements(*left) == []
        await swarm.leave_all()


@virtual_time
async def test_when_the_only_donor_goes_it_waits_and_then_tries_the_next(tmp_path: Path) -> None:
    async with Swarm(tmp_path, project(minimum_peers=2)) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until_step(3)
        late = swarm.add(3)
        swarm.hub.drop_link(late.peer_id, two.peer_id)
        late.start()
        gone: list[str] = []

        def vanish(source: str, target: str, message: object) -> None:
            if not gone and source == late.peer_id and isinstance(message, StateRequest):
                gone.append(target)
                swarm.hub.drop_link(source, target)

        swarm.taps.append(vanish)
        await swarm.until(lambda: bool(gone))
        await swarm.pass_time(OFFER_WAIT_SECONDS)
        assert late.step == 0
        assert late.trainer.state == "paused"  # alone, with all that a round takes
        swarm.hub.heal()
        await contributes(swarm, late, 3)
        assert swarm.disagreements() == []
        assert one.told.problems == []
        await swarm.leave_all()


# Forks.


@pytest.mark.parametrize("seconds", [2.0, 20.0])
def test_two_halves_that_stepped_apart_become_one_again(tmp_path: Path, seconds: float) -> None:
    @virtual_time
    async def run() -> None:
        async with Swarm(tmp_path) as swarm:
            one, two = swarm.start(1, 2)
            three, four = swarm.start(3, 4, think_seconds=0.15)
            await swarm.until_step(2)
            swarm.hub.partition({one.peer_id, two.peer_id}, {three.peer_id, four.peer_id})
            await swarm.pass_time(seconds)
            assert swarm.disagreements() != []
            assert one.step > three.step > 2
            swarm.hub.heal()
            healed = max(peer.step for peer in swarm.peers)
            await swarm.until_one_branch()
            for peer in swarm.peers:
                await contributes(swarm, peer, healed)
            after = {
                step: {p.told.hashes[step] for p in swarm.peers if step in p.told.hashes}
                for step in range(healed + 1, min(peer.step for peer in swarm.peers) + 1)
            }
            assert all(len(digests) == 1 for digests in after.values())
            for peer in swarm.peers:
                assert peer.told.problems == []
            await swarm.leave_all()

    run()


@virtual_time
async def test_a_fork_heals_without_a_long_wait(tmp_path: Path) -> None:
    """The missed steps alone do not lead there, which is nobody's fault: the whole state is asked for at once."""
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        three, four = swarm.start(3, 4, think_seconds=0.15)
        await swarm.until_step(2)
        swarm.hub.partition({one.peer_id, two.peer_id}, {three.peer_id, four.peer_id})
        await swarm.pass_time(3.0)
        swarm.hub.heal()
        await swarm.until(lambda: three.branch in (one.branch, two.branch), seconds=5.0)
        await swarm.until_one_branch()
        await swarm.leave_all()


@virtual_time
async def test_equal_steps_with_other_weights_heal_to_one(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two, three, four = swarm.start(1, 2, 3, 4)
        await swarm.until_step(2)
        swarm.hub.partition({one.peer_id, two.peer_id}, {three.peer_id, four.peer_id})
        await swarm.until(lambda: min(p.step for p in swarm.peers) >= 4)
        for peer in swarm.peers:
            peer.trainer.most_samples = 0  # nobody steps on
        await swarm.pass_time(10)
        assert len({peer.branch for peer in swarm.peers}) >= 2
        swarm.hub.heal()
        await swarm.until_one_branch()
        await swarm.leave_all()


# What a fetch must not disturb.


@virtual_time
async def test_a_paused_peer_does_not_fetch_until_it_goes_on(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until_step(3)
        late = swarm.add(3)
        late.session.post(Limits(duty=0.0, threads=1))
        late.start()
        await swarm.until_step(6, one, two)
        asked = [m for s, _, m in swarm.messages if s == late.peer_id and isinstance(m, StateRequest)]
        assert asked == []
        late.session.post(Limits(duty=1.0, threads=1))
        await contributes(swarm, late, 6)
        await swarm.leave_all()


@virtual_time
async def test_chunks_come_from_every_donor_that_holds_the_same(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two, three = swarm.start(1, 2, 3, most_samples=0)
        peers = (one, two, three)
        for peer in peers:
            peer.trainer.most_samples = 1000
            peer.trainer._plan()
        await swarm.until_step(MAX_DELTAS + 4)
        for peer in peers:
            peer.trainer.most_samples = 0
        await swarm.pass_time(5)
        late = swarm.add(4)
        late.session.post(Limits(duty=0.0, threads=1))
        late.start()
        await swarm.until(lambda: late.told.state is not None and len(late.state.peers) == 3)
        await swarm.pass_time(1)
        late.session.post(Limits(duty=1.0, threads=1))
        await swarm.until(lambda: late.step >= MAX_DELTAS + 4)
        givers = {s for s, target, m in swarm.messages if target == late.peer_id and isinstance(m, Chunk)}
        offered = {s for s, target, m in swarm.messages if target == late.peer_id and isinstance(m, StateOffer)}
        assert len(offered) == 3
        assert len({o.state_hash for o in offers_to(swarm, late)}) == 1  # so any of them could give any chunk
        assert givers
        assert late.branch == one.branch
        await swarm.leave_all()
