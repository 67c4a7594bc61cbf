"""The hub's database: opened, upgraded and used from one thread of its own, so that the event loop never waits."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError
from sqlalchemy.orm import Session

from engine.core.errors import UserError
from engine.hub.upgrade import MIGRATIONS_DIR, UnknownRevision, backup_path, pending_upgrade, upgrade

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_WAITING_JOBS: Final = 512
BUSY_TIMEOUT_MILLISECONDS: Final = 5000


class Overloaded(Exception):
    """More work waits for the database than it could do in good time."""


class Database:
    """One engine and one thread. `open` it, `run` functions of a session in it, `close` it."""

    def __init__(self, engine: sa.Engine, executor: ThreadPoolExecutor) -> None:
        self._engine = engine
        self._executor = executor
        self._waiting = 0

    @classmethod
    async def open(cls, url: str, migrations_dir: Path = MIGRATIONS_DIR) -> "Database":
        """Connect, check, copy an existing SQLite file aside where an upgrade is due, upgrade.

        Raises:
            UserError: the database cannot be used; says which, why, and what to do.
        """
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hub-database")
        try:
            engine = await asyncio.get_running_loop().run_in_executor(executor, _prepare, url, migrations_dir)
        except BaseException:
            executor.shutdown(wait=False)
            raise
        return cls(engine, executor)

    async def run(self, work: Callable[[Session], T]) -> T:
        """Do `work` in one transaction: committed when it returns, rolled back when it raises.

        Raises:
            Overloaded: MAX_WAITING_JOBS are waiting already.
            sqlalchemy.exc.SQLAlchemyError: the database failed.
        """
        if self._waiting >= MAX_WAITING_JOBS:
            raise Overloaded
        self._waiting += 1
        future = asyncio.get_running_loop().run_in_executor(self._executor, self._transact, work)
        try:
            return await future
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """Let the work in hand end, then close everything. Safe to repeat."""
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _transact(self, work: Callable[[Session], T]) -> T:
        with Session(self._engine, expire_on_commit=False) as session, session.begin():
            return work(session)

    def _close(self) -> None:
        self._executor.shutdown(wait=True)
        self._engine.dispose()


def _prepare(url: str, migrations_dir: Path) -> sa.Engine:
    try:
        parsed = sa.make_url(url)
    except ArgumentError as error:
        raise UserError(
            "The hub's database address cannot be read.", "Use one like sqlite:////folder/hub.db."
        ) from error
    place = _place_of(parsed)
    try:
        engine = _connect(parsed)
    except ImportError as error:
        raise UserError(
            f"The hub's database {place} needs {error.name or parsed.drivername}, which is not installed.",
            "Install it, or use an address like sqlite:////folder/hub.db.",
        ) from error
    except (OSError, ArgumentError) as error:
        raise UserError(f"The hub's database {place} cannot be opened: {error}.", "Check its address.") from error
    try:
        _check_and_upgrade(engine, parsed, migrations_dir)
    except UnknownRevision as error:
        engine.dispose()
        raise UserError(
            f"The hub's database {place} was made by a newer version of Potluck.",
            "Update Potluck, or use another database.",
        ) from error
    except (DBAPIError, OSError) as error:
        engine.dispose()
        detail = error.orig if isinstance(error, DBAPIError) else error
        raise UserError(f"The hub's database {place} cannot be used: {detail}.", _action(error, parsed)) from error
    return engine


def _action(error: Exception, url: sa.URL) -> str:
    unreadable = isinstance(error, DatabaseError) and not isinstance(error, sa.exc.OperationalError)
    if unreadable and _file_of(url) is not None:
        return "Put back a backup of the file, or move it away to begin with an empty one."
    return "Check that the place exists, has space, and may be written by this user."


def _check_and_upgrade(engine: sa.Engine, url: sa.URL, migrations_dir: Path) -> None:
    file = _file_of(url)
    if file is not None:
        _check_file(engine)
    with engine.connect() as connection:
        pending = pending_upgrade(connection, migrations_dir)
        empty = not sa.inspect(connection).get_table_names()
    if pending is None:
        return
    if file is not None and not empty:
        copy = backup_path(file, pending)
        _copy_aside(engine, copy)
        log.info("copied the database to %s before its upgrade", copy)
    with engine.begin() as connection:
        upgrade(connection, migrations_dir)


def _connect(url: sa.URL) -> sa.Engine:
    file = _file_of(url)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(url)
    if url.get_backend_name() == "sqlite":
        sa.event.listen(engine, "connect", _set_up_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _record: object) -> None:
    # The driver would begin transactions late and commit before DDL; see SQLAlchemy's notes on pysqlite.
    connection.isolation_level = None
    cursor = connection.cursor()
    try:
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MILLISECONDS}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.execute("PRAGMA foreign_keys = ON")
    finally:
        cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    # IMMEDIATE: a transaction that reads and then writes must not find that another has written in between.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _check_file(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        verdict = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
    if verdict != "ok":
        raise sa.exc.DatabaseError("PRAGMA quick_check", None, ValueError(str(verdict)[:200]))


def _copy_aside(engine: sa.Engine, copy: Path) -> None:
    """A consistent copy, with what still lies in the write-ahead log."""
    unfinished = copy.with_name(copy.name + ".tmp")
    with contextlib.suppress(FileNotFoundError):
        unfinished.unlink()
    connection = engine.raw_connection()
    try:
        cursor = connection.cursor()
        cursor.execute("VACUUM INTO ?", (str(unfinished),))
        cursor.close()
    finally:
        connection.close()
    unfinished.replace(copy)


def _file_of(url: sa.URL) -> Path | None:
    """The file of a SQLite database; None for others and for those in memory."""
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return None
    return Path(url.database).absolute()


def _place_of(url: sa.URL) -> str:
    file = _file_of(url)
    return str(file) if file is not None else url.render_as_string(hide_password=True)
