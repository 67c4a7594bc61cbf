"""`potluck forget`: leave the project in order, end the engine, and remove what Potluck keeps of this user."""

import argparse
import asyncio
import contextlib
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

END_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.25
OURS: Final = ("potluck.db", "identity.key", "endpoint.json", "engine.lock", "kit", "projects", "logs", "hub.db")
"""One of these must be in a folder that is to be removed: a mistyped --data-dir must not cost anybody's documents."""


def run_forget(paths: Paths, options: argparse.Namespace) -> int:
    """Remove this profile.

    Raises:
        UserError: it is not a profile, its engine does not end, or the folder cannot be removed.
    """
    folder = paths.data_dir
    if not folder.exists():
        sys.stdout.write(f"There is nothing in {folder}.\n")
        return 0
    if not any((folder / name).exists() for name in OURS):
        raise UserError(f"{folder} is not a folder of Potluck.", "Name the profile's folder with --data-dir.")
    if not options.yes and not _confirmed(folder):
        sys.stdout.write("Nothing was removed.\n")
        return 1
    asyncio.run(_end_engine(paths))
    _wait_for_end(paths)
    forget(paths.key_file)
    _remove(folder)
    sys.stdout.write(f"Removed {folder}, and the key from this system's keyring if it was there.\n")
    return 0


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


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise UserError(
            f"{error.filename or folder} cannot be removed: {error.strerror or error}.",
            "Close the window and what else uses it, then try again.",
        ) from error
