"""Starts the engine when nobody answers, detached, so that it lives on without the window."""

import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, QProcess, Signal

log = logging.getLogger(__name__)

ENGINE_MODULE: Final = "engine.runtime.cli"
PATIENCE_SECONDS: Final = 20.0
"""How long a started engine may take to answer before another is started."""
MAX_STARTS: Final = 3
RESTART_REST_SECONDS: Final = 600.0
"""An engine that vanishes again this soon after it was restarted is left to the user."""


def engine_command(data_dir: Path) -> list[str]:
    """Program and arguments of the engine of this profile."""
    return [sys.executable, "-m", ENGINE_MODULE, "--data-dir", str(data_dir), "run", "--detached"]


def start_detached(command: list[str]) -> bool:
    """Start a process that outlives this one; whether it was started. Does not wait for it."""
    process = QProcess()
    process.setProgram(command[0])
    process.setArguments(command[1:])
    process.setWorkingDirectory(str(Path(__file__).resolve().parents[2]))  # so that `-m` finds the package
    for set_file in (process.setStandardOutputFile, process.setStandardErrorFile):
        set_file(QProcess.nullDevice())
    process.setStandardInputFile(QProcess.nullDevice())
    started: object = process.startDetached()  # a bool, or a pair that begins with it, by version of the binding
    return bool(started[0]) if isinstance(started, tuple) else bool(started)


class EngineLauncher(QObject):
    """Decides when to start an engine.

    Signals:
        started: an engine process was started; it will answer soon.
        restarted: that was because one which had answered vanished.
        gave_up: several were started and none answered; the user decides.
    """

    started = Signal()
    restarted = Signal()
    gave_up = Signal()

    def __init__(
        self,
        data_dir: Path,
        *,
        enabled: bool = True,
        start: Callable[[list[str]], bool] = start_detached,
        monotonic: Callable[[], float] = time.monotonic,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._command = engine_command(data_dir)
        self._enabled = enabled
        self._start = start
        self._monotonic = monotonic
        self._starts = 0
        self._last_start: float | None = None
        self._gave_up = False
        self._answered = False
        self._last_restart: float | None = None

    @property
    def has_given_up(self) -> bool:
        """Whether nothing more is started until `reset`."""
        return self._gave_up

    def on_nobody_answers(self) -> None:
        """An attempt to reach the engine found none: start one, unless one was started a moment ago."""
        if not self._enabled or self._gave_up:
            return
        now = self._monotonic()
        if self._last_start is not None and now - self._last_start < PATIENCE_SECONDS:
            return
        if self._starts >= MAX_STARTS:
            self._give_up()
            return
        vanished, self._answered = self._answered, False
        if vanished and self._last_restart is not None and now - self._last_restart < RESTART_REST_SECONDS:
            self._give_up()
            return
        self._last_restart = now if vanished else self._last_restart
        self._starts += 1
        self._last_start = now
        self._begin(vanished)

    def _begin(self, vanished: bool) -> None:
        log.info("starting the engine: %s", " ".join(self._command))
        if not self._start(self._command):
            self._give_up()
            return
        self.started.emit()
        if vanished:
            self.restarted.emit()

    def on_connected(self) -> None:
        """The engine answered: if it vanishes now, it may be restarted once."""
        self._forget_starts()
        self._answered = True

    def reset(self) -> None:
        """The user asks to try again."""
        self._forget_starts()
        self._answered = False
        self._last_restart = None

    def _forget_starts(self) -> None:
        self._starts = 0
        self._last_start = None
        self._gave_up = False

    def disable(self) -> None:
        """Start nothing any more: the window is about to end the engine."""
        self._enabled = False

    def _give_up(self) -> None:
        self._gave_up = True
        self.gave_up.emit()
