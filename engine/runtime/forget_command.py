"""`potluck forget`: leave the project in order, end the engine, and remove what Potluck keeps of this user."""

import argparse
import asyncio
import contextlib
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Final

from engine.contract import commands as c
from engine.contract.errors import ControlError
from engine.control.client import EngineGone, EngineNotRunning, connect
from engine.control.endpoint import EngineLock
from engine.core.errors import UserError
from engine.core.paths import Paths
from engine.identity.vault import forget
from engine.kit.install import POINTER_NAME
from engine.kit.service import FILES_NAME, HOME_NAME

END_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.25
APPLICATION_ID: Final = b"PTLK"
APPLICATION_ID_AT: Final = slice(68, 72)  # of an SQLite file (its format, section 1.3)
FILES: Final = (
    "potluck.db*",
    "identity.key",
    "endpoint.json",
    "engine.lock",
    "engine.sock",
    "guest.json",
    "measurement.json",
    "window.ini",
    "window.ini.lock",
    "window.sock",
    "logs/engine.log*",
    "logs/window.log*",
)
PROJECT_FOLDER: Final = re.compile(r"[0-9a-f]{64}")


def run_forget(paths: Paths, options: argparse.Namespace) -> int:
    """Remove this profile.

    Raises:
        UserError: it is not a profile, its engine does not end, or the folder cannot be removed.
    """
    folder = paths.data_dir
    if not folder.exists():
        sys.stdout.write(f"There is nothing in {folder}.\n")
        return 0
    if not _is_profile(paths):
        raise UserError(f"{folder} is not a folder of Potluck.", "Name the profile's folder with --data-dir.")
    if not options.yes and not _confirmed(folder):
        sys.stdout.write("Nothing was removed.\n")
        return 1
    asyncio.run(_end_engine(paths))
    _wait_for_end(paths)
    forget(paths.key_file)
    left = remove_profile(folder)
    sys.stdout.write(f"Removed what Potluck kept in {folder}, and its key from this system's keyring.\n")
    if left:
        sys.stdout.write(f"The folder stays: it also holds {', '.join(left[:5])}, which is not Potluck's.\n")
    return 0


def _is_profile(paths: Paths) -> bool:
    """By the mark in its store: a mistyped --data-dir must not cost anybody's documents."""
    try:
        with paths.store_file.open("rb") as store:
            return store.read(APPLICATION_ID_AT.stop)[APPLICATION_ID_AT] == APPLICATION_ID
    except OSError:
        return False


def _confirmed(folder: Path) -> bool:
    sys.stdout.write(
        f"This removes {folder}: your identity, your settings, the training kit and the models that are kept there.\n"
        "What others verified of your work stays with the hub. Type yes to go on: "
    )
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() == "yes"


async def _end_engine(paths: Paths) -> None:
    """Politely, as far as one is there to be asked."""
    with contextlib.suppress(ControlError, EngineNotRunning, EngineGone, TimeoutError):
        async with await connect(paths) as client:
            await client.request(c.Leave(when="after_round"))
            await client.request(c.StopEngine())


def _wait_for_end(paths: Paths) -> None:
    deadline = time.monotonic() + END_SECONDS
    while True:
        try:
            with EngineLock(paths):
                return
        except UserError:
            if time.monotonic() > deadline:
                raise
        time.sleep(POLL_SECONDS)


def remove_profile(folder: Path) -> list[str]:
    """Only what Potluck itself makes, by name; what else is in the folder, which then stays.

    Raises:
        UserError: something of ours cannot be removed.
    """
    projects, kit = folder / "projects", folder / HOME_NAME
    trees = [path for path in _children(projects) if PROJECT_FOLDER.fullmatch(path.name)]
    trees += [kit] if (kit / POINTER_NAME).exists() or (kit / FILES_NAME).exists() else []
    try:
        for tree in trees:
            shutil.rmtree(tree)
        for pattern in FILES:
            for path in folder.glob(pattern):
                path.unlink(missing_ok=True)
        for place in (projects, folder / "logs", folder):
            if place.is_dir() and not _children(place):
                place.rmdir()
    except OSError as error:
        raise UserError(
            f"{error.filename or folder} cannot be removed: {error.strerror or error}.",
            "Close the window and what else uses it, then try again.",
        ) from error
    return [path.name for path in _children(folder)]


def _children(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
