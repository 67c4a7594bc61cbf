"""Where this window's profile lives. The engine derives the same folder by itself; neither imports the other's rule."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PySide6.QtCore import QStandardPaths

HOME_VARIABLE: Final = "POTLUCK_HOME"
FOLDER: Final = "potluck"
MAX_SOCKET_PATH_BYTES: Final = 100
"""Unix socket addresses are limited to 104 (macOS) or 108 bytes (Linux)."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The files of one profile that the window knows of."""

    data_dir: Path

    @property
    def endpoint_file(self) -> Path:
        """Written by the engine: where it listens, and the token."""
        return self.data_dir / "endpoint.json"

    @property
    def preferences_file(self) -> Path:
        """The window's own: geometry, notes already shown."""
        return self.data_dir / "window.ini"

    @property
    def window_address(self) -> str:
        """Local socket on which the first window of this profile listens for later starts."""
        path = self.data_dir / "window.sock"
        if os.name == "posix" and len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
            return str(path)
        return f"potluck-window-{hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:24]}"

    def ensure(self) -> None:
        """Create the folder, private to the user.

        Raises:
            OSError: it cannot be made.
        """
        self.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)


def find_profile(data_dir: str | None, environment: Mapping[str, str]) -> Profile:
    """The profile named on the command line, else by POTLUCK_HOME, else the system's place for user data."""
    override = data_dir or environment.get(HOME_VARIABLE)
    if override:
        return Profile(Path(override).expanduser().absolute())
    base = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.GenericDataLocation)
    return Profile(Path(base) / FOLDER)
