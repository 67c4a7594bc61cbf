"""PURE. The lock file that travels with the application: every file of every kit, with its size and hash.

A kit is whatever the lock says, from wherever it comes: sources are trusted with nothing. Spec: docs/specs/kit.md.
"""

import re
from typing import Annotated, Final

import msgspec

from engine.kit.errors import KitFault

FORMAT: Final = 1
MAX_LOCK_BYTES: Final = 1024 * 1024
MAX_FILES: Final = 200
MAX_FILE_BYTES: Final = 8 * 1024**3
UNPACKED_FACTOR: Final = 4
"""A wheel unpacks to at most about so many times its size: torch's is the largest, and takes 3.2 times."""

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9.-]{0,39}\Z")]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_WHEEL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+]*(-[A-Za-z0-9_.+]+){4,5}\.whl")


class KitFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One wheel (PEP 427)."""

    filename: Annotated[str, msgspec.Meta(max_length=200)]
    sha256: Sha256
    size_bytes: Annotated[int, msgspec.Meta(ge=1, le=MAX_FILE_BYTES)]


class Kit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is installed together."""

    system: Annotated[str, msgspec.Meta(pattern=r"^(linux|windows|macos)\Z")]
    machine: Annotated[str, msgspec.Meta(pattern=r"^(x86_64|arm64)\Z")]
    python: Annotated[str, msgspec.Meta(pattern=r"^3\.[0-9]{1,2}\Z")]
    computes_on: Annotated[str, msgspec.Meta(pattern=r"^(cpu|cuda|rocm|mps)\Z")]
    version: Annotated[str, msgspec.Meta(max_length=60)]  # of torch
    files: Annotated[tuple[KitFile, ...], msgspec.Meta(min_length=1, max_length=MAX_FILES)]
    minimum_driver: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{0,4}(\.[0-9]{1,4}){0,2}\Z")] = (
        ""  # of the graphics card
    )

    @property
    def download_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def space_bytes(self) -> int:
        """Of the files and what they unpack to, while both are there."""
        return self.download_bytes * (1 + UNPACKED_FACTOR)


class KitLock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All kits, by name."""

    format: int
    kits: dict[Name, Kit]


def parse_lock(data: bytes) -> KitLock:
    """From the JSON text of a lock file.

    Raises:
        KitFault: too long, not of this format, or not sound.
    """
    if len(data) > MAX_LOCK_BYTES:
        raise KitFault("lock_unusable", {"detail": f"{len(data)} bytes are more than {MAX_LOCK_BYTES}"})
    try:
        lock = msgspec.json.decode(data, type=KitLock)
    except msgspec.DecodeError as error:
        raise KitFault("lock_unusable", {"detail": str(error)}) from error
    if lock.format != FORMAT:
        raise KitFault("lock_unusable", {"detail": f"format {lock.format} is not {FORMAT}"})
    for name, kit in lock.kits.items():
        seen = set()
        for file in kit.files:
            if not _WHEEL.fullmatch(file.filename) or file.filename in seen:
                raise KitFault("lock_unusable", {"detail": f"kit {name}: {file.filename!r} is no file name, or twice"})
            seen.add(file.filename)
    return lock
