"""Unpacks a kit beside the one in use, tries it, and only then takes it into use."""

import contextlib
import logging
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from engine.core.files import write_atomic
from engine.kit.errors import KitFault
from engine.kit.fetch import disk_fault
from engine.kit.lock import UNPACKED_FACTOR, Kit

log = logging.getLogger(__name__)

POINTER_NAME: Final = "kit.json"
MAX_POINTER_BYTES: Final = 4096
TEST_SECONDS: Final = 240.0
MAX_MEMBERS: Final = 100_000
FREE_BYTES: Final = 256 * 1024**2
"""Small wheels may unpack to many times their size."""

TEST_PROGRAM: Final = """\
import sys
import torch, transformers
device = sys.argv[1]
a = torch.ones(64, 64, device=device)
assert float((a @ a).sum()) == 64.0 ** 3
print("works", torch.__version__)
"""


class InUse(msgspec.Struct, frozen=True):
    """Which kit is in use: its name, torch's version and its folder's name."""

    name: str
    version: str
    folder: str
    computes_on: str = "cpu"


def in_use(home: Path) -> InUse | None:
    """The kit that workers are started with; None when there is none, or its folder is gone."""
    try:
        data = (home / POINTER_NAME).read_bytes()[: MAX_POINTER_BYTES + 1]
        found = msgspec.json.decode(data, type=InUse)
    except (OSError, msgspec.DecodeError):
        return None
    named = PurePosixPath(found.folder)
    if len(named.parts) != 1 or found.folder in (".", "..") or "\\" in found.folder:
        return None
    return found if (home / found.folder).is_dir() else None


def unpack(kit: Kit, files: Path, target: Path, on_progress: Callable[[float], None]) -> None:
    """Every wheel of `kit` into the new folder `target`.

    Raises:
        KitFault: a wheel is not sound, or the disk is full.
    """
    remove(target)
    done = 0
    for file in kit.files:
        try:
            with zipfile.ZipFile(files / file.filename) as wheel:
                _unpack_wheel(wheel, target, file.size_bytes * UNPACKED_FACTOR * 2 + FREE_BYTES)
        except OSError as error:
            raise disk_fault(target, error) from error
        except (zipfile.BadZipFile, ValueError, RuntimeError, EOFError) as error:
            raise KitFault("unpack_failed", {"filename": file.filename, "detail": str(error)}) from error
        done += file.size_bytes
        on_progress(done / kit.download_bytes)


def _unpack_wheel(wheel: zipfile.ZipFile, target: Path, limit_bytes: int) -> None:
    members = wheel.infolist()
    if len(members) > MAX_MEMBERS or sum(member.file_size for member in members) > limit_bytes:
        raise ValueError("it would unpack to far more than a wheel should")
    for member in members:
        path = _place(member.filename)
        if path is None or member.is_dir():
            continue
        out = target.joinpath(*path)
        out.parent.mkdir(parents=True, exist_ok=True)
        with wheel.open(member) as data, out.open("xb") as written:
            shutil.copyfileobj(data, written, 1024 * 1024)
        if os.name == "posix" and (member.external_attr >> 16) & 0o111:
            out.chmod(0o755)


def _place(name: str) -> tuple[str, ...] | None:
    """Where a wheel's member goes below the kit's folder (PEP 427); None for what a kit needs none of.

    Raises:
        ValueError: it would leave the folder.
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or "\\" in name or ":" in name or any(part in ("..", ".") for part in parts):
        raise ValueError(f"the member {name[:80]!r} has no place")
    if parts[0].endswith(".data"):
        return parts[2:] if len(parts) > 2 and parts[1] in ("purelib", "platlib") else None
    return parts


def try_out(folder: Path, computes_on: str, command: Sequence[str] = ()) -> str:
    """Start a process with the kit and let it compute; what it says of itself.

    Raises:
        KitFault: it does not work here.
    """
    device = {"cuda": "cuda", "rocm": "cuda", "mps": "mps"}.get(computes_on, "cpu")
    argv = [*(command or (sys.executable, "-P", "-c", TEST_PROGRAM)), device]
    try:
        ended = subprocess.run(
            argv,
            env=with_kit(os.environ, folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise KitFault("test_failed", {"detail": f"it did not answer in {TEST_SECONDS:.0f} s"}) from error
    except OSError as error:
        raise KitFault("test_failed", {"detail": error.strerror or str(error)}) from error
    said = ended.stdout.decode(errors="replace").strip()
    if ended.returncode != 0 or not said.startswith("works"):
        words = ended.stderr.decode(errors="replace").strip().splitlines()
        raise KitFault("test_failed", {"detail": (words[-1] if words else f"it ended with {ended.returncode}")[:300]})
    return said


def take_into_use(home: Path, kit: InUse) -> None:
    """From the next worker on. The folders of others are removed, as far as the system allows."""
    before = in_use(home)
    write_atomic(home / POINTER_NAME, msgspec.json.encode(kit))
    log.info("training kit %s (%s) is in use", kit.name, kit.version)
    if before is not None and before.folder != kit.folder:
        remove(home / before.folder)


def remove(folder: Path) -> None:
    """A folder and what is in it; what is in use on Windows stays until the next time."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder, onerror=lambda _, path, info: log.info("%s stays: %s", path, info[1]))


def with_kit(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """For a process that trains: the kit comes before what else there may be."""
    rest = environment.get("PYTHONPATH", "")
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, (str(folder), rest)))}
