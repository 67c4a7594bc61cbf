"""Idle time and full screen of a real X display. Collected on Linux only: see tests/conftest.py."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.hardware.answer import Answer
from engine.hardware.full_screen import read_full_screen
from engine.hardware.idle_sources import reader_for, x11_of
from engine.hardware.idle_watch import IdleWatcher
from engine.hardware.x11 import X11Session
from tests.helpers import x_window
from tests.helpers.fake_host import fake_host

pytestmark = pytest.mark.integration

LIMIT_SECONDS = 20.0
ROOT = Path(__file__).parents[3]
NOW = 1_700_000_000.0


@pytest.fixture
def session(x_display: str) -> Iterator[X11Session]:
    made = X11Session({**os.environ, "DISPLAY": x_display}, LIMIT_SECONDS)
    yield made
    made.close()


def press_a_key(display: str) -> None:
    subprocess.run(["xdotool", "key", "a"], env={**os.environ, "DISPLAY": display}, check=True, timeout=LIMIT_SECONDS)


def test_the_idle_time_of_an_x_display(session: X11Session) -> None:
    seconds = session.idle_seconds()
    assert seconds is not None
    assert 0 <= seconds < 60


def test_one_process_answers_again_and_again(session: X11Session) -> None:
    session.idle_seconds()
    first = session._child.pid
    assert first is not None
    for _ in range(20):
        assert session.idle_seconds() is not None
    assert session._child.pid == first
    session.close()
    assert not psutil.pid_exists(first)


def test_no_display() -> None:
    session = X11Session({**os.environ, "DISPLAY": ":4095"}, LIMIT_SECONDS)
    assert session.idle_seconds() is None
    assert session.full_screen() is None
    session.close()


def test_a_display_that_goes_away(tmp_path: Path, x_display: str, session: X11Session) -> None:
    assert session.idle_seconds() is not None
    (server,) = [child for child in psutil.Process().children() if child.name() == "Xvfb"]
    server.terminate()
    psutil.wait_procs([server], timeout=LIMIT_SECONDS)
    assert session.idle_seconds() is None


def test_a_key_press_is_noticed(tmp_path: Path, x_display: str) -> None:
    host = fake_host(tmp_path, environment={**os.environ, "DISPLAY": x_display})
    reader = reader_for(host, x11_of(host))
    noticed, quiet = threading.Event(), threading.Event()

    def read() -> Answer[float]:
        answer = reader.read(NOW)
        assert answer.source == "X11 screen saver"
        if answer.value is not None and answer.value > 1.0:  # input within half a second of other input is the same
            quiet.set()
        return answer

    watcher = IdleWatcher(read, noticed.set)
    try:
        watcher.arm()
        assert quiet.wait(LIMIT_SECONDS)
        assert not noticed.is_set()
        press_a_key(x_display)
        assert noticed.wait(LIMIT_SECONDS)
        assert not watcher.armed
    finally:
        watcher.close()
        reader.close()


@contextlib.contextmanager
def running(display: str, command: list[str]) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        command,
        env={**os.environ, "DISPLAY": display, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def window(display: str, *arguments: str) -> Iterator[None]:
    with running(display, [sys.executable, "-m", x_window.__name__, *arguments]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"active\n"
        yield


def test_full_screen(x_display: str, session: X11Session, tmp_path: Path) -> None:
    host = fake_host(tmp_path, environment={"DISPLAY": x_display})
    assert read_full_screen(host, session) == Answer(None, "this window manager does not tell")  # there is none
    with running(x_display, ["openbox", "--sm-disable", "--startup", "echo ready"]) as manager:
        assert manager.stdout is not None
        assert b"ready\n" in iter(manager.stdout.readline, b"")
        with window(x_display):
            assert read_full_screen(host, session) == Answer(False, "X11 window manager")
        with window(x_display, "full"):
            assert read_full_screen(host, session) == Answer(True, "X11 window manager")


def test_a_window_that_is_gone_ends_nothing(x_display: str, session: X11Session) -> None:
    command = ["xprop", "-root", "-f", "_NET_ACTIVE_WINDOW", "32x", "-set", "_NET_ACTIVE_WINDOW", "0x7fffff"]
    subprocess.run(command, env={**os.environ, "DISPLAY": x_display}, check=True, timeout=LIMIT_SECONDS)
    assert session.full_screen() is False
    assert session.idle_seconds() is not None
