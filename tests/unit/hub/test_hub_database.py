"""Opening, upgrading and backing up the hub's database."""

import shutil
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from engine.core.errors import UserError
from engine.hub import database as database_module
from engine.hub.config import sqlite_url
from engine.hub.database import Database, Overloaded
from engine.hub.models import Base, PeerName
from engine.hub.upgrade import MIGRATIONS_DIR, pending_upgrade, upgrade

SECOND_REVISION = '''
"""Another table."""
import sqlalchemy as sa
from alembic import op
revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

def upgrade():
    op.create_table("later", sa.Column("id", sa.Integer(), primary_key=True))
'''
FAILING_REVISION = SECOND_REVISION + '    raise OSError("the migration broke")\n'


def migrations_with(tmp_path: Path, text: str) -> Path:
    copy = tmp_path / "migrations 100%"
    shutil.copytree(MIGRATIONS_DIR, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "versions" / "0002_later.py").write_text(text)
    return copy


def tables(file: Path) -> set[str]:
    engine = sa.create_engine(sqlite_url(file))
    try:
        with engine.connect() as connection:
            return set(sa.inspect(connection).get_table_names())
    finally:
        engine.dispose()


def test_the_migrations_make_what_the_models_say(tmp_path: Path) -> None:
    engine = sa.create_engine(sqlite_url(tmp_path / "hub.db"))
    with engine.begin() as connection:
        assert pending_upgrade(connection) == "0001"
        upgrade(connection)
    with engine.connect() as connection:
        assert pending_upgrade(connection) is None
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
        made = sa.inspect(connection)
        for table in Base.metadata.tables.values():
            constraints = {c["name"] for c in made.get_unique_constraints(table.name)}
            assert constraints == {c.name for c in table.constraints if isinstance(c, sa.UniqueConstraint)}
    engine.dispose()


async def test_what_is_written_is_there_after_a_restart(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "new folder" / "hub.db")
    first = await Database.open(url)
    await first.run(lambda s: s.add(PeerName(peer_id="a" * 52, name="Ann", at=1.0, signature=bytes(64))))
    await first.close()
    await first.close()
    second = await Database.open(url)
    assert await second.run(lambda s: s.scalar(sa.select(PeerName.name))) == "Ann"
    assert await second.run(lambda s: s.execute(sa.text("PRAGMA journal_mode")).scalar()) == "wal"
    assert await second.run(lambda s: s.execute(sa.text("PRAGMA foreign_keys")).scalar()) == 1
    await second.close()
    assert [path.name for path in (tmp_path / "new folder").glob("*before*")] == []


async def test_work_that_raises_leaves_nothing(tmp_path: Path) -> None:
    database = await Database.open(sqlite_url(tmp_path / "hub.db"))

    def work(session: sa.orm.Session) -> None:
        session.add(PeerName(peer_id="a" * 52, name="Ann", at=1.0, signature=bytes(64)))
        session.flush()
        raise KeyError("halfway")

    with pytest.raises(KeyError):
        await database.run(work)
    assert await database.run(lambda s: s.scalar(sa.select(sa.func.count()).select_from(PeerName))) == 0
    await database.close()


async def test_too_much_waiting_work_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = await Database.open(sqlite_url(tmp_path / "hub.db"))
    monkeypatch.setattr(database_module, "MAX_WAITING_JOBS", 0)
    with pytest.raises(Overloaded):
        await database.run(lambda s: None)
    monkeypatch.undo()
    assert await database.run(lambda s: 1) == 1
    await database.close()


async def test_an_upgrade_copies_the_file_aside_first(tmp_path: Path) -> None:
    file = tmp_path / "hub.db"
    old = await Database.open(sqlite_url(file))
    await old.run(lambda s: s.add(PeerName(peer_id="a" * 52, name="Ann", at=1.0, signature=bytes(64))))
    await old.close()
    new = await Database.open(sqlite_url(file), migrations_with(tmp_path, SECOND_REVISION))
    await new.close()
    backup = tmp_path / "hub.db.before-0002"
    assert "later" in tables(file)
    assert "later" not in tables(backup)
    kept = await Database.open(sqlite_url(backup))
    assert await kept.run(lambda s: s.scalar(sa.select(PeerName.name))) == "Ann"
    await kept.close()


async def test_an_upgrade_that_breaks_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "hub.db"
    await (await Database.open(sqlite_url(file))).close()
    before = tables(file)
    with pytest.raises(UserError, match="the migration broke"):
        await Database.open(sqlite_url(file), migrations_with(tmp_path, FAILING_REVISION))
    assert tables(file) == before
    await (await Database.open(sqlite_url(file))).close()


async def test_a_newer_database_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "hub.db"
    await (await Database.open(sqlite_url(file), migrations_with(tmp_path, SECOND_REVISION))).close()
    with pytest.raises(UserError, match="newer version") as caught:
        await Database.open(sqlite_url(file))
    assert str(file) in caught.value.sentence


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    file = tmp_path / "hub.db"
    file.write_bytes(b"this is not a database, it is a letter to my aunt" * 100)
    with pytest.raises(UserError, match="not a database") as caught:
        await Database.open(sqlite_url(file))
    assert str(file) in caught.value.sentence
    assert "backup" in caught.value.action
    assert file.read_bytes().startswith(b"this is not a database")


async def test_a_damaged_database_is_named(tmp_path: Path) -> None:
    file = tmp_path / "hub.db"
    await (await Database.open(sqlite_url(file))).close()
    data = bytearray(file.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    file.write_bytes(data)
    with pytest.raises(UserError) as caught:
        await Database.open(sqlite_url(file))
    assert str(file) in caught.value.sentence
    assert "backup" in caught.value.action


async def test_a_place_that_cannot_hold_a_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for place in (tmp_path / "file" / "hub.db", tmp_path):
        with pytest.raises(UserError) as caught:
            await Database.open(sqlite_url(place))
        assert str(place) in caught.value.sentence
        assert caught.value.action


async def test_an_address_that_is_none_is_refused_without_showing_its_password(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        await Database.open("not an address")
    with pytest.raises(UserError) as caught:
        await Database.open("nosuchdatabase://user:hunter2@localhost/hub")
    assert "hunter2" not in str(caught.value)


async def test_a_database_driver_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UserError) as caught:
        await Database.open("postgresql+psycopg://127.0.0.1/hub")
    assert "needs psycopg, which is not installed" in caught.value.sentence
    assert "No module" not in str(caught.value)
    assert "sqlite" in caught.value.action
