"""The real trainer: workers that come back after a death, and one that is given up."""

import asyncio
import functools
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import psutil
import pytest

from engine.averaging.kernels import initial_weights
from engine.checkpoints.state import Vector
from engine.core.clock import SystemClock
from engine.manifest.verify import open_signed, seal
from engine.runtime.trainer import TrainerEvent, TrainerGivenUp, TrainerLost, TrainerReady
from engine.runtime.worker_trainer import WorkerTerms, WorkerTrainer
from engine.training.host import HostTimes, WorkerHost
from engine.training.protocol import Accumulated, Evaluated, Frozen, Written
from engine.training.restart import RestartPolicy
from tests.helpers.guards import ExpectLog
from tests.helpers.hub_samples import identity
from tests.helpers.run_session import PUBLISHER
from tests.helpers.tiny_project import tiny_manifest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]

SOON = functools.partial(RestartPolicy, first_delay_seconds=0.01)
Event = TypeVar("Event")


class Bench:
    def __init__(self, trainer: WorkerTrainer, weights: Vector) -> None:
        self.trainer, self.weights = trainer, weights
        self.events: AsyncIterator[TrainerEvent] = trainer.events()

    async def until(self, kind: type[Event]) -> Event:
        async with asyncio.timeout(100):
            async for event in self.events:
                if isinstance(event, kind):
                    return event
        raise AssertionError(f"the events ended without {kind.__name__}")


@asynccontextmanager
async def a_trainer(folder: Path, **terms: Any) -> AsyncIterator[Bench]:
    signed = seal(tiny_manifest(), PUBLISHER)
    project = open_signed(signed)
    trainer = WorkerTrainer(
        project,
        signed.payload,
        identity(1).peer_id,
        folder / "scratch",
        SystemClock(),
        WorkerTerms(**{"device": "cpu", "policy": SOON, **terms}),
    )
    try:
        yield Bench(trainer, initial_weights(project.manifest.model))
    finally:
        await trainer.close()


async def test_a_whole_life_with_a_death_in_it(tmp_path: Path) -> None:
    async with a_trainer(tmp_path) as bench:
        trainer = bench.trainer
        assert (trainer.state, trainer.pid, trainer.device) == ("stopped", None, "")
        for request in (trainer.freeze(), trainer.evaluate(0), trainer.train(0, bench.weights, keep=False)):
            await request  # to nobody: dropped
        await trainer.throttle(1.0, 1)
        await trainer.start()
        assert await bench.until(TrainerReady) == TrainerReady(device="cpu")
        first = trainer.pid
        assert first is not None
        assert (trainer.memory_bytes() or 0) > 50_000_000
        await trainer.train(0, bench.weights, keep=False)
        await bench.until(Accumulated)
        await trainer.freeze()
        frozen = await bench.until(Frozen)
        assert frozen.samples > 0
        assert trainer.state == "frozen"
        held = trainer.gradients().copy()
        assert np.linalg.norm(held) > 0.0

        psutil.Process(first).kill()
        lost = await bench.until(TrainerLost)
        assert lost.restarts == 1
        assert trainer.state in ("stopped", "starting")
        np.testing.assert_array_equal(trainer.gradients(), held)  # what was handed over outlives the worker
        await bench.until(TrainerReady)
        assert trainer.pid not in (None, first)
        assert trainer.restarts == 1
        np.testing.assert_array_equal(trainer.gradients(), held)

        await trainer.throttle(0.0, 1)
        await trainer.train(1, bench.weights, keep=False)
        assert trainer.state == "paused"
        await trainer.throttle(1.0, 1)
        assert (await bench.until(Accumulated)).global_step == 1
        assert trainer.state == "training"
        await trainer.evaluate(1)
        assert (await bench.until(Evaluated)).loss > 0.0
        await trainer.write(1, "import ", 4)
        assert (await bench.until(Written)).prompt == "import "
        last = trainer.pid
    assert trainer.state == "stopped"
    assert last is not None
    assert not psutil.pid_exists(last)
    assert list((tmp_path / "scratch").iterdir()) == []
    assert [event async for event in bench.events] == []
    await trainer.close()


async def test_three_quick_deaths_are_enough_until_the_user_wants_another_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expect_log: ExpectLog
) -> None:
    expect_log("engine.runtime.worker_trainer", level=40, match="not started again")
    command = (sys.executable, "-c", "raise SystemExit('out of luck')")
    monkeypatch.setattr("engine.runtime.worker_trainer.WorkerHost", functools.partial(WorkerHost, command=command))
    async with a_trainer(tmp_path) as bench:
        await bench.trainer.start()
        for _ in range(2):
            for restarts in (1, 2):
                assert (await bench.until(TrainerLost)).detail.endswith("out of luck")
                assert bench.trainer.restarts >= restarts - 1
            given_up = await bench.until(TrainerGivenUp)
            assert given_up.kind == "keeps_failing"
            assert "out of luck" in given_up.detail
            assert (bench.trainer.pid, bench.trainer.state) == (None, "stopped")
            await bench.trainer.start_again()


async def test_a_program_that_cannot_be_started_is_a_death_like_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expect_log: ExpectLog
) -> None:
    expect_log("engine.runtime.worker_trainer", level=40, match="not started again")
    command = (str(tmp_path / "no such program"),)
    monkeypatch.setattr("engine.runtime.worker_trainer.WorkerHost", functools.partial(WorkerHost, command=command))
    async with a_trainer(tmp_path) as bench:
        await bench.trainer.start()
        given_up = await bench.until(TrainerGivenUp)
        assert "cannot be started" in given_up.detail


SAYS_WHY = """
import sys
from engine.training.pipe import encode_frame
from engine.training.protocol import Failed
sys.stdout.buffer.write(encode_frame(Failed(kind="model_mismatch", detail="no such tensor")))
"""


async def test_what_another_start_would_only_repeat_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expect_log: ExpectLog
) -> None:
    expect_log("engine.runtime.worker_trainer", level=40, match="not started again")
    command = (sys.executable, "-c", SAYS_WHY)
    monkeypatch.setattr("engine.runtime.worker_trainer.WorkerHost", functools.partial(WorkerHost, command=command))
    async with a_trainer(tmp_path) as bench:
        await bench.trainer.start()
        given_up = await bench.until(TrainerGivenUp)
        assert (given_up.kind, given_up.detail, given_up.restarts) == ("model_mismatch", "no such tensor", 0)


async def test_closing_while_it_starts_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = (sys.executable, "-c", "import sys; sys.stdin.buffer.read()")
    started = asyncio.Event()

    class Noted(WorkerHost):
        async def start(self) -> None:
            await super().start()
            started.set()

    monkeypatch.setattr("engine.runtime.worker_trainer.WorkerHost", functools.partial(Noted, command=command))
    async with a_trainer(tmp_path, times=HostTimes(stop_seconds=0.2)) as bench:
        await bench.trainer.start()
        async with asyncio.timeout(20):
            await started.wait()
        pid = bench.trainer.pid
        assert pid is not None
        assert bench.trainer.state == "starting"
    assert not psutil.pid_exists(pid)


async def test_a_folder_that_cannot_be_made_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "scratch").write_bytes(b"in the way")
    async with a_trainer(tmp_path) as bench:
        with pytest.raises(OSError, match="scratch"):
            await bench.trainer.start()
