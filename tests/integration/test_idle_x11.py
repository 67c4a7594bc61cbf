"""The idle time of a real X display. Collected on Linux only: see tests/conftest.py."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.hardware import idle

pytestmark = pytest.mark.integration


@pytest.fixture
def x_display(tmp_path: Path) -> Iterator[str]:
    """A real X server without a screen."""
    read_end, write_end = os.pipe()
    command = ["Xvfb", "-displayfd", str(write_end), "-screen", "0", "64x64x24", "-nolisten", "tcp"]
    with contextlib.ExitStack() as stack:
        server = subprocess.Popen(
            command, pass_fds=[write_end], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path
        )
        stack.callback(server.wait, 10)
        stack.callback(server.terminate)
        os.close(write_end)
        with os.fdopen(read_end) as number:
            yield f":{number.readline().strip()}"


def test_the_idle_time_of_an_x_display(x_display: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", x_display)
    monkeypatch.setattr(idle, "COMMAND_LIMIT_SECONDS", 20.0)
    seconds = idle.x11_idle_seconds()
    assert seconds is not None
    assert 0 <= seconds < 60


def test_no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":4095")
    monkeypatch.setattr(idle, "COMMAND_LIMIT_SECONDS", 20.0)
    assert idle.x11_idle_seconds() is None
