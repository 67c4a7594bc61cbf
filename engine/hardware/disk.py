"""Room on the disk that holds the data folder, and what that folder takes of it."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAX_ENTRIES: Final = 200_000
BLOCK_BYTES: Final = 512  # of st_blocks, whatever the disk's own blocks are


@dataclass(frozen=True, slots=True)
class Room:
    """A disk's size, and what this user may still write on it."""

    total_bytes: int | None = None
    free_bytes: int | None = None


def read_room(data_dir: Path) -> Room:
    """Where `data_dir` is or will be; of nothing known if that place cannot be looked at."""
    for folder in (data_dir, *data_dir.parents):
        try:
            usage = shutil.disk_usage(folder)
        except FileNotFoundError:
            continue
        except OSError:
            return Room()
        return Room(usage.total, usage.free)
    return Room()


def read_used_bytes(data_dir: Path) -> int | None:
    """What the files below `data_dir` take on the disk; links are not followed. None for more than MAX_ENTRIES."""
    total, seen, folders = 0, 0, [str(data_dir)]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        total += _size(entry)
        except OSError:
            continue  # gone by now, or never there
        if seen > MAX_ENTRIES:
            return None
    return total


def _size(entry: "os.DirEntry[str]") -> int:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return 0
    blocks: int | None = getattr(status, "st_blocks", None)  # Windows has none
    return status.st_size if blocks is None else blocks * BLOCK_BYTES
