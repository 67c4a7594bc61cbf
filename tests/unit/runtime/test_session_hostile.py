"""A peer that means ill, or is broken: the session refuses it, and goes on with the others."""

import random
from pathlib import Path

import msgspec
import pytest

from engine.wire.limits import HELLO_DEADLINE_SECONDS, MAX_MESSAGES_PER_SECOND
from engine.wire.messages import (
    PROTOCOL_VERSION,
    Abstain,
    Accept,
    AveragedPart,
    Begin,
    Chunk,
    ChunkRequest,
    Commit,
    Decline,
    Discard,
    Goodbye,
    Member,
    Part,
    PeerMessage,
    Propose,
    StateOffer,
    StateRequest,
    StateUnavailable,
    Vote,
)
from tests.helpers.rogue import Rogue
from tests.helpers.run_session import Peer, Swarm
from tests.helpers.virtual_time import virtual_time


async def goes_on(swarm: Swarm, *peers: Peer, rounds: int = 3) -> None:
    """The honest step on together, and are not held up."""
    chosen = peers or tuple(swarm.peers)
    step = max(peer.step for peer in chosen)
    await swarm.until_step(step + rounds, *chosen)
    assert swarm.disagreements(*chosen) == []
    for peer in chosen:
        assert peer.told.problems == []


GARBAGE: list[bytes] = [
    b"",
    b"\x00",
    b"\xc1",
    b"\xff" * 100,
    b"GET / HTTP/1.1\r\n\r\n",
    random.Random(1).randbytes(300),
    msgspec.msgpack.encode({"type": "no_such_message"}),
    msgspec.msgpack.encode({"type": "hello", "protocol_version": -1, "manifest_hash": b"x", "software": "s"}),
    msgspec.msgpack.encode([[[[[]]]]] * 50),
    b"\x81\xa4type\xa5propo",
]


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
@pytest.mark.parametrize("bulk", [False, True])
def test_garbage_costs_its_sender_the_link(tmp_path: Path, data: bytes, bulk: bool) -> None:
    @virtual_time
    async def run() -> None:
        async with Swarm(tmp_path) as swarm:
            one, two = swarm.start(1, 2)
            async with Rogue(swarm) as rogue:
                await rogue.hello(one)
                await rogue.raw(one, data, bulk=bulk)
                await swarm.until(lambda: one.peer_id in rogue.dropped)
                await goes_on(swarm, one, two)
            await swarm.leave_all()

    run()


@virtual_time
async def test_before_the_hello_nothing_else_is_taken(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        async with Rogue(swarm) as rogue:
            await rogue.claim_branch_of(one)
            await swarm.until(lambda: one.peer_id in rogue.dropped)
            assert "before the hello" in rogue.dropped[one.peer_id]
            await goes_on(swarm, one, two)
            assert all(row.peer_id != rogue.peer_id for row in one.state.peers)
        await swarm.leave_all()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"protocol_version": PROTOCOL_VERSION + 1}, "protocol version"),
        ({"manifest_hash": b"\x07" * 32}, "trains project"),
    ],
)
def test_another_version_or_project_is_refused(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    @virtual_time
    async def run() -> None:
        async with Swarm(tmp_path) as swarm:
            one, two = swarm.start(1, 2)
            async with Rogue(swarm) as rogue:
                await rogue.hello(one, **changes)
                await swarm.until(lambda: one.peer_id in rogue.dropped)
                assert reason in rogue.dropped[one.peer_id]
                await goes_on(swarm, one, two)
            await swarm.leave_all()

    run()


@virtual_time
async def test_a_peer_that_never_says_hello_is_dropped_and_does_not_count(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        (one,) = swarm.start(1)
        async with Rogue(swarm) as rogue:
            await swarm.pass_time(HELLO_DEADLINE_SECONDS - 2)
            assert one.state.peers == ()
            assert rogue.peer_id not in one.told.hashes
            await swarm.until(lambda: one.peer_id in rogue.dropped, seconds=6)
        assert one.step == 0
        await swarm.leave_all()


@virtual_time
async def test_a_second_hello_ends_the_link_and_what_came_after_it_is_not_heard(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        async with Rogue(swarm) as rogue:
            await rogue.hello(one)
            await rogue.hello(one)
            await rogue.say(one, Propose(round_id=bytes(16), global_step=0, weights_hash=bytes(32), attempt=0))
            await swarm.until(lambda: one.peer_id in rogue.dropped)
            assert "second hello" in rogue.dropped[one.peer_id]
            await goes_on(swarm, one, two)
            assert rogue.of(Decline) == []
        await swarm.leave_all()


def propose(number: int, step: int = 0, weights_hash: bytes = bytes(32)) -> Propose:
    return Propose(round_id=number.to_bytes(16, "big"), global_step=step, weights_hash=weights_hash, attempt=number % 7)


@virtual_time
async def test_a_flood_of_proposals_is_declined_then_cut(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until_step(1)
        async with Rogue(swarm) as rogue:
            await rogue.hello(one)
            count = 0
            while one.peer_id not in rogue.dropped and count < 40 * MAX_MESSAGES_PER_SECOND:
                count += 1
                await rogue.say(one, propose(count))
                if count % 100 == 0:
                    await swarm.pass_time(0.01)
            assert one.peer_id in rogue.dropped
            await goes_on(swarm, one, two)
        await swarm.leave_all()


@virtual_time
async def test_a_proposal_out_of_turn_or_off_the_branch_is_declined(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2, think_seconds=5.0)
        await swarm.until(lambda: one.told.state is not None and len(one.state.peers) == 1)
        async with Rogue(swarm) as rogue:
            await rogue.hello(one)
            await rogue.claim_branch_of(one)
            for step, digest in ((0, b"\x01" * 32), (7, one.model.weights_hash), (0, one.model.weights_hash)):
                await rogue.say(one, propose(step + 1, step, digest))
            await swarm.until(lambda: len(rogue.of(Decline)) == 3)
            reasons = [message.reason for message in rogue.of(Decline) if isinstance(message, Decline)]
            assert reasons == ["the weights differ", "at step 0", "not this computer's turn to lead"]
            assert one.trainer.calls == ["train 0"]
        await goes_on(swarm, one, two, rounds=1)
        await swarm.leave_all()


@virtual_time
async def test_a_leader_that_proposes_and_says_no_more_holds_up_one_round(tmp_path: Path) -> None:
    """It claims a full batch, so that it is its turn by the lot now and then."""
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        async with Rogue(swarm) as rogue:
            await rogue.hello(one, two)
            before = len(rogue.of(Propose))
            for number in range(40):
                await rogue.claim_branch_of(one, one, two, samples=32, samples_per_second=1e9)
                for target in (one, two):
                    await rogue.say(target, propose(number, target.model.global_step, target.model.weights_hash))
                await swarm.pass_time(1.0)
            assert one.step >= 2
            assert len(rogue.of(Propose)) > before  # it was asked, and did not answer
            assert swarm.disagreements() == []
        await goes_on(swarm, one, two)
        await swarm.leave_all()


def strays(swarm: Swarm, one: Peer) -> list[PeerMessage]:
    """Every round message, for a round that nobody holds and for the one in progress (of which a rogue is no part)."""
    ids = [bytes(16), *(m.round_id for _, _, m in swarm.messages[-20:] if isinstance(m, Propose))]
    member = Member(peer_id=one.peer_id, samples=4, tokens=128, loss_sum=1.0, share=6448)
    found: list[PeerMessage] = []
    for round_id in ids:
        found += [
            Accept(round_id=round_id, samples=4, tokens=128, loss_sum=1.0, upload_bytes_per_second=0.0),
            Decline(round_id=round_id, reason="no"),
            Begin(round_id=round_id, global_step=one.step, members=(member,)),
            Part(round_id=round_id, payload=bytes(4 * 6448)),
            AveragedPart(round_id=round_id, contributors=(0,), payload=bytes(4 * 6448)),
            Vote(round_id=round_id, digests=(bytes(32),)),
            Abstain(round_id=round_id, reason="no"),
            Commit(round_id=round_id, global_step=one.step, digests=(bytes(32),), accepted=(0,)),
            Discard(round_id=round_id, reason="void", blame=one.peer_id),
        ]
    return found


@virtual_time
async def test_round_messages_from_outside_the_round_change_nothing(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until_step(1)
        async with Rogue(swarm) as rogue:
            await rogue.hello(one, two)
            for _ in range(4):
                for message in strays(swarm, one):
                    await rogue.say(one, message)
                    await rogue.say(two, message)
                await goes_on(swarm, one, two, rounds=1)
        for peer in (one, two):
            assert all(info.committed for info in peer.told.rounds)
            assert all(info.members == 2 for info in peer.told.rounds)
        await swarm.leave_all()


# State transfer.


def offer(**changes: object) -> StateOffer:
    fields: dict[str, object] = {
        "kind": "state",
        "from_step": 0,
        "global_step": 9,
        "state_hash": b"\x05" * 32,
        "weights_hash": b"\x06" * 32,
        "size_bytes": 70_000,
        "chunk_bytes": 1024,
        **changes,
    }
    return StateOffer(**fields)  # type: ignore[arg-type]


@virtual_time
async def test_transfers_that_nobody_asked_for_are_ignored(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until_step(1)
        async with Rogue(swarm) as rogue:
            await rogue.hello(one)
            for message in (
                offer(),
                offer(size_bytes=2**53),
                Chunk(state_hash=b"\x05" * 32, index=0, payload=bytes(1024)),
                StateUnavailable(reason="none of your business"),
                ChunkRequest(state_hash=b"\x05" * 32, index=2**31),
            ):
                await rogue.say(one, message)
            await swarm.until(lambda: len(rogue.of(StateUnavailable)) == 1)
            await goes_on(swarm, one, two)
        await swarm.leave_all()


LIES: dict[str, list[PeerMessage]] = {
    "absurd size": [offer(size_bytes=2**53)],
    "empty": [offer(size_bytes=0)],
    "steps of nowhere": [offer(kind="deltas", from_step=12345)],
    "nothing": [StateUnavailable(reason="changed my mind")],
    "a chunk that was not asked for": [offer(), Chunk(state_hash=b"\x05" * 32, index=60, payload=bytes(1024))],
    "a chunk too long": [offer(), Chunk(state_hash=b"\x05" * 32, index=0, payload=bytes(4096))],
}


@pytest.mark.parametrize("lie", LIES)
def test_a_liar_about_a_later_step_is_found_out_and_left_alone(tmp_path: Path, lie: str) -> None:
    """It claims to be ahead, is asked for its state, and has none."""

    @virtual_time
    async def run() -> None:
        async with Swarm(tmp_path) as swarm:
            one, two = swarm.start(1, 2)
            await swarm.until_step(1)
            async with Rogue(swarm) as rogue:
                await rogue.hello(one, two)
                await rogue.progress(one, two, global_step=99, weights_hash=b"\x06" * 32)
                await swarm.until(lambda: bool(rogue.of(StateRequest)))
                for message in LIES[lie]:
                    await rogue.say(one, message)
                    await rogue.say(two, message)
                await goes_on(swarm, one, two)
                assert one.trainer.state == two.trainer.state == "training"
            await swarm.leave_all()

    run()


@virtual_time
async def test_a_donor_that_sends_rubbish_is_found_out_by_the_hash(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until_step(1)
        async with Rogue(swarm) as rogue:
            await rogue.hello(one, two)
            await rogue.progress(one, two, global_step=99, weights_hash=b"\x06" * 32)
            await swarm.until(lambda: {peer for peer, m in rogue.heard if isinstance(m, StateRequest)} >= {one.peer_id})
            await rogue.say(one, offer(size_bytes=2048))
            await swarm.until(lambda: len(rogue.of(ChunkRequest)) >= 2)
            for index in range(2):
                await rogue.say(one, Chunk(state_hash=b"\x05" * 32, index=index, payload=bytes(1024)))
            await goes_on(swarm, one, two)
        await swarm.leave_all()


@virtual_time
async def test_a_peer_that_asks_for_the_state_again_and_again_is_answered_a_few_times(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until_step(1)
        async with Rogue(swarm) as rogue:
            await rogue.hello(one)
            for number in range(200):
                await rogue.say(one, StateRequest(from_step=number * 1000))
            await swarm.until(lambda: len(rogue.of(StateOffer)) + len(rogue.of(StateUnavailable)) == 200)
            assert 1 <= len(rogue.of(StateOffer)) <= 8
            await goes_on(swarm, one, two)
        await swarm.leave_all()


# Claims.


@virtual_time
async def test_a_claimed_held_out_loss_of_the_far_future_is_not_shown(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        async with Rogue(swarm) as rogue:
            await rogue.hello(one, two)
            await swarm.until(lambda: any(row.peer_id == rogue.peer_id for row in one.state.peers))
            await rogue.progress(one, two, held_out_loss=0.001, held_out_step=2**50)
            await rogue.progress(one, two, held_out_loss=float("nan"), held_out_step=0)
            await goes_on(swarm, one, two, rounds=4)
            assert one.state.held_out_loss is not None
            assert one.state.held_out_loss != 0.001
            assert one.told.points[-1].held_out_loss is None or one.told.points[-1].held_out_loss > 0.001
        await swarm.leave_all()


@virtual_time
async def test_an_absurd_rate_cannot_keep_the_honest_from_stepping(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        one, two = swarm.start(1, 2)
        await swarm.until_step(1)
        async with Rogue(swarm) as rogue:
            await rogue.hello(one, two)
            for _ in range(20):
                await rogue.claim_branch_of(one, one, two, samples=2**53, samples_per_second=1e15, training=False)
                await swarm.pass_time(0.5)
            assert min(one.step, two.step) >= 2
            await goes_on(swarm, one, two)
        await swarm.leave_all()


@virtual_time
async def test_a_goodbye_ends_the_link_at_once(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        (one,) = swarm.start(1)
        async with Rogue(swarm) as rogue:
            await rogue.hello(one)
            await swarm.until(lambda: one.told.state is not None and len(one.state.peers) == 1)
            await rogue.say(one, Goodbye(reason="bye"))
            await swarm.until(lambda: one.state.peers == () and one.peer_id in rogue.dropped)
        await swarm.leave_all()
