"""A whole engine that is told that its computer sleeps, or that it has to end: it saves first."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from engine.checkpoints.store import CheckpointStore
from engine.contract import commands as c
from engine.contract.settings import SettingValue
from engine.contract.snapshot import EngineState
from engine.manifest.parse import parameter_count
from engine.manifest.schema import Manifest
from engine.runtime.project_folder import CHECKPOINTS_NAME
from tests.benchmarks.children import Children, Engine, Patience
from tests.helpers.private_bus import Logind, private_bus
from tests.helpers.tiny_project import tiny_manifest, tiny_training

pytestmark = [pytest.mark.integration, pytest.mark.e2e, pytest.mark.timeout(300)]

SETTINGS: dict[str, SettingValue] = {
    "preset": "custom",
    "memory_free_bytes": 512 * 1024**2,
    "memory_away_percent": 100,
    "disk_free_bytes": 1_000_000_000,
    "pause_on_battery": False,
    "pause_on_energy_saver": False,
    "pause_on_metered": False,
}


@dataclass
class Guest:
    engine: Engine
    manifest: Manifest

    async def until(self, true: Callable[[EngineState], bool]) -> EngineState:
        async with asyncio.timeout(120):
            while not true(state := await self.state()):
                over = asyncio.Event()
                asyncio.get_running_loop().call_later(0.02, over.set)
                await over.wait()
        return state

    async def state(self) -> EngineState:
        return msgspec.convert(await self.engine.client.request(c.GetState()), EngineState)

    async def trains(self, step: int) -> EngineState:
        return await self.until(
            lambda state: (
                state.session is not None and state.session.global_step >= step and state.session.my_samples > 0
            )
        )

    def saved_step(self, state: EngineState) -> int:
        (project,) = [card for card in state.projects if card.joined]
        folder = self.engine.paths.project_dir(project.project_id) / CHECKPOINTS_NAME
        store = CheckpointStore(folder, bytes.fromhex(project.project_id), parameter_count(self.manifest))
        newest = store.load_newest()
        assert newest is not None
        return newest.global_step


@contextlib.asynccontextmanager
async def guest(folder: Path, bus: str) -> AsyncIterator[Guest]:
    """It saves by itself every thousand steps only."""
    training = tiny_training(checkpoint_every_steps=1000, evaluate_every_steps=1000, target_batch_samples=200)
    manifest = tiny_manifest(training=training)
    file = folder / "tiny.json"
    file.write_bytes(msgspec.json.encode(manifest))
    async with Children(folder, Patience(asyncio.Event())) as children:
        hub = await children.start_hub(file)
        more = {"DBUS_SYSTEM_BUS_ADDRESS": bus, "DISPLAY": "", "WAYLAND_DISPLAY": ""}
        engine = await children.start_engine("engine", ["--hub", hub, "--join", "tiny"], more=more)
        await engine.client.request(c.ChangeSettings(changes=dict(SETTINGS)))
        yield Guest(engine, manifest)


async def test_it_saves_before_sleep_and_goes_on_after_it(tmp_path: Path) -> None:
    with private_bus() as bus, Logind(bus) as logind:
        async with guest(tmp_path, bus) as it:
            before = await it.trains(2)
            assert before.session is not None
            release = asyncio.create_task(asyncio.to_thread(logind.await_release, 60.0))
            logind.announce("PrepareForSleep", True)
            assert await release
            asleep = await it.state()
            assert [reason.code.value for reason in asleep.governor.reasons][:1] == ["system_sleeps"]
            assert asleep.session is None
            assert it.saved_step(asleep) >= before.session.global_step
            logind.announce("PrepareForSleep", False)
            await it.trains(before.session.global_step)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
async def test_it_saves_on_the_signals_of_a_logout_without_waiting_for_a_round(tmp_path: Path, name: str) -> None:
    number = getattr(signal, name, None)
    assert number is not None or sys.platform == "win32"
    with private_bus() as bus:
        async with guest(tmp_path, bus) as it:
            before = await it.trains(1)
            assert before.session is not None
            it.engine.process.send_signal(number or signal.SIGTERM)
            async with asyncio.timeout(60):
                assert await it.engine.process.wait() == 0
            assert it.saved_step(before) >= before.session.global_step


async def test_it_ends_with_the_computer(tmp_path: Path) -> None:
    with private_bus() as bus, Logind(bus) as logind:
        async with guest(tmp_path, bus) as it:
            before = await it.trains(1)
            assert before.session is not None
            release = asyncio.create_task(asyncio.to_thread(logind.await_release, 60.0))
            logind.announce("PrepareForShutdown", True)
            assert await release
            async with asyncio.timeout(60):
                assert await it.engine.process.wait() == 0
            assert it.saved_step(before) >= before.session.global_step
