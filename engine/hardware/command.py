"""Other programs, asked with a time limit and without trust in how much they answer."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO, Final

MAX_OUTPUT_BYTES: Final = 256 * 1024

_FLAGS: Final = 0x08000000 if sys.platform == "win32" else 0  # CREATE_NO_WINDOW: no console flashes up


def run_command(command: Sequence[str], limit_seconds: float) -> str | None:
    """What `command` wrote; None if it is not there, failed, or passed `limit_seconds` (it is then killed)."""
    running = RunningCommand.start(command)
    if running is None:
        return None
    return running.wait(limit_seconds)


class RunningCommand:
    """A program that was started and whose answer is collected later."""

    def __init__(self, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        self._process = process
        self._output = output  # a file and not a pipe: the program never waits for us to read

    @classmethod
    def start(cls, command: Sequence[str]) -> "RunningCommand | None":
        """None if there is no such program."""
        output = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        environment = {**os.environ, "LC_ALL": "C"}
        try:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                env=environment,
                creationflags=_FLAGS,
            )
        except OSError:
            output.close()
            return None
        return cls(process, output)

    @property
    def ended(self) -> bool:
        """True once `wait` will not block."""
        return self._process.poll() is not None

    def wait(self, limit_seconds: float) -> str | None:
        """What it wrote, or None if it failed or passed the limit. It is gone afterwards in either case."""
        try:
            self._process.wait(limit_seconds)
        except subprocess.TimeoutExpired:
            self.close()
            return None
        try:
            self._output.seek(0)
            text = self._output.read(MAX_OUTPUT_BYTES).decode("utf-8", "replace")
        finally:
            self.close()
        return text if self._process.returncode == 0 else None

    def close(self) -> None:
        """Kill it if it still runs. Safe to repeat."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._output.close()
