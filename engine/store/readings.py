"""The statements for readings and for the sums of days; as in `repos`, each does one thing on an open connection."""

import math
import sqlite3
from typing import Any, Final

import msgspec

from engine.contract.snapshot import ReadingInfo

KEPT_SECONDS: Final = 14 * 24 * 3600
MAX_READINGS: Final = 14 * 24 * 60

_FIELDS: Final = ReadingInfo.__struct_fields__
_ADD: Final = f"INSERT OR REPLACE INTO readings ({', '.join(_FIELDS)}) VALUES ({', '.join('?' * len(_FIELDS))})"  # noqa: S608
_FLAGS: Final = frozenset({"in_use", "session_locked", "on_battery", "full_screen", "energy_saver", "metered"})


def add_reading(db: sqlite3.Connection, reading: ReadingInfo) -> None:
    """Keep it; those older than KEPT_SECONDS go, and the oldest beyond MAX_READINGS."""
    db.execute(_ADD, _row(reading))
    db.execute("DELETE FROM readings WHERE at < ?", (int(reading.at) - KEPT_SECONDS,))
    db.execute(
        "DELETE FROM readings WHERE at <= (SELECT at FROM readings ORDER BY at DESC LIMIT 1 OFFSET ?)",
        (MAX_READINGS,),
    )


def readings_between(
    db: sqlite3.Connection, from_at: float, to_at: float, max_readings: int
) -> tuple[ReadingInfo, ...]:
    """In order of time, evenly thinned to `max_readings` (2 or more), the first and the last kept."""
    rows = db.execute(
        f"SELECT {', '.join(_FIELDS)} FROM readings WHERE at >= ? AND at < ? ORDER BY at",  # noqa: S608 (constant)
        (from_at, to_at),
    ).fetchall()
    if len(rows) > max_readings:
        rows = [rows[place * (len(rows) - 1) // (max_readings - 1)] for place in range(max_readings)]
    return tuple(_reading(row) for row in rows)


def bytes_by_day(db: sqlite3.Connection, from_date: str) -> dict[str, int]:
    """Bytes sent and received on each local date (YYYY-MM-DD) from `from_date` on."""
    rows = db.execute("SELECT date, bytes_sent + bytes_received FROM days WHERE date >= ?", (from_date,))
    return {date: int(count) for date, count in rows}


def _row(reading: ReadingInfo) -> list[Any]:
    return [int(reading.at), *(_stored(getattr(reading, name)) for name in _FIELDS if name != "at")]


def _stored(value: Any) -> Any:
    """SQLite would store a number that is none as NULL, or refuse it where it may not be NULL."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _reading(row: tuple[Any, ...]) -> ReadingInfo:
    values = dict(zip(_FIELDS, row, strict=True))
    for name in _FLAGS:
        values[name] = None if values[name] is None else bool(values[name])
    return msgspec.convert(values, ReadingInfo)
