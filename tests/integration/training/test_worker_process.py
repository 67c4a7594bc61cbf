"""A real training process on the tiny project, from start to every kind of end."""

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import psutil
import pytest

from engine.data.python_stdlib import load_text
from engine.manifest.parse import parameter_count
from engine.manifest.schema import Manifest, Model
from engine.training.buffers import SharedVectors
from engine.training.host import HostTimes, WorkerDied, WorkerEvent, WorkerHost
from engine.training.protocol import (
    Accumulated,
    Evaluate,
    Evaluated,
    Freeze,
    Frozen,
    Ready,
    Start,
    Throttle,
    Train,
    Write,
    Written,
)
from tests.helpers.tiny_kernel import PEER, initial_weights
from tests.helpers.tiny_project import TINY_CONFIG, TINY_TENSORS, tiny_manifest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

LOWEST = getattr(psutil, "IDLE_PRIORITY_CLASS", 19)  # the former on Windows
IMPATIENT = HostTimes(ping_seconds=0.2, shortest_silence_seconds=1.0, silence_factor=1.0, stop_seconds=20.0)
Event = TypeVar("Event")


@dataclass
class Bench:
    host: WorkerHost
    vectors: SharedVectors
    events: AsyncIterator[WorkerEvent]

    async def until(self, kind: type[Event]) -> Event:
        """The next event of a kind; a death while waiting for something else fails the test."""
        async with asyncio.timeout(90):
            async for event in self.events:
                if isinstance(event, kind):
                    return event
                assert not isinstance(event, WorkerDied), event
        raise AssertionError(f"the events ended without {kind.__name__}")


@asynccontextmanager
async def running(
    folder: Path, manifest: Manifest | None = None, times: HostTimes | None = None
) -> AsyncIterator[Bench]:
    manifest = manifest if manifest is not None else tiny_manifest()
    vectors = SharedVectors.create(folder / "buffers", parameter_count(manifest))
    vectors.weights[:] = initial_weights(manifest)
    start = Start(
        manifest_payload=msgspec.json.encode(manifest),
        weights_path=str(vectors.weights_path),
        gradients_path=str(vectors.gradients_path),
        peer_id=PEER,
        threads=1,
        device="cpu",
    )
    host = WorkerHost(start, times)
    await host.start()
    try:
        yield Bench(host, vectors, host.events())
    finally:
        await host.close()
        vectors.remove()


def reference(manifest: Manifest, step: int, micro_batches: int) -> np.ndarray:
    """What the buffer should hold, computed in this process."""
    import torch

    from engine.strategies.collaborative.kernel import CollaborativeKernel
    from engine.training.models import build_model

    folder = Path(os.environ["POTLUCK_HOME"])
    vectors = SharedVectors.create(folder, parameter_count(manifest))
    vectors.weights[:] = initial_weights(manifest)
    text = load_text(manifest.data.sequence_length, manifest.data.held_out_percent)
    torch.set_num_threads(1)
    kernel = CollaborativeKernel(build_model(manifest.model), manifest, text, vectors, PEER)
    kernel.load(step)
    for _ in range(micro_batches):
        kernel.accumulate()
    kernel.flush()
    return vectors.gradients.copy()


async def test_a_whole_life(tmp_path: Path) -> None:
    async with running(tmp_path) as bench:
        ready = await bench.until(Ready)
        assert ready == Ready(device="cpu", parameter_count=bench.vectors.parameter_count)
        assert (bench.host.memory_bytes() or 0) > 50_000_000
        assert psutil.Process(bench.host.pid).nice() == LOWEST
        await bench.host.send(Train(global_step=3))
        first = await bench.until(Accumulated)
        assert (first.global_step, first.samples, first.tokens) == (3, 4, 4 * 32)
        await bench.host.send(Freeze())
        frozen = await bench.until(Frozen)
        assert frozen.samples >= 4
        expected = reference(tiny_manifest(), 3, frozen.samples // 4)
        np.testing.assert_allclose(bench.vectors.gradients, expected, rtol=1e-4, atol=1e-5)

        bench.vectors.weights[:] = 0.0
        await bench.host.send(Evaluate(global_step=4))
        evaluated = await bench.until(Evaluated)
        assert evaluated.loss == pytest.approx(np.log(256), rel=1e-5)
        await bench.host.send(Write(global_step=4, prompt="import ", max_tokens=12))
        written = await bench.until(Written)
        assert written.prompt == "import "
        assert written.text
        pid = bench.host.pid
    assert [event async for event in bench.events] == []
    assert pid is not None
    assert not psutil.pid_exists(pid)
    assert bench.host.memory_bytes() is None


async def test_duty_zero_pauses_freeze_is_still_answered_and_a_killed_worker_is_reported(tmp_path: Path) -> None:
    async with running(tmp_path) as bench:
        await bench.until(Ready)
        await bench.host.send(Throttle(duty=0.0, threads=1))
        await bench.host.send(Train(global_step=0))
        await bench.host.send(Freeze())
        assert (await bench.until(Frozen)).samples == 0
        await bench.host.send(Train(global_step=0, keep=True))
        await bench.host.send(Throttle(duty=0.5, threads=1))
        assert (await bench.until(Accumulated)).samples == 4
        psutil.Process(bench.host.pid).kill()
        died = await bench.until(WorkerDied)
        assert not died.hung
        assert died.exit_code != 0
        await bench.host.send(Freeze())
        assert [event async for event in bench.events] == []


async def test_a_stopped_worker_is_found_out_and_killed(tmp_path: Path) -> None:
    async with running(tmp_path, times=IMPATIENT) as bench:
        await bench.until(Ready)
        psutil.Process(bench.host.pid).suspend()
        died = await bench.until(WorkerDied)
        assert died.hung
        assert "did not answer" in died.detail
        assert not psutil.pid_exists(bench.host.pid or 0)


async def test_a_model_that_the_manifest_misdescribes_is_a_mismatch(tmp_path: Path) -> None:
    model = Model(architecture="llama", config=TINY_CONFIG, tensors=TINY_TENSORS[::-1], seed=7)
    async with running(tmp_path, tiny_manifest(model=model)) as bench:
        died = await bench.until(WorkerDied)
        assert died.failed is not None
        assert died.failed.kind == "model_mismatch"
        assert "model.embed_tokens.weight" in died.failed.detail


async def test_weights_that_are_no_numbers_end_it_after_three_tries(tmp_path: Path) -> None:
    async with running(tmp_path) as bench:
        await bench.until(Ready)
        bench.vectors.weights[:] = np.nan
        await bench.host.send(Train(global_step=0))
        died = await bench.until(WorkerDied)
        assert died.failed is not None
        assert died.failed.kind == "non_finite"


async def test_a_worker_that_does_not_stop_is_killed_at_the_deadline(tmp_path: Path) -> None:
    async with running(tmp_path, times=HostTimes(ping_seconds=60.0, stop_seconds=0.1)) as bench:
        await bench.until(Ready)
        process = psutil.Process(bench.host.pid)
        process.suspend()
        await bench.host.close()
        assert not process.is_running()


def start_of(folder: Path) -> Start:
    return Start(
        manifest_payload=b"{}",
        weights_path=str(folder),
        gradients_path=str(folder),
        peer_id=PEER,
        threads=1,
        device="cpu",
    )


async def death_of(script: str, folder: Path, times: HostTimes | None = None) -> WorkerDied:
    """Of a child that is no worker at all."""
    command = (sys.executable, "-c", textwrap.dedent(script))
    host = WorkerHost(start_of(folder), times, command)
    await host.start()
    try:
        async with asyncio.timeout(60):
            events = [event async for event in host.events()]
    finally:
        await host.close()
    (died,) = events
    assert isinstance(died, WorkerDied)
    return died


@pytest.mark.parametrize("garbage", [b"\xff" * 64, b"\x05\x00\x00\x00hello", b"Loading weights...\n"])
async def test_garbage_on_the_pipe_ends_the_worker(tmp_path: Path, garbage: bytes) -> None:
    died = await death_of(
        f"import os, sys; os.write(1, {garbage!r}); sys.stdin.buffer.read(); sys.stdin.buffer.read()", tmp_path
    )
    assert "garbage" in died.detail
    assert not died.hung


async def test_a_crash_is_reported_with_its_last_words(tmp_path: Path) -> None:
    died = await death_of("print('x' * 9, file=__import__('sys').stderr); raise SystemExit('out of luck')", tmp_path)
    assert died.exit_code == 1
    assert "out of luck" in died.detail
    assert died.stderr_tail == ("xxxxxxxxx", "out of luck")


async def test_much_on_stderr_is_cut_to_the_last_lines(tmp_path: Path) -> None:
    died = await death_of("import sys; sys.stderr.write('line\\n' * 9999 + 'y' * 10**6); sys.exit(1)", tmp_path)
    assert len(died.stderr_tail) == 50
    assert all(len(line) <= 500 for line in died.stderr_tail)


async def test_one_that_is_never_ready_is_killed(tmp_path: Path) -> None:
    times = HostTimes(ready_seconds=0.3, ping_seconds=0.1)
    died = await death_of("import sys; sys.stdin.buffer.read()", tmp_path, times)
    assert died.hung
    assert "was not ready" in died.detail


async def test_a_program_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    host = WorkerHost(start_of(tmp_path), None, (str(tmp_path / "nothing"),))
    with pytest.raises(FileNotFoundError):
        await host.start()
    await host.close()
    assert [event async for event in host.events()] == []


async def test_a_cancelled_close_still_kills(tmp_path: Path) -> None:
    host = WorkerHost(start_of(tmp_path), HostTimes(stop_seconds=60.0), (sys.executable, "-c", STUBBORN))
    await host.start()
    process = psutil.Process(host.pid)
    closing = asyncio.create_task(host.close())
    done, _ = await asyncio.wait({closing}, timeout=0.05)
    assert not done
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    async with asyncio.timeout(20):
        assert [event async for event in host.events()] == []
    assert not process.is_running()


STUBBORN = "import threading; threading.Event().wait()"

PARENT = """
import asyncio, psutil, sys
from tests.integration.training.test_worker_process import running
from engine.training.protocol import Accumulated, Ready, Train
from pathlib import Path

async def main():
    async with running(Path(sys.argv[1])) as bench:
        await bench.until(Ready)
        await bench.host.send(Train(global_step=0))
        await bench.until(Accumulated)
        print(bench.host.pid, flush=True)
        psutil.Process().kill()

asyncio.run(main())
"""


def test_the_worker_dies_with_its_engine(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    parent = subprocess.run(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert parent.stdout, parent.stderr
    try:
        psutil.Process(int(parent.stdout)).wait(timeout=20)
    except psutil.NoSuchProcess:
        return


def test_the_engines_side_needs_no_torch() -> None:
    modules = "engine.training.host, engine.training.buffers, engine.training.restart, engine.checkpoints.transfer"
    code = f"import sys, {modules}; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.strip() == "False"
