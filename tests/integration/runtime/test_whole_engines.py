"""The real thing on loopback: a hub, two engines with real workers over real WebRTC, and the command line."""

import asyncio
import contextlib
import sys
from pathlib import Path

import psutil
import pytest

from engine.contract.reasons import RunState
from engine.contract.snapshot import EngineState
from engine.runtime.cli import main
from tests.helpers.processes import EngineProcess, Processes
from tests.helpers.tiny_project import tiny_manifest, tiny_training

pytestmark = [pytest.mark.integration, pytest.mark.e2e, pytest.mark.timeout(400)]

TRAINING = tiny_training(target_batch_samples=256, micro_batch_samples=8, checkpoint_every_steps=2, minimum_peers=2)
MANIFEST = tiny_manifest(training=TRAINING)


def has_committed(rounds: int, members: int = 2) -> object:
    def true(state: EngineState) -> bool:
        session = state.session
        last = session.last_round if session is not None else None
        return (
            session is not None
            and session.rounds_committed >= rounds
            and last is not None
            and last.members == members
            and last.committed
        )

    return true


async def command(engine: EngineProcess, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """A command of the command line, in this process; its output."""
    capsys.readouterr()
    status = await asyncio.to_thread(main, ["--data-dir", str(engine.paths.data_dir), *words])
    captured = capsys.readouterr()
    assert (status, captured.err) == (0, ""), captured.err
    return captured.out


async def export(engine: EngineProcess, folder: Path) -> None:
    """In a process of its own: it loads torch."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "engine.runtime.cli", "--data-dir", str(engine.paths.data_dir), "export", str(folder)
    )
    assert await process.wait() == 0


async def test_two_engines_train_together_and_survive_a_kill(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Processes(tmp_path) as processes:
        hub = await processes.hub(MANIFEST)
        project_id = hub.projects["tiny"]
        one, two = await asyncio.gather(
            *(processes.engine(name, "--hub", hub.url, "--join", "tiny", "--name", name) for name in ("one", "two"))
        )
        await asyncio.gather(*(engine.until(has_committed(3)) for engine in (one, two)))  # type: ignore[arg-type]
        shared = one.hashes.keys() & two.hashes.keys()
        assert shared
        assert all(one.hashes[step] == two.hashes[step] for step in shared)

        await the_command_line_works(one, capsys)
        await one.until(lambda state: state.session is not None and state.session.checkpoint_step)
        await export(one, tmp_path / "exported")
        assert {"config.json", "model.safetensors"} <= {file.name for file in (tmp_path / "exported").iterdir()}

        two = await killed_and_started_again(processes, two)
        await two.until(has_committed(2))  # type: ignore[arg-type]
        await one.until(lambda state: len(one.hashes.keys() & two.hashes.keys()) > len(shared))
        assert all(one.hashes[step] == two.hashes[step] for step in one.hashes.keys() & two.hashes.keys())

        board = await one.until(lambda state: any(row.verified_tokens for row in state.leaderboard.rows))
        assert board.leaderboard.project_id == project_id
        assert await command(two, capsys, "leave")
        await two.until(lambda state: state.status.state is RunState.IDLE)
        assert "Stopping" in await command(one, capsys, "stop")
        async with asyncio.timeout(60):
            assert await one.process.wait() == 0
        assert not one.paths.endpoint_file.exists()


async def killed_and_started_again(processes: Processes, engine: EngineProcess) -> EngineProcess:
    """SIGKILL; its worker goes with it; the next start needs no options."""
    assert engine.state is not None
    assert engine.state.session is not None
    worker = engine.state.session.worker_pid
    engine.process.kill()
    await engine.process.wait()
    if worker is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            await asyncio.to_thread(psutil.Process(worker).wait, 30)
    again = await processes.engine(engine.paths.data_dir.name)
    begun = (await again.until(lambda state: state.session is not None)).session
    assert begun is not None
    assert (begun.checkpoint_step or 0) >= 2  # it went on from what it had saved
    assert begun.global_step >= 2
    return again


async def the_command_line_works(engine: EngineProcess, capsys: pytest.CaptureFixture[str]) -> None:
    text = await command(engine, capsys, "status")
    assert "Project    Tiny" in text
    assert "(connected)" in text
    assert '"global_step"' in await command(engine, capsys, "status", "--json")
    assert "Tiny (joined)" in await command(engine, capsys, "projects")
    assert "Paused" in await command(engine, capsys, "pause", "1h")
    await engine.until(lambda state: state.status.state is RunState.PAUSED)
    assert "Paused" not in await command(engine, capsys, "resume")
    await engine.until(lambda state: state.status.state is RunState.TRAINING)
    assert "cpu_share_percent is now 80" in await command(engine, capsys, "set", "cpu_share_percent", "80")
    await engine.until(lambda state: state.settings.cpu_share_percent == 80)
    assert await asyncio.to_thread(main, ["--data-dir", str(engine.paths.data_dir), "join", "no-such-project"]) == 1
    assert "Traceback" not in capsys.readouterr().err
