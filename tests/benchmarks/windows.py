"""Seconds from starting the window's process to its first paint, and to the first that shows the engine's state."""

import asyncio
import os
import shutil
import sys
import time
from dataclasses import dataclass
from typing import Final

from tests.benchmarks.children import BenchmarkFailed, Children, Engine

# As `app.timing` has them; a test compares.
VARIABLE: Final = "POTLUCK_TIMING"
PAINTED: Final = "potluck timing: painted"
USABLE: Final = "potluck timing: usable"
WINDOW_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class WindowStart:
    """From spawning the process to the line that it writes."""

    painted_seconds: float
    usable_seconds: float


async def screen(children: Children) -> dict[str, str]:
    """What the window's environment needs so that it disturbs nobody: an X server without a screen where there is one
    (so that a real window system takes part), else Qt's own off-screen platform.
    """
    if sys.platform == "linux" and shutil.which("Xvfb"):
        return {"QT_QPA_PLATFORM": "xcb", "DISPLAY": await children.start_screen(), "WAYLAND_DISPLAY": ""}
    return {"QT_QPA_PLATFORM": "offscreen"}


async def start_windows(
    children: Children, engine: Engine, environment: dict[str, str], count: int
) -> list[WindowStart]:
    """One window after the other, each ended before the next; the first of `count` + 1 only warms up."""
    starts = [await _start(children, engine, environment) for _ in range(count + 1)]
    return starts[1:]


async def _start(children: Children, engine: Engine, environment: dict[str, str]) -> WindowStart:
    begun = time.perf_counter()
    process = await children.start_window(engine, {**environment, VARIABLE: "1"})
    try:
        if process.stderr is None:
            raise RuntimeError("the window was started without a pipe")
        painted = await _await_line(process.stderr, PAINTED)
        usable = await _await_line(process.stderr, USABLE)
    finally:
        await children.stop_window(process)
    return WindowStart(painted - begun, usable - begun)


async def _await_line(stream: asyncio.StreamReader, wanted: str) -> float:
    """When it came."""
    said: list[str] = []
    try:
        async with asyncio.timeout(WINDOW_SECONDS):
            while data := await stream.readline():
                text = data.decode(errors="replace").strip()
                if text == wanted:
                    return time.perf_counter()
                said.append(text)
    except TimeoutError:
        said.append(f"(waited {WINDOW_SECONDS:.0f} s)")
    raise BenchmarkFailed(f"the window never said {wanted!r}. {os.linesep.join(said[-20:])}")
