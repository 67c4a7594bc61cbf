"""Opening the database file: upgrades, a backup before them, damaged files moved aside."""

import contextlib
import datetime
import importlib.resources
import logging
import os
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.core.errors import UserError

log = logging.getLogger(__name__)

APPLICATION_ID: Final = 0x50544C4B
BUSY_SECONDS: Final = 5.0

_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_OUR_FAULT: Final = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISUSE})
_MAGIC: Final = b"SQLite format 3\x00"
_HEADER_BYTES: Final = 100
_COMPANIONS: Final = ("-wal", "-shm", "-journal", "")  # a journal must never outlive its database
_NUMBERED: Final = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Statements that bring a database from `version` - 1 to `version`."""

    version: int
    sql: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """A damaged database was moved to `backup_path`, and `path` is new and empty."""

    path: Path
    backup_path: Path


class _Damaged(Exception):
    """The file is not a database of ours, or not whole."""


def known_upgrades() -> tuple[Upgrade, ...]:
    """The numbered files in `sql/`, in order."""
    files = importlib.resources.files("engine.store").joinpath("sql").iterdir()
    found = sorted((int(match[1]), file) for file in files if (match := _NUMBERED.fullmatch(file.name)))
    return tuple(Upgrade(version, file.read_text("utf-8")) for version, file in found)


def open_database(
    path: Path, now: float, upgrades: tuple[Upgrade, ...] | None = None
) -> tuple[sqlite3.Connection, Replaced | None]:
    """A connection to the database at `path`, made or upgraded as needed, proven writable; for this thread only.

    A damaged file is moved aside (with its journal files) and a new one made. Before an upgrade the old database is
    copied to `<name>.backup-v<version>`.

    Raises:
        UserError: it cannot be opened, made or written, or a newer Potluck wrote it; nothing was changed.
    """
    steps = known_upgrades() if upgrades is None else upgrades
    try:
        try:
            return _opened(path, steps), None
        except _Damaged as damage:
            backup_path = _move_aside(path, now)
            log.info("%s was damaged (%s) and is now %s", path, damage, backup_path)
            return _opened(path, steps), Replaced(path, backup_path)
    except (OSError, sqlite3.DatabaseError, _Damaged) as error:
        if isinstance(error, sqlite3.DatabaseError) and not is_the_files_fault(error):
            raise
        raise UserError(
            f"Potluck cannot use its records in {path}: {describe(error)}.",
            "Free some space or allow writing there, then start again.",
        ) from error


def describe(error: BaseException) -> str:
    """What happened, without the path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def is_the_files_fault(error: sqlite3.DatabaseError) -> bool:
    """Full, read-only, unreadable, damaged or locked; not a slip in our statements."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF not in _OUR_FAULT


def transact(connection: sqlite3.Connection, statements: str) -> None:
    """All statements in one transaction, or none of them."""
    with transaction(connection):
        for statement in _split(statements):
            connection.execute(statement)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit at the end, roll back on any error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


def _opened(path: Path, upgrades: tuple[Upgrade, ...]) -> sqlite3.Connection:
    _create_private(path)
    _check_beginning(path)
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)
    try:
        _prepare(connection, path, upgrades)
    except sqlite3.DatabaseError as error:
        connection.close()
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
            raise _Damaged(str(error)) from error
        raise
    except BaseException:
        connection.close()
        raise
    return connection


def _create_private(path: Path) -> None:
    """Make the file readable by the user only; SQLite gives its journal files the same mode."""
    if path.is_dir():
        raise IsADirectoryError(None, "a folder is in its place")
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _check_beginning(path: Path) -> None:
    """SQLite takes a file shorter than its header for an empty database and would write over it."""
    with path.open("rb") as file:
        beginning = file.read(_HEADER_BYTES)
    if beginning and (len(beginning) < _HEADER_BYTES or not beginning.startswith(_MAGIC)):
        raise _Damaged("it is no database")


def _prepare(connection: sqlite3.Connection, path: Path, upgrades: tuple[Upgrade, ...]) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    newest = upgrades[-1].version
    if version > newest:
        raise UserError(f"The records in {path} were written by a newer Potluck.", "Update Potluck.")
    _check_whole(connection, version)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    if 0 < version < newest:
        _back_up(connection, path.with_name(f"{path.name}.backup-v{version}"))
    # Also without upgrades this writes a page, so that a full or read-only disk shows now and not in an hour.
    pending = [upgrade for upgrade in upgrades if upgrade.version > version]
    transact(connection, "\n".join(upgrade.sql for upgrade in pending) + f"\nPRAGMA user_version = {newest};")


def _check_whole(connection: sqlite3.Connection, version: int) -> None:
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _Damaged(str(verdict)[:200])
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if version > 0 and application_id != APPLICATION_ID:
        raise _Damaged("it is another program's database")
    if version == 0 and tables:
        raise _Damaged("it has tables but no version")


def _back_up(connection: sqlite3.Connection, target: Path) -> None:
    temporary = target.with_name(target.name + ".tmp")
    temporary.unlink(missing_ok=True)
    _create_private(temporary)
    try:
        with contextlib.closing(sqlite3.connect(temporary)) as copy:
            connection.backup(copy)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    log.info("copied the records to %s before upgrading them", target)


def _move_aside(path: Path, now: float) -> Path:
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    target = path.with_name(f"{path.name}.damaged-{moment}")
    count = 1
    while target.exists():
        count += 1
        target = path.with_name(f"{path.name}.damaged-{moment}-{count}")
    for ending in _COMPANIONS:
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + ending).rename(target.with_name(target.name + ending))
    return target


def _split(script: str) -> list[str]:
    statements, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    if current.strip():
        raise ValueError(f"an unfinished statement: {current.strip()[:80]}")
    return statements
