"""The books between a session and its trainer."""

from pathlib import Path
from typing import Any

from engine.runtime.model import ModelState
from engine.runtime.work import NOTHING, Work
from engine.training.protocol import Accumulated, Frozen
from tests.helpers.run_session import Swarm
from tests.helpers.virtual_time import virtual_time

PATIENCE = 8.0


def accumulated(step: int, samples: int) -> Accumulated:
    return Accumulated(global_step=step, samples=samples, tokens=samples * 32, loss_sum=1.0, busy_seconds=0.0)


FROZEN = Frozen(global_step=0, samples=4, tokens=128, loss_sum=1.0)


async def a_work(folder: Path) -> tuple[Work, Any, ModelState]:
    """On a toy trainer that stands, with nothing computed by itself."""
    peer = Swarm(folder).add(1, most_samples=0)
    await peer.model.load()
    return Work(peer.trainer, peer.model, PATIENCE), peer.trainer, peer.model


@virtual_time
async def test_reports_of_this_step_count_and_others_do_not(tmp_path: Path) -> None:
    work, _, _ = await a_work(tmp_path)
    assert work.on_accumulated(accumulated(0, 4)) == 128
    assert work.on_accumulated(accumulated(0, 12)) == 256
    assert work.on_accumulated(accumulated(0, 4)) == 0  # it began anew
    assert work.on_accumulated(accumulated(1, 99)) is None
    assert work.totals.samples == 4
    work.spend()
    assert work.totals == NOTHING


@virtual_time
async def test_only_the_answer_to_the_last_freeze_counts(tmp_path: Path) -> None:
    work, trainer, _ = await a_work(tmp_path)
    await trainer.start()
    work.on_ready()
    await work.freeze(10.0)
    await work.freeze(11.0)
    assert work.next_deadline() == 10.0 + PATIENCE
    assert not work.on_frozen(FROZEN)
    assert work.on_frozen(FROZEN)
    assert work.next_deadline() is None
    await trainer.close()


@virtual_time
async def test_a_worker_that_does_not_answer_counts_as_none_until_it_does(tmp_path: Path) -> None:
    work, trainer, _ = await a_work(tmp_path)
    assert not work.responds(0.0)
    await trainer.start()
    work.on_ready()
    assert work.responds(0.0)
    await work.freeze(10.0)
    assert work.responds(17.9)
    assert not work.responds(18.0)
    assert work.on_frozen(FROZEN)
    assert work.responds(1e9)
    await work.freeze(20.0)
    work.on_lost(frozen=False)
    assert not work.responds(20.0)
    work.on_ready()
    assert work.responds(1e9)
    await trainer.close()


@virtual_time
async def test_it_goes_on_from_gradients_only_where_the_worker_still_has_them(tmp_path: Path) -> None:
    work, trainer, model = await a_work(tmp_path)
    await trainer.start()
    work.on_ready()
    await work.resume(keep=True)  # a new worker holds nothing
    await work.freeze(1.0)
    work.on_frozen(FROZEN)
    work.on_accumulated(accumulated(0, 4))
    await work.resume(keep=True)
    assert work.totals.samples == 4
    work.on_lost(frozen=True)
    assert work.totals.samples == 4  # the shared buffer holds them
    await work.resume(keep=True)  # but nobody can go on from them
    assert work.totals == NOTHING
    work.on_ready()
    await work.resume(keep=True)
    assert trainer.calls == ["train 0", "freeze", "train 0 keep", "train 0"]
    assert model.global_step == 0
    await trainer.close()


@virtual_time
async def test_a_worker_that_dies_between_rounds_takes_its_work_along(tmp_path: Path) -> None:
    work, trainer, _ = await a_work(tmp_path)
    work.on_ready()
    work.on_accumulated(accumulated(0, 8))
    work.on_lost(frozen=False)
    assert work.totals == NOTHING
    await work.freeze(0.0)
    assert work.next_deadline() is None
    await trainer.close()
