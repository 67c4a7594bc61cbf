"""The processes that a benchmark starts. None outlives it: each is asked to end, then killed.

All but the window also end by themselves when the pipe from here closes, that is, if this process is killed; the window
does when its screen is gone.
"""

import asyncio
import contextlib
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import msgspec

from engine.control.client import ControlClient, EngineNotRunning, connect
from engine.core.paths import Paths
from engine.runtime.hub_command import HubStarted
from tests.benchmarks.plain_protocol import Answer, Request

START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 25.0
POLL_SECONDS: Final = 0.005
ERROR_BYTES: Final = 4000
SCREEN: Final = ("Xvfb", "-displayfd", "1", "-screen", "0", "1600x1000x24", "-nolisten", "tcp")
UNTIL_INPUT_ENDS: Final = ("sh", "-c", '"$@" & read -r _; kill $!; wait', "sh")
"""Runs a command that cannot itself watch the pipe from here."""


class BenchmarkFailed(Exception):
    """A process did not do what the measurement needs; says which, and its last words."""


class Patience:
    """Lets time pass, until the benchmark is asked to stop."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop

    async def rest(self, seconds: float) -> None:
        """Wait; shorter when the benchmark shall end, which cancels whoever waits here."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()


@dataclass(frozen=True, slots=True)
class Engine:
    """A running engine."""

    name: str
    process: Process
    client: ControlClient
    paths: Paths
    started_at: float  # `time.perf_counter` when it was spawned
    linked_at: float  # when it had welcomed us


class Children:
    """All processes of a benchmark, with their state under `base`."""

    def __init__(self, base: Path, patience: Patience) -> None:
        self._base = base
        self._patience = patience
        self._running: list[tuple[str, Process]] = []
        self._clients: list[ControlClient] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """End everything, the newest first, and so the hub after the engines."""
        for client in self._clients:
            await client.close()
        for name, process in reversed(self._running):
            await _end(name, process)

    async def start_hub(self, manifest: Path) -> str:
        """A hub on a free loopback port with this project; its address."""
        arguments = ["hub", "--port", "0", "--publish", str(manifest), "--end-with-parent"]
        process = await self._spawn("hub", self._potluck("hub", arguments), stdout=PIPE)
        return msgspec.json.decode(await self.line("hub", process), type=HubStarted).url

    async def start_engine(
        self,
        name: str,
        arguments: Sequence[str],
        module: str = "engine.runtime.cli",
        more: Mapping[str, str] | None = None,
    ) -> Engine:
        """An engine on a new profile, and a link to it; `more` is added to its environment."""
        fixed = ["run", "--no-keyring", "--loopback", "--unattended", "--device", "cpu", "--end-with-parent"]
        started_at = time.perf_counter()
        process = await self._spawn(name, self._potluck(name, [*fixed, *arguments], module), more=more)
        paths = Paths(self._base / name)
        while process.returncode is None and time.perf_counter() < started_at + START_SECONDS:
            with contextlib.suppress(EngineNotRunning):
                client = await connect(paths, "benchmark")
                self._clients.append(client)
                return Engine(name, process, client, paths, started_at, time.perf_counter())
            await self._patience.rest(POLL_SECONDS)
        raise self.failure(name, "did not start")

    async def stop_engine(self, engine: Engine) -> None:
        """End it in order."""
        self._clients.remove(engine.client)
        await engine.client.close()
        await self._stop(engine.name, engine.process)

    async def start_plain(self, manifest: Path, threads: int) -> "PlainTrainer":
        """The plain loop, with as many threads as a worker has."""
        command = [sys.executable, "-m", "tests.benchmarks.plain_loop", str(manifest), str(threads)]
        more = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
        return PlainTrainer(self, await self._spawn("plain", command, stdout=PIPE, more=more))

    async def stop_plain(self, trainer: "PlainTrainer") -> None:
        """End it."""
        await self._stop("plain", trainer.process)

    async def start_window(self, engine: Engine, more: Mapping[str, str]) -> Process:
        """The window of an engine's profile, with `more` in its environment; its stderr is a pipe."""
        command = [sys.executable, "-m", "app", "--attach", "--quit-on-close", "--data-dir", str(engine.paths.data_dir)]
        return await self._spawn("window", command, stderr=PIPE, more=more)

    async def stop_window(self, process: Process) -> None:
        """End it in order."""
        await self._stop("window", process)

    async def start_screen(self) -> str:
        """An X server without a screen; its display.

        Raises:
            BenchmarkFailed: it did not start.
        """
        line = await self.line("screen", await self._spawn("screen", (*UNTIL_INPUT_ENDS, *SCREEN), stdout=PIPE))
        return f":{line.decode().strip()}"

    async def line(self, name: str, process: Process) -> bytes:
        """The next line of a child's stdout.

        Raises:
            BenchmarkFailed: none came.
        """
        if process.stdout is None:
            raise RuntimeError(f"{name} was started without a pipe")
        line = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                line = await process.stdout.readline()
        if not line:
            raise self.failure(name, "did not answer")
        return line

    def failure(self, name: str, what: str) -> BenchmarkFailed:
        """An error with the last words of a process."""
        words = b""
        with contextlib.suppress(OSError):
            words = (self._base / f"{name}.err").read_bytes()[-ERROR_BYTES:]
        return BenchmarkFailed(f"{name} {what}. {words.decode(errors='replace').strip()}")

    def _potluck(self, name: str, arguments: Sequence[str], module: str = "engine.runtime.cli") -> list[str]:
        return [sys.executable, "-m", module, "--data-dir", str(self._base / name), *arguments]

    async def _spawn(
        self,
        name: str,
        command: Sequence[str],
        *,
        stdout: int = DEVNULL,
        stderr: int | None = None,
        more: Mapping[str, str] | None = None,
    ) -> Process:
        with (self._base / f"{name}.err").open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=PIPE,
                stdout=stdout,
                stderr=errors if stderr is None else stderr,
                env={**os.environ, **(more or {})},
                start_new_session=sys.platform != "win32",  # Ctrl-C here must not reach them before we say so
            )
        self._running.append((name, process))
        return process

    async def _stop(self, name: str, process: Process) -> None:
        await _end(name, process)
        self._running.remove((name, process))


class PlainTrainer:
    """The plain loop's process."""

    def __init__(self, children: Children, process: Process) -> None:
        self._children = children
        self.process = process

    async def train(self, seconds: float, suspend: tuple[int, ...] = ()) -> Answer:
        """Let it train, with these processes standing still.

        Raises:
            BenchmarkFailed: it died.
        """
        if self.process.stdin is None:
            raise RuntimeError("the plain loop was started without a pipe")
        request = Request(seconds=seconds, suspend=suspend)
        self.process.stdin.write(msgspec.json.encode(request) + b"\n")
        await self.process.stdin.drain()
        return msgspec.json.decode(await self._children.line("plain", self.process), type=Answer)


async def _end(name: str, process: Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    if name == "window" and process.returncode is None:
        process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
