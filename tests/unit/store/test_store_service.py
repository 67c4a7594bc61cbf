import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.reasons import Reason, ReasonCode
from engine.contract.settings import changed
from engine.contract.snapshot import CurvePoint, Settings
from engine.ledger.receipts import SignedReceipt
from engine.manifest.schema import SignedManifest
from engine.store import database, repos, service
from engine.store.errors import StoreReadError, StoreWriteError
from engine.store.rows import DayCounters, JoinedProject, OutboxCounts, Period, RoundRow
from engine.store.service import Store, open_store

A, B = "a" * 64, "b" * 64
HUB = "http://127.0.0.1:8080"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(tmp_path / "potluck.db", 0.0)
    async with opened.store as store:
        yield store


async def reopened(store: Store) -> Store:
    await store.close()
    return (await open_store(store.path, 0.0)).store


def project(project_id: str, joined_at: float) -> JoinedProject:
    signed = SignedManifest(payload=project_id.encode(), public_key=b"k" * 32, signature=b"s" * 64)
    return JoinedProject(project_id, HUB, signed, joined_at)


def round_row(number: int, **fields: Any) -> RoundRow:
    values = {"project_id": A, "round_id": f"{number:032x}", "global_step": number, "committed": True, "members": 3}
    return RoundRow(**{**values, "tokens": 9, "my_tokens": 3, "seconds": 1.5, "at": float(number), **fields})


def point(step: int, **fields: Any) -> CurvePoint:
    values = {"at": float(step), "train_loss": 2.0, "held_out_loss": None, "tokens_total": step, "mine": False}
    return CurvePoint(**{"global_step": step, **values, **fields})


def receipt(number: int) -> SignedReceipt:
    return SignedReceipt(payload=f"receipt {number}".encode(), signature=number.to_bytes(64, "big"))


async def limit_pages(store: Store, more: int | None) -> None:
    """A disk that has room for so many more pages, or plenty again."""

    def limit() -> None:
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {2**30 if more is None else pages + more}")

    await store._run(limit)


# Settings and marks


async def test_settings_last(store):
    assert await store.load_settings() == Settings()
    chosen = changed(
        Settings(), {"cpu_share_percent": 20, "upload_limit_bytes_per_second": 100_000, "display_name": "Ada \u2603"}
    )
    await store.save_settings(chosen)
    async with await reopened(store) as again:
        assert await again.load_settings() == chosen


async def test_settings_that_are_no_longer_valid_fall_back(store):
    await store.save_settings(Settings(cpu_share_percent=20, pause_on_battery=False))

    def spoil() -> None:
        store._connection.execute("UPDATE settings SET value = '900' WHERE key = 'cpu_share_percent'")
        store._connection.execute("UPDATE settings SET value = '{' WHERE key = 'display_name'")
        store._connection.execute("INSERT INTO settings VALUES ('of_a_later_version', '1')")

    await store._run(spoil)
    assert await store.load_settings() == Settings(pause_on_battery=False)


async def test_dismissed_problems(store, monkeypatch):
    monkeypatch.setattr(repos, "MAX_DISMISSED", 2)
    for at, name in enumerate(["a", "b", "b", "c"]):
        await store.dismiss_problem(name, float(at))
    assert await store.dismissed_problems() == {"b", "c"}
    await store.restore_problem("b")
    assert await store.dismissed_problems() == {"c"}


async def test_the_name_that_a_hub_knows(store):
    assert await store.name_sent(HUB) is None
    await store.mark_name_sent(HUB, "Ada", 1.0)
    await store.mark_name_sent(HUB, "", 2.0)
    assert await store.name_sent(HUB) == ""


# Projects


async def test_one_project_at_a_time(store):
    assert await store.active_project() is None
    await store.join_project(project(A, 1.0))
    await store.join_project(project(B, 2.0))
    assert await store.active_project() == project(B, 2.0)
    await store.leave_project(3.0)
    await store.leave_project(4.0)
    assert await store.active_project() is None
    history = await store.project_history()
    assert [(joined.project_id, joined.left_at) for joined in history] == [(B, 3.0), (A, 2.0)]


async def test_joining_again(store):
    for at in (1.0, 2.0):
        await store.join_project(project(A, at))
    async with await reopened(store) as again:
        assert await again.active_project() == project(A, 2.0)
        assert len(await again.project_history()) == 1


# Rounds, curve, days


async def test_rounds_come_back_the_latest_first(store):
    rows = [round_row(1, train_loss=2.5), round_row(2, committed=False, detail="voted against")]
    for row in rows:
        await store.add_round(row)
    await store.add_round(round_row(3, project_id=B))
    assert await store.recent_rounds(A) == (rows[1], rows[0])
    assert await store.recent_rounds(A, limit=1) == (rows[1],)


async def test_a_round_told_twice_is_one(store):
    await store.add_round(round_row(1))
    await store.add_round(round_row(1, held_out_loss=2.0))
    assert await store.recent_rounds(A) == (round_row(1, held_out_loss=2.0),)


async def test_old_rounds_go(store, monkeypatch):
    monkeypatch.setattr(repos, "MAX_ROUNDS", 3)
    await store.add_round(round_row(99, project_id=B))
    for number in range(10):
        await store.add_round(round_row(number))
    assert [row.global_step for row in await store.recent_rounds(A)] == [9, 8, 7]
    assert len(await store.recent_rounds(B)) == 1


async def test_the_curve_is_thinned_when_loaded(store):
    points = [point(step, mine=step % 2 == 0) for step in range(50)]
    for each in points:
        await store.add_curve_point(A, each)
    await store.add_curve_point(B, point(7))
    assert await store.load_curve(A) == tuple(points)
    thin = await store.load_curve(A, max_points=7)
    assert [each.global_step for each in thin] == [0, 8, 16, 24, 32, 40, 49]
    await store.add_curve_point(A, point(49, held_out_loss=1.0))
    assert (await store.load_curve(A))[-1].held_out_loss == 1.0


async def test_a_very_long_curve_loses_every_second_point(store, monkeypatch):
    monkeypatch.setattr(repos, "MAX_CURVE_POINTS", 10)
    await store.add_curve_point(B, point(3))
    for step in range(11):
        await store.add_curve_point(A, point(step))
    assert [each.global_step for each in await store.load_curve(A)] == [0, 2, 4, 6, 8, 10]
    for step in range(11, 40):
        await store.add_curve_point(A, point(step))
    steps = [each.global_step for each in await store.load_curve(A)]
    assert (steps[0], steps[-1]) == (0, 39)
    assert len(steps) <= 10
    assert len(await store.load_curve(B)) == 1


async def test_days_add_up(store):
    assert await store.load_day("2026-01-01") == DayCounters()
    await store.add_to_day("2026-01-01", DayCounters(1, 2, 3, 4, 5))
    await store.add_to_day("2026-01-01", DayCounters(10, 20, 30, 40, 2**40))
    await store.add_to_day("2026-01-02", DayCounters(rounds=1))
    assert await store.load_day("2026-01-01") == DayCounters(11, 22, 33, 44, 2**40 + 5)
    assert [date for date, _ in await store.recent_days()] == ["2026-01-02", "2026-01-01"]
    assert await store.recent_days(1) == (("2026-01-02", DayCounters(rounds=1)),)


# Receipts


async def test_receipts_wait_until_they_are_delivered(store):
    await store.queue_receipts(HUB, [receipt(1), receipt(2), receipt(3)], 1.0)
    await store.queue_receipts(HUB, [receipt(2)], 2.0)
    await store.queue_receipts("http://other", [receipt(4)], 2.0)
    taken = await store.take_receipts(HUB, 2)
    assert [row.receipt for row in taken] == [receipt(1), receipt(2)]
    assert [row.attempts for row in taken] == [1, 1]
    assert [row.attempts for row in await store.take_receipts(HUB)] == [2, 2, 1]
    await store.mark_delivered([taken[0].receipt_id])
    await store.mark_rejected({taken[1].receipt_id: "no such round " * 100}, 3.0)
    async with await reopened(store) as again:
        assert [row.receipt for row in await again.take_receipts(HUB)] == [receipt(3)]
        assert await again.outbox_counts() == OutboxCounts(waiting=2, rejected=1)
        ((refused, reason),) = await again.rejected_receipts()
        assert refused == receipt(2)
        assert len(reason) == repos.MAX_REASON_CHARS


async def test_the_outbox_is_bounded(store, monkeypatch, expect_log):
    expect_log("engine.store.service", match="2 of the oldest receipts were dropped")
    monkeypatch.setattr(repos, "MAX_WAITING_RECEIPTS", 3)
    monkeypatch.setattr(repos, "MAX_REJECTED_RECEIPTS", 1)
    await store.queue_receipts(HUB, [receipt(number) for number in range(5)], 1.0)
    taken = await store.take_receipts(HUB)
    assert [row.receipt for row in taken] == [receipt(2), receipt(3), receipt(4)]
    await store.mark_rejected({row.receipt_id: "why" for row in taken}, 2.0)
    assert await store.outbox_counts() == OutboxCounts(waiting=0, rejected=1)
    assert (await store.rejected_receipts())[0][0] == receipt(4)


# Periods


async def test_every_second_has_its_reasons(store):
    battery = (Reason(code=ReasonCode.ON_BATTERY, params={"percent": 40}),)
    for level, reasons, at in [
        ("full", (), 0.0),
        ("full", (), 60.0),
        ("stopped", battery, 90.0),
        ("stopped", battery, 150.0),
        ("full", (), 200.0),
    ]:
        await store.note_period(level, reasons, at)
    await store.end_period(260.0)
    assert await store.periods_between(0.0, 1000.0) == (
        Period("full", (), 0.0, 90.0, False),
        Period("stopped", battery, 90.0, 200.0, False),
        Period("full", (), 200.0, 260.0, False),
    )
    assert [period.level for period in await store.periods_between(100.0, 150.0)] == ["stopped"]


async def test_a_crash_ends_a_period_when_it_was_last_noted(store):
    await store.note_period("full", (), 0.0)
    await store.note_period("full", (), 60.0)
    async with await reopened(store) as again:
        await again.note_period("full", (), 500.0)
        first, second = await again.periods_between(0.0, 1000.0)
        assert first == Period("full", (), 0.0, 60.0, False)
        assert second == Period("full", (), 500.0, 500.0, True)


async def test_a_clock_that_is_set_back_makes_no_negative_time(store):
    await store.note_period("full", (), 100.0)
    await store.note_period("full", (), 50.0)
    await store.end_period(40.0)
    assert await store.periods_between(0.0, 1000.0) == (Period("full", (), 100.0, 100.0, False),)


async def test_old_periods_go_and_unknown_reasons_are_left_out(store, monkeypatch):
    monkeypatch.setattr(repos, "MAX_PERIODS", 2)
    for number in range(5):
        await store.note_period(f"level {number}", (), float(number))
    await store._run(lambda: store._connection.execute('UPDATE periods SET reasons = \'[{"code":"comet"}]\''))
    periods = await store.periods_between(0.0, 1000.0)
    assert [(period.level, period.reasons) for period in periods] == [("level 3", ()), ("level 4", ())]


levels = st.sampled_from(["full", "reduced", "stopped"])


@given(st.lists(st.tuples(levels, st.floats(0, 1000)), max_size=20))
def test_periods_follow_on_one_another(noted):
    db = sqlite3.connect(":memory:", isolation_level=None)
    for upgrade in database.known_upgrades():
        database.transact(db, upgrade.sql)
    times = sorted(at for _, at in noted)
    for (level, _), at in zip(noted, times, strict=True):
        repos.note_period(db, level, (), at)
    periods = repos.periods_between(db, -1.0, 2000.0)
    for earlier, later in pairwise(periods):
        assert earlier.to_at == later.from_at
        assert earlier.level != later.level
    assert [period.open for period in periods] == [False] * (len(periods) - 1) + [True] * bool(periods)
    assert sum(period.to_at - period.from_at for period in periods) == pytest.approx(
        times[-1] - times[0] if times else 0.0
    )
    db.close()


# Trouble


async def test_a_full_disk_holds_writes_and_loses_none(store, expect_log):
    expect_log("engine.store.service", match="kept in memory")
    await store.queue_receipts(HUB, [receipt(0)], 1.0)
    await limit_pages(store, 0)
    large = [round_row(number, detail="x" * 9000) for number in range(4)]
    for row in large:
        with pytest.raises(StoreWriteError) as failed:
            await store.add_round(row)
        assert failed.value.path == store.path
        assert "full" in failed.value.detail
    assert store.held_writes == 4
    with pytest.raises(StoreWriteError):
        await store.retry()
    assert store.held_writes == 4
    assert await store.recent_rounds(A) == ()  # reading goes on
    with pytest.raises(StoreWriteError):
        await store.add_to_day("2026-01-01", DayCounters(rounds=1))  # would fit, but its turn has not come
    await limit_pages(store, None)
    await store.retry()
    assert store.held_writes == 0
    assert await store.recent_rounds(A) == tuple(reversed(large))
    assert await store.load_day("2026-01-01") == DayCounters(rounds=1)


async def test_the_next_write_takes_the_held_ones_along(store, expect_log):
    expect_log("engine.store.service", match="kept in memory")
    await limit_pages(store, 0)
    with pytest.raises(StoreWriteError):
        await store.add_round(round_row(1, detail="x" * 9000))
    await limit_pages(store, None)
    await store.add_round(round_row(2))
    assert [row.global_step for row in await store.recent_rounds(A)] == [2, 1]


async def test_held_writes_are_bounded(store, expect_log, monkeypatch):
    expect_log("engine.store.service", match="kept in memory")
    expect_log("engine.store.service", match="oldest write is lost")
    monkeypatch.setattr(service, "MAX_HELD_WRITES", 2)
    await limit_pages(store, 0)
    for number in range(3):
        with pytest.raises(StoreWriteError):
            await store.add_round(round_row(number, detail="x" * 9000))
    assert store.held_writes == 2
    await limit_pages(store, None)
    await store.retry()
    assert [row.global_step for row in await store.recent_rounds(A)] == [2, 1]


async def test_closing_writes_what_is_held(store, expect_log):
    expect_log("engine.store.service", match="kept in memory")
    await limit_pages(store, 0)
    with pytest.raises(StoreWriteError):
        await store.add_round(round_row(1, detail="x" * 9000))
    await limit_pages(store, None)
    async with await reopened(store) as again:
        assert len(await again.recent_rounds(A)) == 1


async def test_closing_on_a_full_disk_says_what_is_lost(store, expect_log):
    expect_log("engine.store.service", match="kept in memory")
    expect_log("engine.store.service", match="1 writes are lost")
    await limit_pages(store, 0)
    with pytest.raises(StoreWriteError):
        await store.add_round(round_row(1, detail="x" * 9000))
    await store.close()
    await store.close()


async def test_taking_receipts_on_a_read_only_disk(store):
    await store.queue_receipts(HUB, [receipt(1)], 1.0)
    await store._run(lambda: store._connection.execute("PRAGMA query_only = 1"))
    with pytest.raises(StoreWriteError, match="readonly"):
        await store.take_receipts(HUB)
    assert store.held_writes == 0
    await store._run(lambda: store._connection.execute("PRAGMA query_only = 0"))
    assert len(await store.take_receipts(HUB)) == 1


async def test_a_file_that_is_damaged_while_open(store):
    for number in range(200):
        await store.add_round(round_row(number, detail="x" * 500))
    await store._run(lambda: store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
    await store._run(lambda: store._connection.execute("PRAGMA shrink_memory"))
    data = bytearray(store.path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    store.path.write_bytes(data)
    with pytest.raises(StoreReadError) as failed:
        await store.recent_rounds(A)
    assert failed.value.path == store.path


async def test_our_own_slips_are_not_dressed_up(store):
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await store._write(lambda db: db.execute("INSERT INTO nowhere VALUES (1)"))
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await store._read(lambda db: db.execute("SELECT * FROM nowhere"))
    assert store.held_writes == 0
    await store.add_round(round_row(1))


async def test_a_held_slip_does_not_block_the_rest(store, expect_log):
    expect_log("engine.store.service", match="kept in memory")
    await limit_pages(store, 0)
    with pytest.raises(StoreWriteError):
        await store.add_round(round_row(1, detail="x" * 9000))
    store._held.appendleft(lambda db: db.execute("INSERT INTO nowhere VALUES (1)"))
    await limit_pages(store, None)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await store.retry()
    await store.retry()
    assert len(await store.recent_rounds(A)) == 1


async def test_a_cancelled_caller_does_not_undo_the_write(store):
    task = asyncio.create_task(store.add_round(round_row(1)))
    started = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(started.set_result, None)
    await started
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.add_round(round_row(2))
    assert [row.global_step for row in await store.recent_rounds(A)] in ([2, 1], [2])


async def test_cancelled_opening_leaves_nothing_open(tmp_path, monkeypatch):
    closed = asyncio.Event()
    loop = asyncio.get_running_loop()
    real = service._close_late

    def noticed(executor: Any, opening: Any) -> None:
        real(executor, opening)
        executor_done = executor._threads
        loop.run_in_executor(None, lambda: [thread.join() for thread in executor_done]).add_done_callback(
            lambda _: closed.set()
        )

    monkeypatch.setattr(service, "_close_late", noticed)
    task = asyncio.create_task(open_store(tmp_path / "potluck.db", 0.0))
    begun = loop.create_future()
    loop.call_soon(begun.set_result, None)
    await begun
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(10):
        await closed.wait()
    assert [file.name for file in tmp_path.iterdir()] == ["potluck.db"]  # closed: no journal is left


async def test_writes_from_many_tasks_are_all_there(store):
    await asyncio.gather(*(store.add_to_day("2026-01-01", DayCounters(rounds=1)) for _ in range(50)))
    assert (await store.load_day("2026-01-01")).rounds == 50


async def test_trouble_is_said_once(store, expect_log, caplog):
    expect_log("engine.store.service", match="kept in memory")
    await limit_pages(store, 0)
    for number in range(3):
        with pytest.raises(StoreWriteError):
            await store.add_round(round_row(number, detail="x" * 9000))
    await limit_pages(store, None)
    with caplog.at_level(logging.INFO, logger="engine.store"):
        await store.retry()
    assert caplog.text.count("kept in memory") == 1
    assert "can be written again" in caplog.text
