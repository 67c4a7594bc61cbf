"""A helper process that answers one line for each line it is asked, within a time limit.

What can hang or end a whole process (X11's library, a driver) lives in one of these and not in the engine.
"""

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

MAX_LINE_BYTES: Final = 64 * 1024
FIRST_REST_SECONDS: Final = 4.0
LONGEST_REST_SECONDS: Final = 3600.0

_FLAGS: Final = 0x08000000 if sys.platform == "win32" else 0  # CREATE_NO_WINDOW: no console flashes up


def script_command(name: str) -> list[str]:
    """Runs the file `name` of this folder as a program of its own. Quick to start: it imports nothing of ours."""
    return [sys.executable, "-I", "-S", str(Path(__file__).with_name(name))]


class LineChild:
    """Starts `command` when first asked. One that ends or is late is killed and rests before it is started again:
    a minute at first, then longer each time until it has answered again. Safe in any thread.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = list(command)
        self._environment = environment
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader: threading.Thread | None = None
        self._rest_seconds = FIRST_REST_SECONDS
        self._rests_until = float("-inf")
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return None if self._process is None else self._process.pid

    def ask(self, question: str, limit_seconds: float) -> str | None:
        """The line it answers; None if it cannot be started, ended, or was late."""
        with self._lock:
            if self._closed or self._monotonic() < self._rests_until:
                return None
            if self._process is None and not self._start():
                self._rest()
                return None
            answer = self._exchange(question, limit_seconds)
            if answer is None:
                self._end()
                self._rest()
            else:
                self._rest_seconds = FIRST_REST_SECONDS
            return answer

    def end(self) -> None:
        """End the process now; a later question starts a new one."""
        with self._lock:
            self._end()

    def close(self) -> None:
        """End the process for good, and with it a question under way. Safe to repeat."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()  # who waits for its answer is told that it ended, and lets go of the lock
        with self._lock:
            self._end()

    def _rest(self) -> None:
        self._rests_until = self._monotonic() + self._rest_seconds
        self._rest_seconds = min(LONGEST_REST_SECONDS, 2 * self._rest_seconds)

    def _start(self) -> bool:
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=dict(os.environ if self._environment is None else self._environment),
                creationflags=_FLAGS,
            )
        except OSError:
            return False
        assert process.stdout is not None
        self._process, self._lines = process, queue.SimpleQueue()
        if self._closed:  # by another thread, which saw no process to end
            process.kill()
        self._reader = threading.Thread(
            target=_read_lines, args=(process.stdout, self._lines), name=f"lines of {process.pid}", daemon=True
        )
        self._reader.start()
        return True

    def _exchange(self, question: str, limit_seconds: float) -> str | None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(question.encode() + b"\n")  # a short line: fits the pipe while the child lives
            self._process.stdin.flush()
            line = self._lines.get(timeout=limit_seconds)
        except (OSError, queue.Empty):
            return None
        return line[:-1].decode("utf-8", "replace") if line.endswith(b"\n") else None

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        if self._reader is not None:
            self._reader.join(1.0)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _read_lines(output: IO[bytes], lines: "queue.SimpleQueue[bytes]") -> None:
    while line := output.readline(MAX_LINE_BYTES):
        lines.put(line)
    lines.put(b"")  # it ended
