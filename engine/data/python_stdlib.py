"""The Python standard library's own source text, as found on this computer: data that needs no download."""

import logging
import os
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.data.assignment import is_held_out
from engine.data.errors import DataUnavailable

log = logging.getLogger(__name__)

Bytes: TypeAlias = npt.NDArray[np.uint8]

EXCLUDED_FOLDERS: Final = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__", "encodings", "pydoc_data"}
)
MAX_FILE_BYTES: Final = 1024 * 1024
MAX_TEXT_BYTES: Final = 64 * 1024 * 1024
MIN_SAMPLES: Final = 16
"""Fewer windows of text than this are no training set."""


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Source text as bytes, files joined in the order of their relative names; the two parts share no file."""

    training: Bytes  # uint8, shape [training bytes]
    held_out: Bytes  # uint8, shape [held-out bytes]


def load_text(sequence_length: int, held_out_percent: int, folder: Path | None = None) -> Text:
    """Read the standard library's modules (tests and installed packages left out).

    Raises:
        DataUnavailable: there is no such folder, it holds too little (a zipped or stripped library), or so little
            that one of the two parts could not fill its samples.
    """
    root = folder if folder is not None else Path(sysconfig.get_path("stdlib"))
    if not root.is_dir():
        raise DataUnavailable(
            f"The Python standard library's source text was looked for in {root}, which is not a folder.",
            "Run Potluck with a Python that keeps its library as files.",
        )
    names = _names(root)
    training = _joined(root, (name for name in names if not is_held_out(name, held_out_percent)))
    held_out = _joined(root, (name for name in names if is_held_out(name, held_out_percent)))
    smallest = min(training.size, held_out.size)
    if smallest < MIN_SAMPLES * (sequence_length + 1):
        raise DataUnavailable(
            f"Too little Python source text in {root}: {training.size} bytes to train on and {held_out.size} to test.",
            "Run Potluck with a Python that keeps its library as .py files.",
        )
    return Text(training=training, held_out=held_out)


def _names(root: Path) -> list[str]:
    """Relative names with forward slashes, sorted, so that every system has the same order."""
    found: list[str] = []
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in EXCLUDED_FOLDERS]
        here = Path(folder).relative_to(root)
        found.extend((here / name).as_posix() for name in files if name.endswith(".py"))
    return sorted(found)


def _joined(root: Path, names: Iterable[str]) -> Bytes:
    """One growing buffer, so that the text is never held twice."""
    text = bytearray()
    for name in names:
        content = _content(root / name)
        if len(text) + len(content) > MAX_TEXT_BYTES:
            break
        text += content
    return np.frombuffer(text, dtype=np.uint8)


def _content(path: Path) -> bytes:
    """A file's bytes with plain line ends; empty when it is too large or cannot be read (one file is no loss)."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
            return b""
        return path.read_bytes().replace(b"\r\n", b"\n")
    except OSError as error:
        log.debug("Left out %s: %s", path, error)
        return b""
