"""Room on the disk that holds the data folder."""

import shutil
from pathlib import Path


def read_free_bytes(data_dir: Path) -> int | None:
    """What this user may still write where `data_dir` is or will be; None if that place cannot be looked at."""
    for folder in (data_dir, *data_dir.parents):
        try:
            return shutil.disk_usage(folder).free
        except FileNotFoundError:
            continue
        except OSError:
            return None
    return None
