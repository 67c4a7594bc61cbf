"""The demonstration's processes: a hub and engines, each with its state in a folder of its own, ended together."""

import asyncio
import contextlib
import logging
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from engine.control.client import ControlClient, EngineNotRunning, connect
from engine.core.errors import UserError
from engine.core.paths import Paths
from engine.runtime.hub_command import HubStarted

log = logging.getLogger(__name__)

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 25.0
POLL_SECONDS: Final = 0.1
ERROR_BYTES: Final = 4000


class Processes:
    """Children of this process. Each ends when its standard input closes, so none can outlive a crash here."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._running: list[tuple[str, Process]] = []

    async def start_hub(self) -> HubStarted:
        """A hub on a free loopback port, with the bundled project.

        Raises:
            UserError: it did not start; says what it said.
        """
        process = await self._start("hub", ["hub", "--port", "0", "--bundled", "--end-with-parent"], stdout=PIPE)
        if process.stdout is None:
            raise RuntimeError("the hub was started without a pipe")
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await process.stdout.readline()
            return msgspec.json.decode(line, type=HubStarted)
        except (TimeoutError, msgspec.DecodeError) as error:
            raise UserError(f"The hub did not start. {self._last_words('hub')}") from error

    async def start_engine(self, name: str, arguments: Sequence[str]) -> ControlClient:
        """An engine on its own profile, and a link to it.

        Raises:
            UserError: it did not start; says what it said.
        """
        process = await self._start(name, ["run", "--no-keyring", "--loopback", "--end-with-parent", *arguments])
        try:
            async with asyncio.timeout(START_SECONDS):
                while process.returncode is None:
                    with contextlib.suppress(EngineNotRunning):
                        return await connect(self.paths(name), "demo", subscribe=True)
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            log.debug("%s did not answer in time", name)
        raise UserError(f"The volunteer {name} did not start. {self._last_words(name)}")

    def paths(self, name: str) -> Paths:
        """The profile of a child."""
        return Paths(self._base / name)

    async def stop(self) -> None:
        """Ask all engines to end, then the hub, then kill what is left."""
        engines = [process for name, process in self._running if name != "hub"]
        hubs = [process for name, process in self._running if name == "hub"]
        self._running = []
        for group in (engines, hubs):
            for process in group:
                if process.stdin is not None:
                    process.stdin.close()
            waits = [asyncio.create_task(process.wait()) for process in group]
            if waits:
                await asyncio.wait(waits, timeout=STOP_SECONDS)
            for process in group:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()
            await asyncio.gather(*waits)

    async def _start(self, name: str, arguments: Sequence[str], stdout: int = DEVNULL) -> Process:
        folder = self._base / name
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._base / f"{name}.err").open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "engine.runtime.cli",
                "--data-dir",
                str(folder),
                *arguments,
                stdin=PIPE,
                stdout=stdout,
                stderr=errors,
                start_new_session=sys.platform != "win32",  # Ctrl-C here must not reach them before we say so
            )
        self._running.append((name, process))
        return process

    def _last_words(self, name: str) -> str:
        try:
            return (self._base / f"{name}.err").read_bytes()[-ERROR_BYTES:].decode(errors="replace").strip()
        except OSError:
            return ""
