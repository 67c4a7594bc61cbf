"""Checkpoints on this computer's disk: written whole or not at all, verified when read, the last few kept."""

import contextlib
import errno
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.checkpoints.errors import BlobError, CheckpointError
from engine.checkpoints.format import from_blob, max_blob_bytes, to_blob
from engine.checkpoints.state import SharedState
from engine.core.files import write_atomic

log = logging.getLogger(__name__)

KEPT: Final = 2
_NAME: Final = re.compile(r"^step-(\d{12})\.safetensors\Z")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A checkpoint that could not be used, and why."""

    path: Path
    reason: str


class CheckpointStore:
    """The checkpoints of one project in one folder. One writer at a time, and any number of readers beside it."""

    def __init__(self, folder: Path, manifest_hash: bytes, parameter_count: int, *, writer: bool = True) -> None:
        """A writer makes the folder if needed, and takes away what a crash left half written; a reader, such as an
        export beside a running engine, changes nothing.

        Raises:
            CheckpointError: the folder cannot be made or read.
        """
        self._writer = writer
        self._folder = folder
        self._manifest_hash = manifest_hash
        self._parameter_count = parameter_count
        self.skipped: tuple[Skipped, ...] = ()
        """Filled by `load_newest`."""
        if not writer:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for leftover in folder.glob(".step-*.tmp"):
                leftover.unlink(missing_ok=True)
        except OSError as error:
            raise _unusable(folder, error) from error

    def save(self, state: SharedState) -> Path:
        """Write a checkpoint, then drop those that are older than the last KEPT.

        Those of a later step go too: they belong to a branch of the run that was given up.

        Raises:
            CheckpointError: it could not be written (disk full, read-only, ...); the earlier ones are untouched.
            ValueError: the state is not of this project, or this is a reader.
        """
        if not self._writer:
            raise ValueError("this store was opened for reading")
        if state.manifest_hash != self._manifest_hash or state.parameter_count != self._parameter_count:
            raise ValueError("the state belongs to another project")
        path = self._folder / f"step-{state.global_step:012d}.safetensors"
        try:
            write_atomic(path, to_blob(state))
        except OSError as error:
            raise _unusable(path, error) from error
        older = [other for other in self._paths() if other.name < path.name]
        abandoned = [other for other in self._paths() if other.name > path.name]
        for other in older[: -(KEPT - 1)] + abandoned:
            with contextlib.suppress(OSError):  # tried again with the next checkpoint
                other.unlink()
        return path

    def load_newest(self) -> SharedState | None:
        """The newest checkpoint that is whole; None when there is none. See `skipped` for those that are not.

        Raises:
            CheckpointError: the folder cannot be read.
        """
        skipped: list[Skipped] = []
        found: SharedState | None = None
        try:
            paths = self._paths()
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not self._writer:
                return None
            raise _unusable(self._folder, error) from error
        for path in reversed(paths):
            try:
                found = self._load(path)
                break
            except (BlobError, OSError) as error:
                skipped.append(Skipped(path, _reason(error)))
                log.warning("Checkpoint %s cannot be used: %s", path, _reason(error))
                if self._writer and isinstance(error, BlobError):
                    self._set_aside(path)
        self.skipped = tuple(skipped)
        return found

    def _load(self, path: Path) -> SharedState:
        size_bytes = path.stat().st_size
        if size_bytes > max_blob_bytes(self._parameter_count):
            raise BlobError(f"{size_bytes} bytes cannot be a state of {self._parameter_count} parameters")
        return from_blob(path.read_bytes(), self._manifest_hash, self._parameter_count)

    def _set_aside(self, path: Path) -> None:
        """So that it is not tried again; the last such file is kept for whoever wants to know."""
        with contextlib.suppress(OSError):
            for earlier in self._folder.glob("step-*.damaged"):
                earlier.unlink()
            path.replace(path.with_suffix(".damaged"))

    def _paths(self) -> list[Path]:
        """Oldest first."""
        return sorted(path for path in self._folder.iterdir() if _NAME.match(path.name))


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error)


def _unusable(path: Path, error: OSError) -> CheckpointError:
    if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
        return CheckpointError(path, "the disk is full", "Free some space; training goes on meanwhile.")
    return CheckpointError(path, _reason(error), "Check that the folder exists and can be written.")
