"""A hub and engines as real processes, each with its own profile; all end with the test."""

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path

import msgspec

from engine.contract.snapshot import EngineState
from engine.control.client import ControlClient, connect
from engine.core.paths import Paths
from engine.manifest.schema import Manifest
from engine.runtime.hub_command import HubStarted

PATIENCE_SECONDS = 100.0


class EngineProcess:
    """`potluck run` and a link to it."""

    def __init__(self, paths: Paths, process: Process, client: ControlClient) -> None:
        self.paths, self.process, self.client = paths, process, client
        self.state: EngineState | None = None
        self.hashes: dict[int, str] = {}  # weights by step, of rounds that it committed
        self._follower = asyncio.create_task(self._follow())
        self._news = asyncio.Event()

    async def _follow(self) -> None:
        async for state in self.client.states():
            self.state = state
            last = state.session.last_round if state.session is not None else None
            if last is not None and last.committed:
                self.hashes[last.global_step] = last.weights_hash
            self._tell()
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def until(self, true: Callable[[EngineState], object]) -> EngineState:
        """The first state for which something is true."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.state is None or not true(self.state):
                assert not self._follower.done(), "the engine ended"
                await self._news.wait()
            return self.state

    async def close(self) -> None:
        """End the link; the process is the caller's."""
        await self.client.close()
        await self._follower


class Processes:
    """Use as a context."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._running: list[Process] = []
        self._drains: list[asyncio.Task[None]] = []
        self._engines: list[EngineProcess] = []

    async def __aenter__(self) -> "Processes":
        return self

    async def __aexit__(self, *_: object) -> None:
        for engine in self._engines:
            await engine.close()
        for process in self._running:
            if process.stdin is not None:
                process.stdin.close()
        for process in self._running:
            try:
                async with asyncio.timeout(30):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        for task in self._drains:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def hub(self, manifest: Manifest) -> HubStarted:
        """On a free port, with one project."""
        file = self._base / "manifest.json"
        file.write_bytes(msgspec.json.encode(manifest))
        process = await self._start("hub", "hub", "--port", "0", "--publish", str(file))
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            return msgspec.json.decode(await process.stdout.readline(), type=HubStarted)

    async def engine(self, name: str, *arguments: str) -> EngineProcess:
        """One that answers on its control link."""
        process = await self._start(name, "run", "--no-keyring", "--loopback", "--unattended", *arguments)
        paths = Paths(self._base / name)
        engine = EngineProcess(paths, process, await connect(paths, "test", subscribe=True))
        self._engines.append(engine)
        return engine

    async def _start(self, name: str, *arguments: str) -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "engine.runtime.cli",
            "--data-dir",
            str(self._base / name),
            *arguments,
            "--end-with-parent",
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )
        self._running.append(process)
        assert process.stderr is not None
        said = bytearray()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while b"engine runs" not in said and b"hub listens" not in said:
                line = await process.stderr.readline()
                assert line, f"{name} ended: {said.decode(errors='replace')}"
                said += line
        self._drains.append(asyncio.create_task(_drain(process)))
        return process


async def _drain(process: Process) -> None:
    """A full pipe would stop the process."""
    if process.stderr is not None:
        while await process.stderr.read(65_536):
            pass
