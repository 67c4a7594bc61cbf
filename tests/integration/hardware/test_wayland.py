"""Idle time of a real Wayland compositor (sway, without a screen). Collected on Linux only: see tests/conftest.py."""

import contextlib
import os
import select
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.hardware.answer import Answer
from engine.hardware.full_screen import read_full_screen
from engine.hardware.idle_sources import reader_for, x11_of
from engine.hardware.idle_watch import IdleWatcher
from tests.helpers.fake_host import fake_host

pytestmark = pytest.mark.integration

LIMIT_SECONDS = 20.0
NOW = 1_700_000_000.0
NOBODY = 65534
SOURCE = "Wayland idle notifier"


@pytest.fixture
def compositor() -> Iterator[dict[str, str]]:
    """The environment of its session. Its folder is not below tmp_path: a socket's path may have 107 characters, and
    sway, which refuses to be root, must reach it.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="sway"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        (folder / "config").write_text(
            f"seat seat0 fallback true\nexec sh -c 'echo $WAYLAND_DISPLAY > {folder}/there'\n"
        )
        os.mkfifo(folder / "there")
        user = []
        if os.geteuid() == 0:
            user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            for path in (folder, folder / "config", folder / "there"):
                os.chown(path, NOBODY, NOBODY)
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "HOME": str(folder), "XDG_SESSION_TYPE": "wayland"}
        headless = {"WLR_BACKENDS": "headless", "WLR_LIBINPUT_NO_DEVICES": "1", "WLR_RENDERER": "pixman"}
        sway = subprocess.Popen(
            [*user, "sway", "-c", str(folder / "config")],
            env={**environment, **headless},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(sway.wait, LIMIT_SECONDS)
        stack.callback(sway.terminate)
        there = os.open(folder / "there", os.O_RDWR)
        stack.callback(os.close, there)
        assert select.select([there], [], [], LIMIT_SECONDS)[0], "sway did not start"
        yield {**environment, "WAYLAND_DISPLAY": os.read(there, 100).decode().strip()}


def test_a_key_press_is_noticed(tmp_path: Path, compositor: dict[str, str]) -> None:
    host = fake_host(tmp_path, environment=compositor)
    reader = reader_for(host, x11_of(host))
    noticed, quiet = threading.Event(), threading.Event()

    def read() -> Answer[float]:
        answer = reader.read(NOW)
        if answer.value is not None and answer.value > 1.0:
            quiet.set()
        return answer

    def heard() -> None:
        if quiet.is_set():
            noticed.set()
        else:
            watcher.arm()  # the compositor tells of whole seconds: at the beginning "just now" says nothing

    watcher = IdleWatcher(read, heard)
    try:
        first = reader.read(NOW)
        assert first.source == SOURCE
        assert first.value is not None
        watcher.arm()
        assert quiet.wait(LIMIT_SECONDS)
        assert not noticed.is_set()
        subprocess.run(["wtype", "a"], env=compositor, check=True, timeout=LIMIT_SECONDS)
        assert noticed.wait(LIMIT_SECONDS)
    finally:
        watcher.close()
        reader.close()


def test_no_compositor(tmp_path: Path) -> None:
    environment = {"XDG_RUNTIME_DIR": str(tmp_path), "WAYLAND_DISPLAY": "wayland-9"}
    host = fake_host(tmp_path, environment=environment)
    reader = reader_for(host, x11_of(host))
    assert reader.read(NOW).value is None
    assert read_full_screen(host, None).value is None
    reader.close()
