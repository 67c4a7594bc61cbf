"""Where Potluck keeps things on this system."""

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs

APP_NAME: Final = "potluck"
HOME_VARIABLE: Final = "POTLUCK_HOME"
"""Overrides the data folder (a second profile, a test, a demonstration)."""

MAX_SOCKET_PATH_BYTES: Final = 100
"""Unix socket addresses are limited to 104 (macOS) or 108 bytes (Linux)."""


@dataclass(frozen=True, slots=True)
class Paths:
    """All folders and files of one profile."""

    data_dir: Path

    @property
    def store_file(self) -> Path:
        return self.data_dir / "potluck.db"

    @property
    def key_file(self) -> Path:
        return self.data_dir / "identity.key"

    @property
    def endpoint_file(self) -> Path:
        return self.data_dir / "endpoint.json"

    @property
    def lock_file(self) -> Path:
        return self.data_dir / "engine.lock"

    @property
    def log_dir(self) -> Path:
        return self.data_dir / "logs"

    @property
    def socket_file(self) -> Path:
        """The control link's Unix socket; in a private temporary folder when the data folder's path is too long."""
        preferred = self.data_dir / "engine.sock"
        if len(os.fsencode(preferred)) <= MAX_SOCKET_PATH_BYTES:
            return preferred
        private = Path(tempfile.gettempdir()) / f"{APP_NAME}-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
        return private / f"{hash_of(self.data_dir):x}.sock"

    def project_dir(self, project_id: str) -> Path:
        """Checkpoints and buffers of one project. `project_id` is hex, checked here since it names a folder.

        Raises:
            ValueError: it is not 64 hex digits.
        """
        if len(project_id) != 64 or not set(project_id) <= set("0123456789abcdef"):
            raise ValueError("a project id is 64 hex digits")
        return self.data_dir / "projects" / project_id

    def ensure(self) -> None:
        """Create the folders, private to the user.

        Raises:
            OSError: the data folder cannot be made or is not writable.
        """
        self.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.log_dir.mkdir(exist_ok=True, mode=0o700)


def hash_of(path: Path) -> int:
    """A number that names `path` the same way in every process."""
    return int.from_bytes(hashlib.sha256(os.fsencode(path)).digest()[:8], "big")


def default_paths() -> Paths:
    """The profile named by POTLUCK_HOME, else the system's place for user data."""
    override = os.environ.get(HOME_VARIABLE)
    if override:
        return Paths(Path(override).expanduser().absolute())
    return Paths(Path(platformdirs.user_data_dir(APP_NAME, appauthor=False)))
