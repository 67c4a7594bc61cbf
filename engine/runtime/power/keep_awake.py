"""Keeping the computer awake while it trains: only when the user asked for it, and told whether it was granted.

What is asked for is that the computer does not sleep for want of a user; the screen may go dark, and whoever closes the
lid or chooses Sleep gets it.
"""

import asyncio
import contextlib
import ctypes
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

from engine.runtime.power.windows import ES_CONTINUOUS, ES_SYSTEM_REQUIRED

log = logging.getLogger(__name__)

GRANTED: Final = "granted"
WHY: Final = "Trains a model"
CAFFEINATE: Final = "/usr/bin/caffeinate"
ANSWER_SECONDS: Final = 5.0


class Lock(Protocol):
    """One way to stay awake. Both methods block for a moment and are called in threads, one at a time."""

    def hold(self) -> str:
        """GRANTED, or why not, as a short text."""

    def release(self) -> None:
        """Safe to repeat."""


class KeepAwake:
    """Holds the system's lock while it is wanted."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._mutex = asyncio.Lock()
        self.answer = ""
        """ "" while nothing is asked for, GRANTED, or why the system did not grant it."""

    async def want(self, wanted: bool) -> str:
        """Ask for it, or give it back; `answer` afterwards. Cheap when nothing changes."""
        async with self._mutex:
            if wanted and not self.answer:
                self.answer = await asyncio.to_thread(self._lock.hold) or "the system does not say why"
                log.info("asked to keep this computer awake: %s", self.answer)
            elif not wanted and self.answer:
                await asyncio.to_thread(self._lock.release)
                self.answer = ""
            return self.answer

    async def close(self) -> None:
        """Give it back."""
        await self.want(False)


def lock_for_this_system() -> Lock:
    """What this system offers."""
    if sys.platform == "win32":
        return WindowsLock(ctypes.WinDLL)
    elif sys.platform == "darwin":  # noqa: RET505 (only this form lets the type checker see all three systems)
        return CaffeinateLock()
    else:
        from engine.hardware.bus import session_bus_address, system_bus_address
        from engine.runtime.power.bus_lock import BusLock

        return BusLock(session_bus_address(os.environ), system_bus_address(os.environ))


class CaffeinateLock:
    """macOS: its own program holds the assertion, for as long as it runs and this process lives."""

    def __init__(self, command: str = CAFFEINATE) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def hold(self) -> str:
        arguments = [self._command, "-i", "-w", str(os.getpid())]
        quiet = subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(arguments, stdin=quiet, stdout=quiet, stderr=quiet)
        except OSError as error:
            return f"{self._command}: {error.strerror or error}"
        return GRANTED

    def release(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ANSWER_SECONDS)


class WindowsLock:
    """Windows: SetThreadExecutionState holds for the thread that called it, so there is one for that."""

    def __init__(self, load: Callable[[str], Any]) -> None:
        self._load = load
        self._thread: threading.Thread | None = None
        self._done = threading.Event()
        self._answered = threading.Event()
        self._answer = ""

    def hold(self) -> str:
        self._done.clear()
        self._answered.clear()
        self._answer = "Windows did not answer"
        self._thread = threading.Thread(target=self._hold, name="keep awake", daemon=True)
        self._thread.start()
        self._answered.wait(ANSWER_SECONDS)
        return self._answer

    def release(self) -> None:
        self._done.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(ANSWER_SECONDS)

    def _hold(self) -> None:
        try:
            set_state = self._load("kernel32").SetThreadExecutionState
            granted = bool(set_state(ctypes.c_uint32(ES_CONTINUOUS | ES_SYSTEM_REQUIRED)))
        except (OSError, AttributeError) as error:
            self._answer = str(error)
            self._answered.set()
            return
        self._answer = GRANTED if granted else "Windows refused"
        self._answered.set()
        self._done.wait()
        set_state(ctypes.c_uint32(ES_CONTINUOUS))
