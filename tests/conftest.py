"""Settings of every test: no display, no real keyring, no line to the outside, no chance in what hypothesis tries."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import keyring.backends.fail
import pytest
from hypothesis import settings

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"  # for the processes that tests start

pytest_plugins = ["tests.helpers.guards"]

_LINUX_ONLY = ["test_private_bus.py", "test_wayland.py", "test_x11.py"]
collect_ignore = [] if sys.platform == "linux" else [f"integration/hardware/{name}" for name in _LINUX_ONLY]

settings.register_profile("potluck", derandomize=True, deadline=None, max_examples=60, database=None)
settings.load_profile("potluck")


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test never touches the profile of the person who runs it."""
    monkeypatch.setenv("POTLUCK_HOME", str(tmp_path / "potluck-home"))


@pytest.fixture(autouse=True)
def _no_real_keyring() -> Iterator[None]:
    """Keyring calls fail as on a computer without one; a test may `keyring.set_keyring(...)` its own."""
    keyring.set_keyring(keyring.backends.fail.Keyring())
    yield
    keyring.set_keyring(keyring.backends.fail.Keyring())
