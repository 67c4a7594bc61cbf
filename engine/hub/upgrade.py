"""Bringing a database to the newest revision, by alembic without its command line."""

from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError

MIGRATIONS_DIR: Final = Path(__file__).parent / "migrations"


class UnknownRevision(Exception):
    """The database names a revision that this version does not have."""


def pending_upgrade(connection: sa.Connection, migrations_dir: Path = MIGRATIONS_DIR) -> str | None:
    """The revision that an upgrade would bring the database to; None when it is there.

    Raises:
        UnknownRevision: the database is newer than this program.
    """
    scripts = ScriptDirectory(str(migrations_dir))
    head = scripts.get_current_head()
    current = MigrationContext.configure(connection).get_current_revision()
    if current == head:
        return None
    if current is not None:
        try:
            scripts.get_revision(current)
        except CommandError as error:
            raise UnknownRevision(current) from error
    return head


def upgrade(connection: sa.Connection, migrations_dir: Path = MIGRATIONS_DIR) -> None:
    """Run what is pending, inside the connection's transaction."""
    config = Config()
    # ConfigParser reads % as the start of a substitution.
    config.set_main_option("script_location", str(migrations_dir).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def backup_path(file: Path, revision: str) -> Path:
    """Where the file is copied before it is brought to `revision`."""
    return file.with_name(f"{file.name}.before-{revision}")
