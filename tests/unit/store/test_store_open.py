import logging
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.core.errors import UserError
from engine.store import database
from engine.store.database import APPLICATION_ID, Upgrade, known_upgrades, open_database, transact
from engine.store.service import open_store

SAVED = Path(__file__).parent / "saved"
NOW = 1_700_000_000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "potluck.db"


def make(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(sql)


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as db:
        return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def test_upgrades_are_numbered_without_gaps():
    assert [upgrade.version for upgrade in known_upgrades()] == list(range(1, len(known_upgrades()) + 1))


def test_every_version_has_a_saved_database():
    assert {file.name for file in SAVED.iterdir()} == {f"version_{u.version}.sql" for u in known_upgrades()}


async def test_a_new_store(path):
    opened = await open_store(path, NOW)
    async with opened.store:
        assert opened.replaced is None
    assert version_of(path) == known_upgrades()[-1].version
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 or os.name != "posix"
    assert [file.name for file in path.parent.iterdir()] == ["potluck.db"]


async def test_opening_again_changes_nothing(path):
    for _ in range(2):
        opened = await open_store(path, NOW)
        await opened.store.close()
        assert opened.replaced is None
    assert [file.name for file in path.parent.iterdir()] == ["potluck.db"]


@pytest.mark.parametrize("saved", sorted(SAVED.iterdir()), ids=lambda file: file.stem)
async def test_saved_databases_open_with_all_they_hold(path, saved):
    make(path, saved.read_text("utf-8"))
    opened = await open_store(path, NOW)
    async with opened.store as store:
        assert opened.replaced is None
        assert (await store.load_settings()).cpu_share_percent == 35
        project = await store.active_project()
        assert project is not None
        assert project.signed.payload == b'{"name":"pocket-python"}'
        assert len(await store.project_history()) == 2
        newest, oldest = await store.recent_rounds(project.project_id)
        assert (newest.committed, newest.detail) == (False, "a member voted against it")
        assert (oldest.train_loss, oldest.held_out_loss) == (2.25, 2.5)
        assert [point.global_step for point in await store.load_curve(project.project_id)] == [7]
        assert (await store.load_day("2023-11-14")).bytes_received == 20_000
        (waiting,) = await store.take_receipts(project.hub_url)
        assert waiting.attempts == 2
        assert (await store.rejected_receipts())[0][1] == "unknown round"
        periods = await store.periods_between(0, 2e9)
        assert [(period.level, period.open) for period in periods] == [("full", False), ("stopped", False)]
        assert periods[1].reasons[0].params == {"percent": 40}
        assert await store.dismissed_problems() == {"no_keyring"}
        assert await store.name_sent(project.hub_url) == "Ada"
    assert version_of(path) == known_upgrades()[-1].version


def test_an_upgrade_is_applied_after_a_backup(path):
    make(path, (SAVED / "version_1.sql").read_text("utf-8"))
    newer = (*known_upgrades()[:1], Upgrade(2, "CREATE TABLE added (x);\nINSERT INTO added VALUES (';');"))
    db, replaced = open_database(path, NOW, newer)
    with closing(db):
        assert replaced is None
        assert db.execute("SELECT x FROM added").fetchone() == (";",)
        assert db.execute("SELECT count(*) FROM rounds").fetchone() == (2,)
    assert version_of(path) == 2
    backup = path.with_name("potluck.db.backup-v1")
    assert version_of(backup) == 1
    assert "added" not in tables(backup)
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600 or os.name != "posix"
    with closing(sqlite3.connect(backup)) as db:
        assert db.execute("SELECT count(*) FROM rounds").fetchone() == (2,)


def test_an_upgrade_that_fails_changes_nothing(path):
    make(path, (SAVED / "version_1.sql").read_text("utf-8"))
    broken = (*known_upgrades()[:1], Upgrade(2, "CREATE TABLE added (x);\nINSERT INTO nowhere VALUES (1);"))
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        open_database(path, NOW, broken)
    assert version_of(path) == 1
    assert "added" not in tables(path)


def test_a_script_that_ends_in_the_middle_is_a_fault(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as db, pytest.raises(ValueError, match="unfinished"):
        transact(db, "CREATE TABLE a (x);\nINSERT INTO a")
    assert tables(path) == set()


async def test_a_newer_database_is_left_as_it_is(path):
    make(path, f"CREATE TABLE later (x); PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 999;")
    before = path.read_bytes()
    with pytest.raises(UserError, match="newer Potluck") as refused:
        await open_store(path, NOW)
    assert str(path) in refused.value.sentence
    assert refused.value.action == "Update Potluck."
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["potluck.db"]


def another_programs(path: Path) -> None:
    make(path, "CREATE TABLE bookmarks (x); PRAGMA user_version = 1;")


def unversioned(path: Path) -> None:
    make(path, "CREATE TABLE bookmarks (x);")


def cut_short(path: Path) -> None:
    make(path, (SAVED / "version_1.sql").read_text("utf-8"))
    path.write_bytes(path.read_bytes()[:5000])


def scribbled_over(path: Path) -> None:
    make(path, (SAVED / "version_1.sql").read_text("utf-8"))
    data = bytearray(path.read_bytes())
    for start in range(4096, len(data), 4096):
        data[start : start + 600] = b"\xa5" * 600
    path.write_bytes(data)


def text(path: Path) -> None:
    path.write_text("not a database\n" * 400)


@pytest.mark.parametrize("damage", [another_programs, unversioned, cut_short, scribbled_over, text])
async def test_a_damaged_database_is_moved_aside(path, damage):
    damage(path)
    data = path.read_bytes()
    path.with_name("potluck.db-wal").write_bytes(b"old journal")
    opened = await open_store(path, NOW)
    async with opened.store as store:
        assert opened.replaced is not None
        assert opened.replaced.path == path
        backup = opened.replaced.backup_path
        assert backup.name == "potluck.db.damaged-20231114T221320Z"
        assert await store.active_project() is None
        await store.mark_name_sent("http://h", "Ada", NOW)
    assert backup.read_bytes() == data
    again = await open_store(path, NOW)
    async with again.store as store:
        assert again.replaced is None
        assert await store.name_sent("http://h") == "Ada"


async def test_the_journal_goes_with_the_damaged_file(path):
    text(path)
    wal = path.with_name("potluck.db-wal")
    wal.write_bytes(b"old journal")
    opened = await open_store(path, NOW)
    await opened.store.close()
    assert opened.replaced is not None
    kept = {file.name for file in path.parent.iterdir()}
    assert opened.replaced.backup_path.name in kept
    assert not wal.exists()


async def test_a_second_damage_in_one_second_keeps_both(path):
    for _ in range(2):
        text(path)
        opened = await open_store(path, NOW)
        await opened.store.close()
    assert opened.replaced is not None
    assert opened.replaced.backup_path.name == "potluck.db.damaged-20231114T221320Z-2"
    assert len([file for file in path.parent.iterdir() if "damaged" in file.name]) == 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(data=st.binary(min_size=1, max_size=6000), header=st.booleans())
def test_any_bytes_open_or_are_moved_aside(tmp_path, data, header):
    path = tmp_path / "any.db"
    for file in tmp_path.iterdir():
        file.unlink()
    path.write_bytes(b"SQLite format 3\x00" * header + data)
    db, replaced = open_database(path, NOW)
    db.close()
    assert replaced is not None
    assert replaced.backup_path.read_bytes() == b"SQLite format 3\x00" * header + data


async def test_a_folder_in_its_place(path):
    path.mkdir()
    with pytest.raises(UserError) as refused:
        await open_store(path, NOW)
    assert str(path) in refused.value.sentence
    assert "a folder is in its place" in refused.value.sentence
    assert refused.value.action
    assert path.is_dir()


async def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "profile").write_text("x")
    with pytest.raises(UserError, match="cannot use its records") as refused:
        await open_store(tmp_path / "profile" / "potluck.db", NOW)
    assert refused.value.action


async def test_a_read_only_disk(path, monkeypatch):
    opened = await open_store(path, NOW)
    await opened.store.close()
    connect = sqlite3.connect

    def read_only(target: Path, **options: object) -> sqlite3.Connection:
        return connect(f"file:{target}?mode=ro", uri=True, isolation_level=None)

    monkeypatch.setattr(database.sqlite3, "connect", read_only)
    with pytest.raises(UserError, match="readonly database") as refused:
        await open_store(path, NOW)
    assert str(path) in refused.value.sentence


async def test_a_damaged_file_that_cannot_be_moved(path, monkeypatch):
    text(path)

    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(UserError, match="Permission denied"):
        await open_store(path, NOW)
    assert path.read_text().startswith("not a database")


async def test_another_program_that_locks_it(path, monkeypatch):
    opened = await open_store(path, NOW)
    await opened.store.close()
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UserError, match="locked"):
            await open_store(path, NOW)
        other.execute("ROLLBACK")


def test_a_failed_backup_stops_the_upgrade(path, monkeypatch):
    make(path, (SAVED / "version_1.sql").read_text("utf-8"))
    (path.parent / "potluck.db.backup-v1").mkdir()
    newer = (*known_upgrades()[:1], Upgrade(2, "CREATE TABLE added (x);"))
    with pytest.raises(UserError, match="cannot use its records"):
        open_database(path, NOW, newer)
    assert version_of(path) == 1
    assert not (path.parent / "potluck.db.backup-v1.tmp").exists()


def test_logging_says_what_was_moved(path, caplog):
    text(path)
    with caplog.at_level(logging.INFO, logger="engine.store"):
        db, _ = open_database(path, NOW)
    db.close()
    assert "was damaged" in caplog.text
