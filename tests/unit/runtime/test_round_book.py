"""What is written down of rounds."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from engine.averaging.effects import RoundResult, RoundSetup
from engine.ledger.signing import members_hash, open_receipt
from engine.runtime.model import ModelState
from engine.runtime.round_book import KEPT_POINTS, RoundBook
from engine.wire.messages import Member
from tests.helpers.hub_samples import identity
from tests.helpers.run_session import Swarm
from tests.helpers.virtual_time import EPOCH, LoopClock, virtual_time

ME, ANN, BEN = (identity(number) for number in (1, 2, 3))


def member(who: Any, samples: int, share: int) -> Member:
    return Member(peer_id=who.peer_id, samples=samples, tokens=samples * 32, loss_sum=samples * 1.0, share=share)


def result(roll: list[Member], accepted: tuple[int, ...], round_id: bytes = bytes(16)) -> RoundResult:
    tokens = sum(roll[index].tokens for index in accepted)
    return RoundResult(
        round_id=round_id,
        leader=ANN.peer_id,
        global_step=0,
        mean=(),
        digests=(),
        roll=tuple(roll),
        contributors=(),
        slices=((0, 1),),
        accepted=accepted,
        samples=tokens // 32,
        tokens=tokens,
        train_loss=2.5,
    )


def driver(members: int = 3, started_at: float = 1000.0) -> Any:
    return SimpleNamespace(
        setup=RoundSetup(bytes(16), ANN.peer_id, 0, bytes(32)), started_at=started_at, members=members
    )


async def a_book(folder: Path) -> tuple[RoundBook, ModelState]:
    swarm = Swarm(folder)
    model = swarm.add(1).model
    await model.load()
    return RoundBook(ME, swarm.project, model, LoopClock()), model


@virtual_time
async def test_a_committed_round_in_figures(tmp_path: Path) -> None:
    book, model = await a_book(tmp_path)
    roll = [member(ANN, 10, 100), member(BEN, 4, 0), member(ME, 6, 100)]
    entry = book.committed(result(roll, (0, 2)), driver(), 1004.5)
    assert (entry.info.tokens, entry.info.my_tokens, entry.info.members) == (16 * 32, 6 * 32, 3)
    assert (entry.info.seconds, entry.info.weights_hash) == (4.5, model.weights_hash.hex())
    assert (entry.point.train_loss, entry.point.mine, entry.point.tokens_total) == (2.5, True, 16 * 32)
    assert entry.info.at == EPOCH + 1000.0
    again = book.committed(result(roll, (1,)), driver(), 1004.5)
    assert (again.info.my_tokens, again.point.mine, again.point.tokens_total) == (0, False, 20 * 32)


@virtual_time
async def test_receipts_are_for_all_others_whose_work_was_accepted(tmp_path: Path) -> None:
    book, _ = await a_book(tmp_path)
    roll = [member(ANN, 10, 100), member(BEN, 4, 0), member(ME, 6, 0)]
    receipts = [open_receipt(signed) for signed in book.committed(result(roll, (0, 1, 2)), driver(), 0.0).receipts]
    assert [(row.contributor, row.tokens, row.samples) for row in receipts] == [
        (ANN.peer_id, 320, 10),
        (BEN.peer_id, 128, 4),
    ]
    for row in receipts:
        assert (row.aggregator, row.member_count, row.global_step) == (ME.peer_id, 3, 0)
        assert row.members_hash == members_hash([m.peer_id for m in roll])
    assert book.committed(result(roll, (2,)), driver(), 0.0).receipts == []
    nothing = [member(ANN, 0, 100), member(ME, 6, 0)]
    assert book.committed(result(nothing, (0, 1)), driver(), 0.0).receipts == []


@virtual_time
async def test_a_discarded_round_says_why(tmp_path: Path) -> None:
    book, _ = await a_book(tmp_path)
    info = book.discarded(driver(members=0), "the leader was lost", 1002.0)
    assert (info.committed, info.detail, info.tokens, info.seconds, info.weights_hash) == (
        False,
        "the leader was lost",
        0,
        2.0,
        "",
    )


@virtual_time
async def test_a_held_out_loss_joins_its_point_whichever_comes_first(tmp_path: Path) -> None:
    book, _ = await a_book(tmp_path)
    roll = [member(ANN, 10, 100), member(ME, 6, 0)]
    assert book.note_held_out(0, 5.0) is None  # a quicker peer measured this step before it was reached here
    assert book.committed(result(roll, (0, 1)), driver(), 0.0).point.held_out_loss == 5.0
    assert book.note_held_out(0, 6.0) is None  # that is known already
    assert book.note_held_out(7, 1.0) is None
    point = book.committed(result(roll, (0, 1)), driver(), 0.0).point
    assert point.held_out_loss is None
    updated = book.note_held_out(0, 4.0)
    assert updated is not None
    assert (updated.held_out_loss, updated.train_loss) == (4.0, 2.5)


@virtual_time
async def test_points_are_kept_for_a_while_only(tmp_path: Path) -> None:
    book, model = await a_book(tmp_path)
    roll = [member(ANN, 10, 100), member(ME, 6, 0)]
    count = model.state.parameter_count
    for _ in range(KEPT_POINTS + 1):
        await model.apply(model.state.weights[:count] * 0)
        book.committed(result(roll, (0, 1)), driver(), 0.0)
    assert book.note_held_out(1, 3.0) is None
    assert book.note_held_out(2, 3.0) is not None
