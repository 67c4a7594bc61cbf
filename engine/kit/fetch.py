"""Brings the files of a kit into a folder: resumable, checked, with several sources."""

import asyncio
import contextlib
import errno
import functools
import hashlib
import logging
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import aiohttp

from engine.kit.errors import KitFault
from engine.kit.lock import Kit, KitFile

log = logging.getLogger(__name__)

SILENCE_SECONDS: Final = 20.0
TRIES: Final = 4
"""Of each source, without progress between them."""
RESERVE_BYTES: Final = 512 * 1024**2
"""Left free on the disk."""
PART_SUFFIX: Final = ".part"

OnProgress = Callable[[int], None]
"""Told the bytes of the kit that are here now."""


def bytes_here(kit: Kit, folder: Path) -> int:
    """What an earlier try left, whole files and parts."""
    return sum(_size(folder / file.filename) or _size(_part(folder, file)) for file in kit.files)


def check_space(kit: Kit, folder: Path) -> None:
    """Before anything is fetched.

    Raises:
        KitFault: the disk has too little room, or the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise KitFault("unwritable", {"path": str(folder), "detail": error.strerror or str(error)}) from error
    needed = kit.space_bytes - bytes_here(kit, folder) + RESERVE_BYTES
    if free < needed:
        raise _full(folder, needed, free)


async def fetch_kit(
    kit: Kit, folder: Path, sources: Sequence[str], http: aiohttp.ClientSession, on_progress: OnProgress
) -> None:
    """All files into `folder`, each whole and of its hash. Cancel it to pause; it goes on where it was.

    Args:
        sources: addresses of folders, without the slash at the end, the best first.

    Raises:
        KitFault: no source has a file, the disk is full, a file is not what it should be.
    """
    if not sources:
        raise KitFault("no_source")
    check_space(kit, folder)
    done = 0
    for file in kit.files:
        before = done
        await _fetch_file(file, folder, sources, http, functools.partial(_add, on_progress, before))
        done += file.size_bytes
        on_progress(done)


def _add(on_progress: OnProgress, before: int, here: int) -> None:
    on_progress(before + here)


async def _fetch_file(
    file: KitFile, folder: Path, sources: Sequence[str], http: aiohttp.ClientSession, on_progress: OnProgress
) -> None:
    target, part = folder / file.filename, _part(folder, file)
    if await asyncio.to_thread(_is_whole, target, file):
        return
    fault = KitFault("no_source")
    for source in sources:
        tries = TRIES
        while tries > 0:
            before = _size(part)
            try:
                await _fetch_part(f"{source}/{file.filename}", file, part, http, on_progress)
                await asyncio.to_thread(_finish, part, target, file)
                return
            except KitFault as error:
                fault = error
                if error.code in ("disk_full", "unwritable"):
                    raise
                log.info("%s from %s: %s", file.filename, source, error.sentence)
                # A line that is cut again and again, but brings something each time, is worth going on with.
                tries = TRIES if _size(part) > before else tries - 1
                if error.code == "wrong_hash" or error.params.get("status"):
                    break
    raise fault


async def _fetch_part(
    url: str, file: KitFile, part: Path, http: aiohttp.ClientSession, on_progress: OnProgress
) -> None:
    here = _size(part)
    if here > file.size_bytes:
        await asyncio.to_thread(part.unlink)
        here = 0
    if here == file.size_bytes:
        return
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={here}-"} if here else {})
    limits = aiohttp.ClientTimeout(total=None, sock_connect=SILENCE_SECONDS, sock_read=SILENCE_SECONDS)
    try:
        async with http.get(url, headers=headers, timeout=limits, allow_redirects=True, max_redirects=5) as answer:
            if answer.status not in (200, 206):
                raise KitFault(
                    "unreachable", {"detail": f"the source answered {answer.status}", "status": answer.status}
                )
            if answer.status == 200:  # it does not know ranges: from the beginning
                here = 0
            elif not (answer.headers.get("Content-Range") or "").startswith(f"bytes {here}-"):
                raise KitFault("unreachable", {"detail": "the source sent another range", "status": 206})
            with await asyncio.to_thread(_open, part, here) as out:
                async for piece in answer.content.iter_any():
                    here += len(piece)
                    if here > file.size_bytes:
                        raise KitFault("wrong_hash", {"filename": file.filename})
                    await asyncio.to_thread(_write, out, piece, part)
                    on_progress(here)
    except (aiohttp.ClientError, TimeoutError, ConnectionError, ValueError) as error:
        detail = "the source fell silent" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        raise KitFault("unreachable", {"detail": detail}) from error
    if here < file.size_bytes:
        raise KitFault("unreachable", {"detail": "the connection ended too soon"})


def _open(part: Path, here: int) -> BinaryIO:
    try:
        out = part.open("r+b" if part.exists() else "w+b")
        out.truncate(here)
        out.seek(here)
    except OSError as error:
        raise disk_fault(part, error) from error
    return out


def _write(out: BinaryIO, piece: bytes, part: Path) -> None:
    try:
        out.write(piece)
        out.flush()  # what is counted is there, also when the process is killed
    except OSError as error:
        with contextlib.suppress(OSError):
            out.close()
        raise disk_fault(part, error) from error


def _finish(part: Path, target: Path, file: KitFile) -> None:
    if not _is_whole(part, file):
        part.unlink(missing_ok=True)
        raise KitFault("wrong_hash", {"filename": file.filename})
    part.replace(target)


def _is_whole(path: Path, file: KitFile) -> bool:
    if _size(path) != file.size_bytes:
        return False
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest() == file.sha256


def disk_fault(path: Path, error: OSError) -> KitFault:
    """A failed use of `path`, in words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(path.parent, 0, 0)
    return KitFault("unwritable", {"path": str(path), "detail": error.strerror or str(error)})


def _full(folder: Path, needed: int, free: int) -> KitFault:
    if not needed:
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(folder).free
        needed = free + RESERVE_BYTES
    return KitFault(
        "disk_full", {"path": str(folder), "needed_gb": f"{needed / 1e9:.1f}", "free_gb": f"{free / 1e9:.1f}"}
    )


def _part(folder: Path, file: KitFile) -> Path:
    return folder / (file.filename + PART_SUFFIX)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
