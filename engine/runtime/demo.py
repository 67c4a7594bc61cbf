"""`potluck demo`: a hub, volunteers and the user's own engine on this computer, training a real model together."""

import argparse
import asyncio
import contextlib
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from engine.core.errors import UserError
from engine.core.tasks import TaskOwner
from engine.runtime.demo_processes import Processes
from engine.runtime.demo_watch import Summary, Watched, settle, summarise
from engine.runtime.lifetime import stop_event

log = logging.getLogger(__name__)

PROJECT: Final = "pocket-python"
LINES_EVERY_SECONDS: Final = 5.0
LIVE_EVERY_SECONDS: Final = 0.5
SETTLE_SECONDS: Final = 40.0
FIRST_ROUND_SECONDS: Final = 180.0


def run_demo(options: argparse.Namespace) -> int:
    """Run until the window closes, Ctrl-C comes, or the minutes are over; then clean up.

    Raises:
        UserError: the folder cannot be used, or a part did not start.
    """
    headless = options.headless or not has_display()
    if headless and not options.headless:
        sys.stderr.write("No display was found, so the demonstration runs in this terminal. Ctrl-C ends it.\n")
    kept: Path | None = options.keep.expanduser().absolute() if options.keep else None
    base = _base_folder(kept)
    try:
        return asyncio.run(_Demo(base, options, headless).run())
    finally:
        if kept is None:
            shutil.rmtree(base, ignore_errors=True)


def _base_folder(kept: Path | None) -> Path:
    try:
        base = kept or Path(tempfile.mkdtemp(prefix="potluck-demo-"))
        base.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        where = f"the folder {kept}" if kept else "a temporary folder"
        raise UserError(
            f"The demonstration cannot use {where}: {error.strerror or error}.",
            "Name a folder that can be written with --keep.",
        ) from error
    return base


def has_display() -> bool:
    """Whether a window can be shown here."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


class _Demo:
    """One demonstration."""

    def __init__(self, base: Path, options: argparse.Namespace, headless: bool) -> None:
        self._base = base
        self._minutes: float | None = options.minutes
        self._volunteer_count: int = options.volunteers
        self._headless = headless
        self._processes = Processes(base)
        self._volunteers: list[Watched] = []
        self._console = Console(stderr=True)

    async def run(self) -> int:
        stop = stop_event()
        summary: Summary | None = None
        async with TaskOwner("demo") as tasks:
            try:
                await self._start(tasks)
                await self._watch(stop, tasks)
                if self._headless:
                    await settle(self._volunteers, SETTLE_SECONDS)
                    summary = await summarise(self._volunteers)
            finally:
                self._say("Stopping; each volunteer saves first.")
                for volunteer in self._volunteers:
                    await volunteer.client.close()
                await self._processes.stop()
        if summary is not None:
            sys.stdout.write(msgspec.json.encode(summary).decode() + "\n")
        return 0

    async def _start(self, tasks: TaskOwner) -> None:
        self._say("Starting a hub and the volunteers; the first start takes a little longer.")
        hub = await self._processes.start_hub()
        names = [f"volunteer-{number}" for number in range(1, self._volunteer_count + 1)]
        for name in names:
            await self._add(name, ["--hub", hub.url, "--join", PROJECT, "--name", _title(name), "--unattended"], tasks)
        own = ["--hub", hub.url, "--name", "This computer", "--unattended"]
        await self._add("you", [*own, *(["--join", PROJECT] if self._headless else [])], tasks)
        self._say(f"The hub's page for everybody: {hub.url}/projects/{PROJECT}")

    async def _add(self, name: str, arguments: list[str], tasks: TaskOwner) -> None:
        client = await self._processes.start_engine(name, arguments)
        watched = Watched(name, client)
        self._volunteers.append(watched)
        tasks.spawn(f"follow {name}", watched.follow())

    async def _watch(self, stop: asyncio.Event, tasks: TaskOwner) -> None:
        ends: list[asyncio.Task[Any]] = [asyncio.create_task(stop.wait())]
        if self._minutes is not None:
            ends.append(asyncio.create_task(self._time_is_up(self._minutes)))
        if not self._headless:
            ends.append(asyncio.create_task(self._window()))
        showing = asyncio.create_task(self._show()) if self._headless else None
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in [*ends, *([showing] if showing else [])]:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _time_is_up(self, minutes: float) -> None:
        """The minutes count from the first round, since starting takes what it takes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_ROUND_SECONDS):
                await self._volunteers[0].first_round.wait()
        await asyncio.sleep(60.0 * minutes)

    async def _window(self) -> None:
        """The window as a child; ends when it does."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "app", "--attach", "--quit-on-close"),
            *("--data-dir", str(self._processes.paths("you").data_dir)),
        )
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(10.0):
                        await process.wait()

    async def _show(self) -> None:
        """Progress: redrawn in a terminal, appended elsewhere."""
        if not self._console.is_terminal:
            while True:
                await asyncio.sleep(LINES_EVERY_SECONDS)
                for volunteer in self._volunteers:
                    self._say(volunteer.line())
        with Live(console=self._console, auto_refresh=False) as live:
            while True:
                live.update(Text("\n".join(volunteer.line() for volunteer in self._volunteers)), refresh=True)
                await asyncio.sleep(LIVE_EVERY_SECONDS)

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def _title(name: str) -> str:
    return name.replace("-", " ").capitalize()
