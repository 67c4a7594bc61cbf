"""The specification names the tables and bounds that the code has."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from engine.store import database, readings, repos, service

SPEC = (Path(__file__).parents[3] / "docs" / "specs" / "store.md").read_text("utf-8")


def test_every_table_is_described():
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for upgrade in database.known_upgrades():
            database.transact(db, upgrade.sql)
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    section = SPEC.split("\n## Tables\n")[1]
    assert set(re.findall(r"^\| `([a-z_]+)` \|", section, re.MULTILINE)) == tables - {"sqlite_sequence"}


def test_the_numbers_are_those_of_the_code():
    for sentence in (
        f"0x{database.APPLICATION_ID:X}",
        f"At most {service.MAX_HELD_WRITES} writes",
        f"{repos.MAX_ROUNDS} a project",
        f"thinned to {repos.MAX_LOADED_CURVE_POINTS}",
        f"{repos.MAX_CURVE_POINTS} a project, then",
        f"{repos.MAX_WAITING_RECEIPTS} waiting, {repos.MAX_REJECTED_RECEIPTS} refused",
        f"| {repos.MAX_PERIODS} |",
        f"{readings.KEPT_SECONDS // 86_400} days, {readings.MAX_READINGS} |",
        f"away | {repos.MAX_DISMISSED} |",
    ):
        assert sentence in SPEC, sentence
