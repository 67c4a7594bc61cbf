"""A real worker that ends to give back memory and device, and the next one that goes on from what it left."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import psutil
import pytest

from engine.core.clock import ManualClock
from engine.manifest.verify import open_signed, seal
from engine.runtime.residence import REST_AFTER_PAUSE_SECONDS
from engine.runtime.trainer import TrainerEvent, TrainerReady, TrainerRests, TrainerWantsRest
from engine.runtime.worker_trainer import WorkerTerms, WorkerTrainer
from engine.training.protocol import Accumulated, Carried, Frozen
from tests.helpers.hub_samples import identity
from tests.helpers.tiny_kernel import PEER, initial_weights
from tests.helpers.tiny_project import tiny_manifest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

Event = TypeVar("Event")


async def until(events: AsyncIterator[TrainerEvent], kind: type[Event]) -> Event:
    async with asyncio.timeout(120):
        async for event in events:
            if isinstance(event, kind):
                return event
    raise AssertionError(f"the events ended without {kind.__name__}")


async def test_no_worker_before_there_is_work_one_that_rests_after_it_and_another_that_goes_on(tmp_path: Path) -> None:
    signed = seal(tiny_manifest(), identity(900))
    clock = ManualClock()
    trainer = WorkerTrainer(open_signed(signed), signed.payload, PEER, tmp_path, clock, WorkerTerms(device="cpu"))
    weights = initial_weights(tiny_manifest())
    await trainer.throttle(0.0, 1)
    await trainer.start()
    try:
        events = trainer.events()
        await trainer.throttle(0.0, 1)
        assert trainer.pid is None
        await trainer.throttle(1.0, 1)
        await until(events, TrainerReady)
        first = trainer.pid
        await trainer.train(3, weights, keep=False)
        await until(events, Accumulated)

        await trainer.throttle(0.0, 1)
        clock.advance(REST_AFTER_PAUSE_SECONDS + 1.0)
        await trainer.throttle(0.0, 1)  # looks at the clock again
        await until(events, TrainerWantsRest)
        await trainer.freeze()
        frozen = await until(events, Frozen)
        left = trainer.gradients().copy()
        await trainer.rest()
        await until(events, TrainerRests)
        assert first is not None
        assert not psutil.pid_exists(first)
        assert trainer.state == "resting"
        assert trainer.memory_bytes() is None
        assert np.array_equal(trainer.gradients(), left)

        await trainer.throttle(0.5, 1)
        await until(events, TrainerReady)
        assert trainer.restarts == 0
        carried = Carried(samples=frozen.samples, tokens=frozen.tokens, loss_sum=frozen.loss_sum)
        await trainer.train(3, weights, keep=False, carried=carried)
        more = await until(events, Accumulated)
        assert more.samples == frozen.samples + 4
        await trainer.freeze()
        again = await until(events, Frozen)
        assert again.samples > frozen.samples
        assert np.linalg.norm(trainer.gradients() - left) > 0.0
    finally:
        await trainer.close()


def test_the_messages_pass_the_pipe() -> None:
    carried = Carried(samples=1, tokens=2, loss_sum=3.0)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(carried), type=Carried) == carried
