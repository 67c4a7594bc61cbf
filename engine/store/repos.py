"""The statements: each function does one thing on an open connection; writes run inside the caller's transaction."""

import contextlib
import dataclasses
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from engine.contract.reasons import Reason
from engine.contract.settings import SettingValue, restored
from engine.contract.snapshot import CurvePoint, Settings
from engine.ledger.receipts import SignedReceipt
from engine.manifest.schema import SignedManifest
from engine.store.rows import DayCounters, JoinedProject, OutboxCounts, Period, QueuedReceipt, RoundRow

MAX_ROUNDS: Final = 5_000  # of one project
MAX_CURVE_POINTS: Final = 20_000  # of one project; beyond, every second one goes
MAX_LOADED_CURVE_POINTS: Final = 600
MAX_WAITING_RECEIPTS: Final = 20_000
MAX_REJECTED_RECEIPTS: Final = 1_000
MAX_PERIODS: Final = 50_000
MAX_DISMISSED: Final = 1_000
MAX_REASON_CHARS: Final = 300

# Settings


def load_settings(db: sqlite3.Connection) -> Settings:
    """What was saved; a value that is no longer valid falls back to its default."""
    saved: dict[str, SettingValue] = {}
    for key, text in db.execute("SELECT key, value FROM settings"):
        with contextlib.suppress(msgspec.DecodeError):
            saved[key] = msgspec.json.decode(text)
    return restored(saved)


def save_settings(db: sqlite3.Connection, settings: Settings) -> None:
    """Replace all."""
    rows = [(key, msgspec.json.encode(value).decode()) for key, value in msgspec.structs.asdict(settings).items()]
    db.execute("DELETE FROM settings")
    db.executemany("INSERT INTO settings (key, value) VALUES (?, ?)", rows)


# The joined project

_PROJECT: Final = "project_id, hub_url, payload, public_key, signature, joined_at, left_at"


def join_project(db: sqlite3.Connection, project: JoinedProject) -> None:
    """Make this the one that is taken part in; the one before, if any, was left at that moment."""
    signed = project.signed
    db.execute("UPDATE projects SET left_at = ? WHERE left_at IS NULL", (project.joined_at,))
    db.execute(
        f"INSERT OR REPLACE INTO projects ({_PROJECT}) VALUES (?, ?, ?, ?, ?, ?, NULL)",  # noqa: S608 (constant)
        (
            project.project_id,
            project.hub_url,
            signed.payload,
            signed.public_key,
            signed.signature,
            project.joined_at,
        ),
    )


def leave_project(db: sqlite3.Connection, at: float) -> None:
    """Take part in none."""
    db.execute("UPDATE projects SET left_at = ? WHERE left_at IS NULL", (at,))


def active_project(db: sqlite3.Connection) -> JoinedProject | None:
    """The one that is taken part in."""
    row = db.execute(f"SELECT {_PROJECT} FROM projects WHERE left_at IS NULL").fetchone()  # noqa: S608 (constant)
    return None if row is None else _project(row)


def project_history(db: sqlite3.Connection) -> tuple[JoinedProject, ...]:
    """All that were ever joined, the latest first."""
    rows = db.execute(f"SELECT {_PROJECT} FROM projects ORDER BY joined_at DESC")  # noqa: S608 (constant)
    return tuple(_project(row) for row in rows)


def _project(row: Sequence[Any]) -> JoinedProject:
    project_id, hub_url, payload, public_key, signature, joined_at, left_at = row
    signed = SignedManifest(payload=payload, public_key=public_key, signature=signature)
    return JoinedProject(project_id, hub_url, signed, joined_at, left_at)


# Rounds

_ROUND: Final = tuple(field.name for field in dataclasses.fields(RoundRow))
_ADD_ROUND: Final = f"INSERT OR REPLACE INTO rounds ({', '.join(_ROUND)}) VALUES ({', '.join('?' * len(_ROUND))})"  # noqa: S608


def add_round(db: sqlite3.Connection, row: RoundRow) -> None:
    """Keep it; the project's oldest go beyond MAX_ROUNDS."""
    db.execute(_ADD_ROUND, dataclasses.astuple(row))
    db.execute(
        "DELETE FROM rounds WHERE project_id = ?1 AND number <= "
        "(SELECT number FROM rounds WHERE project_id = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)",
        (row.project_id, MAX_ROUNDS),
    )


def recent_rounds(db: sqlite3.Connection, project_id: str, limit: int) -> tuple[RoundRow, ...]:
    """The latest first."""
    rows = db.execute(
        f"SELECT {', '.join(_ROUND)} FROM rounds WHERE project_id = ? ORDER BY number DESC LIMIT ?",  # noqa: S608
        (project_id, limit),
    )
    found = (dict(zip(_ROUND, row, strict=True)) for row in rows)
    return tuple(RoundRow(**{**values, "committed": bool(values["committed"])}) for values in found)


# The learning curve


def add_curve_point(db: sqlite3.Connection, project_id: str, point: CurvePoint) -> None:
    """Keep it, in place of another for the same step."""
    db.execute(
        "INSERT OR REPLACE INTO curve (project_id, global_step, at, train_loss, held_out_loss, tokens_total, mine) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            project_id,
            point.global_step,
            point.at,
            point.train_loss,
            point.held_out_loss,
            point.tokens_total,
            point.mine,
        ),
    )
    (count,) = db.execute("SELECT count(*) FROM curve WHERE project_id = ?", (project_id,)).fetchone()
    if count > MAX_CURVE_POINTS:
        db.execute(
            "DELETE FROM curve WHERE project_id = ?1 AND global_step IN (SELECT global_step FROM (SELECT global_step, "
            "row_number() OVER (ORDER BY global_step) AS place FROM curve WHERE project_id = ?1) "
            "WHERE place % 2 = 0 AND place < ?2)",
            (project_id, count),
        )


def load_curve(db: sqlite3.Connection, project_id: str, max_points: int) -> tuple[CurvePoint, ...]:
    """In order of steps, evenly thinned to `max_points` (2 or more), the first and the last kept."""
    rows = db.execute(
        "SELECT global_step, at, train_loss, held_out_loss, tokens_total, mine FROM curve "
        "WHERE project_id = ? ORDER BY global_step",
        (project_id,),
    ).fetchall()
    if len(rows) > max_points:
        rows = [rows[index * (len(rows) - 1) // (max_points - 1)] for index in range(max_points)]
    return tuple(
        CurvePoint(
            global_step=step,
            at=at,
            train_loss=train_loss,
            held_out_loss=held_out_loss,
            tokens_total=tokens_total,
            mine=bool(mine),
        )
        for step, at, train_loss, held_out_loss, tokens_total, mine in rows
    )


# Days


def add_to_day(db: sqlite3.Connection, date: str, more: DayCounters) -> None:
    """Add to the counters of a local date, YYYY-MM-DD."""
    db.execute(
        "INSERT INTO days VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (date) DO UPDATE SET "
        "tokens_trained = tokens_trained + excluded.tokens_trained, "
        "tokens_accepted = tokens_accepted + excluded.tokens_accepted, "
        "rounds = rounds + excluded.rounds, bytes_sent = bytes_sent + excluded.bytes_sent, "
        "bytes_received = bytes_received + excluded.bytes_received",
        (date, *dataclasses.astuple(more)),
    )


def load_day(db: sqlite3.Connection, date: str) -> DayCounters:
    """Zeros for a date that has none."""
    return dict(_days(db, "WHERE date = ?", (date,))).get(date, DayCounters())


def recent_days(db: sqlite3.Connection, limit: int) -> tuple[tuple[str, DayCounters], ...]:
    """Dates with their counters, the latest first."""
    return tuple(_days(db, "ORDER BY date DESC LIMIT ?", (limit,)))


def _days(db: sqlite3.Connection, rest: str, values: tuple[Any, ...]) -> list[tuple[str, DayCounters]]:
    columns = "date, tokens_trained, tokens_accepted, rounds, bytes_sent, bytes_received"
    rows = db.execute(f"SELECT {columns} FROM days {rest}", values)  # noqa: S608 (constants)
    return [(date, DayCounters(*counters)) for date, *counters in rows]


# Receipts on their way to a hub


def queue_receipts(db: sqlite3.Connection, hub_url: str, receipts: Sequence[SignedReceipt], at: float) -> int:
    """Keep them until delivered; one that is queued already stays one. Returns how many of the oldest had to go."""
    rows = [(hub_url, receipt.payload, receipt.signature, at) for receipt in receipts]
    db.executemany("INSERT OR IGNORE INTO receipts (hub_url, payload, signature, created_at) VALUES (?, ?, ?, ?)", rows)
    return db.execute(
        "DELETE FROM receipts WHERE rejected_at IS NULL AND receipt_id <= (SELECT receipt_id FROM receipts "
        "WHERE rejected_at IS NULL ORDER BY receipt_id DESC LIMIT 1 OFFSET ?)",
        (MAX_WAITING_RECEIPTS,),
    ).rowcount


def take_receipts(db: sqlite3.Connection, hub_url: str, limit: int) -> tuple[QueuedReceipt, ...]:
    """The oldest that wait for this hub, each with one more attempt counted. They stay queued until marked."""
    rows = db.execute(
        "SELECT receipt_id, payload, signature, created_at, attempts FROM receipts "
        "WHERE hub_url = ? AND rejected_at IS NULL ORDER BY receipt_id LIMIT ?",
        (hub_url, limit),
    ).fetchall()
    db.executemany("UPDATE receipts SET attempts = attempts + 1 WHERE receipt_id = ?", [(row[0],) for row in rows])
    return tuple(
        QueuedReceipt(receipt_id, SignedReceipt(payload=payload, signature=signature), created_at, attempts + 1)
        for receipt_id, payload, signature, created_at, attempts in rows
    )


def mark_delivered(db: sqlite3.Connection, receipt_ids: Sequence[int]) -> None:
    """The hub has them."""
    db.executemany("DELETE FROM receipts WHERE receipt_id = ?", [(receipt_id,) for receipt_id in receipt_ids])


def mark_rejected(db: sqlite3.Connection, reasons: Mapping[int, str], at: float) -> None:
    """The hub refused them, for the reason that stands with each id; they are not sent again."""
    rows = [(at, reason[:MAX_REASON_CHARS], receipt_id) for receipt_id, reason in reasons.items()]
    db.executemany("UPDATE receipts SET rejected_at = ?, reason = ? WHERE receipt_id = ?", rows)
    db.execute(
        "DELETE FROM receipts WHERE rejected_at IS NOT NULL AND receipt_id <= (SELECT receipt_id FROM receipts "
        "WHERE rejected_at IS NOT NULL ORDER BY receipt_id DESC LIMIT 1 OFFSET ?)",
        (MAX_REJECTED_RECEIPTS,),
    )


def outbox_counts(db: sqlite3.Connection) -> OutboxCounts:
    """Over all hubs."""
    waiting, rejected = db.execute(
        "SELECT count(*) FILTER (WHERE rejected_at IS NULL), count(rejected_at) FROM receipts"
    ).fetchone()
    return OutboxCounts(waiting, rejected)


def rejected_receipts(db: sqlite3.Connection, limit: int) -> tuple[tuple[SignedReceipt, str], ...]:
    """Refused receipts with the hub's reason, the latest first."""
    rows = db.execute(
        "SELECT payload, signature, reason FROM receipts WHERE rejected_at IS NOT NULL "
        "ORDER BY receipt_id DESC LIMIT ?",
        (limit,),
    )
    return tuple((SignedReceipt(payload=payload, signature=signature), reason) for payload, signature, reason in rows)


# Periods


def note_period(db: sqlite3.Connection, level: str, reasons: tuple[Reason, ...], at: float) -> None:
    """The engine runs at `level` for `reasons` at this moment: the open period goes on, or ends and a new one opens."""
    text = msgspec.json.encode(reasons).decode()
    row = db.execute("SELECT period_id, level, reasons FROM periods WHERE open").fetchone()
    if row is not None:
        goes_on = row[1:] == (level, text)
        db.execute("UPDATE periods SET to_at = max(to_at, ?), open = ? WHERE period_id = ?", (at, goes_on, row[0]))
        if goes_on:
            return
    db.execute(
        "INSERT INTO periods (level, reasons, from_at, to_at, open) VALUES (?, ?, ?, ?, 1)", (level, text, at, at)
    )
    db.execute(
        "DELETE FROM periods WHERE period_id <= "
        "(SELECT period_id FROM periods ORDER BY period_id DESC LIMIT 1 OFFSET ?)",
        (MAX_PERIODS,),
    )


def end_period(db: sqlite3.Connection, at: float) -> None:
    """The engine stops: the open period ends now."""
    db.execute("UPDATE periods SET to_at = max(to_at, ?), open = 0 WHERE open", (at,))


def end_left_open(db: sqlite3.Connection) -> None:
    """After a crash: what was open ended when it was last noted."""
    db.execute("UPDATE periods SET open = 0 WHERE open")


def periods_between(db: sqlite3.Connection, from_at: float, to_at: float) -> tuple[Period, ...]:
    """Those that overlap the time span, in order."""
    rows = db.execute(
        "SELECT level, reasons, from_at, to_at, open FROM periods WHERE to_at >= ? AND from_at < ? ORDER BY period_id",
        (from_at, to_at),
    )
    return tuple(Period(level, _reasons(text), start, end, bool(is_open)) for level, text, start, end, is_open in rows)


def _reasons(text: str) -> tuple[Reason, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[Reason, ...])
    except msgspec.DecodeError:  # a code of a later version, after going back to this one
        return ()


# Marks


def dismiss_problem(db: sqlite3.Connection, problem_id: str, at: float) -> None:
    """Remember that the user took this card away."""
    db.execute("INSERT OR REPLACE INTO dismissed_problems VALUES (?, ?)", (problem_id, at))
    db.execute(
        "DELETE FROM dismissed_problems WHERE problem_id IN "
        "(SELECT problem_id FROM dismissed_problems ORDER BY at DESC LIMIT -1 OFFSET ?)",
        (MAX_DISMISSED,),
    )


def restore_problem(db: sqlite3.Connection, problem_id: str) -> None:
    """Show this card again when it comes back."""
    db.execute("DELETE FROM dismissed_problems WHERE problem_id = ?", (problem_id,))


def dismissed_problems(db: sqlite3.Connection) -> frozenset[str]:
    """Ids of the cards that were taken away."""
    return frozenset(problem_id for (problem_id,) in db.execute("SELECT problem_id FROM dismissed_problems"))


def mark_name_sent(db: sqlite3.Connection, hub_url: str, name: str, at: float) -> None:
    """That hub knows this display name."""
    db.execute("INSERT OR REPLACE INTO names_sent VALUES (?, ?, ?)", (hub_url, name, at))


def name_sent(db: sqlite3.Connection, hub_url: str) -> str | None:
    """The display name that the hub was last told."""
    row = db.execute("SELECT name FROM names_sent WHERE hub_url = ?", (hub_url,)).fetchone()
    return None if row is None else str(row[0])
