"""The benchmark of the machine: the real child on the reference model, and children that do anything else."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from engine.contract import commands as c
from engine.contract.reasons import Reason, ReasonCode, RunState
from engine.contract.snapshot import EngineInfo, EngineState, HubStatus, Measurement, Status
from engine.control.publisher import StatePublisher
from engine.core.clock import SystemClock
from engine.core.paths import Paths
from engine.governor.model import Decision, RunLevel
from engine.runtime import machine_measure
from engine.runtime.guest import Guest
from engine.runtime.machine_measure import FILE_NAME, MachineMeasure

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


class ToyGuest:
    """Notes when the computer was wanted for measuring."""

    def __init__(self) -> None:
        self.told: list[bool] = []
        self.decision = Decision(RunLevel.FULL, 1.0, 1)

    def measuring(self, runs: bool) -> None:
        self.told.append(runs)


class Bench:
    def __init__(self, folder: Path, command: tuple[str, ...] = ()) -> None:
        info = EngineInfo(version="0", pid=1, started_at=0.0, peer_id="p", identity_store="file", data_dir="/")
        hub = HubStatus(url="", connected=False)
        self.publisher = StatePublisher(EngineState(engine=info, status=Status(state=RunState.IDLE), hub=hub))
        self.guest = ToyGuest()
        guest = cast("Guest", self.guest)
        self.measure = MachineMeasure(Paths(folder), SystemClock(), self.publisher, guest, command)

    @property
    def result(self) -> Measurement:
        return self.publisher.state.measurement

    async def ended(self, times: int = 1) -> Measurement:
        """Wait for an end: the guest is told of it."""
        async with asyncio.timeout(120):
            while self.guest.told.count(False) < times or self.result.state in ("", "running"):
                await _a_moment()
        return self.result

    async def running(self) -> None:
        async with asyncio.timeout(120):
            while not self.result.fraction:
                await _a_moment()


async def _a_moment() -> None:
    """Let the loop look at what came."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(0.005, over.set)
    await over.wait()


@contextlib.asynccontextmanager
async def bench(folder: Path, *command: str) -> AsyncIterator[Bench]:
    made = Bench(folder, command)
    task = asyncio.create_task(made.measure.run(), name="measuring")
    try:
        yield made
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_the_real_one_measures_the_processor_and_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_measure, "DEVICE_SECONDS", 0.2)
    async with bench(tmp_path) as made:
        made.measure.obey(c.MeasureMachine())
        result = await made.ended()
        assert (result.state, result.detail, result.fraction) == ("done", "", None)
        assert result.devices[0].device == "cpu"
        assert (result.devices[0].tokens_per_second or 0.0) > 0.0
        assert (result.devices[0].memory_bytes or 0) > 50_000_000
        assert made.guest.told == [True, False]
        assert (made.measure.fit(1_000_000) or 0.0) > 0.0
    kept = msgspec.json.decode((tmp_path / FILE_NAME).read_bytes(), type=Measurement)
    assert kept == result
    async with bench(tmp_path) as again:
        async with asyncio.timeout(20):
            while again.result.state != "done":
                await _a_moment()
        assert again.result == result


FOREVER = "import sys,time\nprint('{\"fraction\":0.5}', flush=True)\nsys.stdin.read()"


async def test_it_can_be_cancelled_and_run_again(tmp_path: Path) -> None:
    async with bench(tmp_path, sys.executable, "-c", FOREVER) as made:
        made.measure.obey(c.CancelMeasure())
        for times in (1, 2):
            made.measure.obey(c.MeasureMachine())
            made.measure.obey(c.MeasureMachine())
            await made.running()
            made.measure.obey(c.CancelMeasure())
            assert (await made.ended(times)).state == "cancelled"
        assert made.guest.told == [True, False, True, False]


async def test_the_engines_end_ends_it(tmp_path: Path) -> None:
    async with bench(tmp_path, sys.executable, "-c", FOREVER) as made:
        made.measure.obey(c.MeasureMachine())
        await made.running()
    assert made.guest.told == [True, False]


@pytest.mark.parametrize(
    ("script", "detail"),
    [
        ("import sys; sys.exit(3)", "it ended with status 3"),
        ("print('{}')", "it said something that makes no sense"),
        ("print('what')", "it said something that makes no sense"),
        ("pass", "it ended with status 0"),
        ("print('x' * 200000)", "limit"),
    ],
)
async def test_a_child_that_does_anything_else_is_a_failure(tmp_path: Path, script: str, detail: str) -> None:
    async with bench(tmp_path, sys.executable, "-c", f"import sys; sys.stdin.readline()\n{script}") as made:
        made.measure.obey(c.MeasureMachine())
        result = await made.ended()
        assert result.state == "failed"
        assert detail in result.detail


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    async with bench(tmp_path, str(tmp_path / "nowhere")) as made:
        made.measure.obey(c.MeasureMachine())
        assert "cannot be started" in (await made.ended()).detail


async def test_heat_ends_it(tmp_path: Path) -> None:
    async with bench(tmp_path, sys.executable, "-c", FOREVER) as made:
        hot = (Reason(code=ReasonCode.TOO_HOT),)
        made.guest.decision = Decision(RunLevel.STOPPED, 0.0, 0, hot)
        made.measure.obey(c.MeasureMachine())
        assert (await made.ended()).detail == machine_measure.TOO_HOT


@pytest.mark.parametrize("content", [b"", b"{", b'{"state":"running"}', b'{"state":7}'])
async def test_a_damaged_record_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    made: Any = Bench(tmp_path)
    assert made.measure._load() == Measurement()
