"""The store as the engine uses it: asynchronous, one thread, one writer; writes that fail are kept and tried again."""

import asyncio
import collections
import concurrent.futures
import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeAlias, TypeVar

from engine.contract.reasons import Reason
from engine.contract.snapshot import CurvePoint, ReadingInfo, Settings
from engine.ledger.receipts import SignedReceipt
from engine.store import readings, repos
from engine.store.database import Replaced, is_the_files_fault, open_database, transaction
from engine.store.errors import StoreReadError, StoreWriteError
from engine.store.rows import DayCounters, JoinedProject, OutboxCounts, Period, QueuedReceipt, RoundRow

log = logging.getLogger(__name__)

MAX_HELD_WRITES: Final = 2_000

T = TypeVar("T")
Work: TypeAlias = Callable[[sqlite3.Connection], T]
Opening: TypeAlias = asyncio.Future[tuple[sqlite3.Connection, Replaced | None]]


@dataclass(frozen=True, slots=True)
class StoreOpened:
    """A store, and whether it had to begin anew because the file was damaged."""

    store: "Store"
    replaced: Replaced | None


async def open_store(path: Path, now: float) -> StoreOpened:
    """Open, make or upgrade the store at `path`.

    Raises:
        UserError: it cannot be opened or written, or a newer Potluck wrote it.
    """
    executor = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="potluck-store")
    try:
        opening: Opening = asyncio.get_running_loop().run_in_executor(executor, open_database, path, now)
        connection, replaced = await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(partial(_close_late, executor))
        raise
    except BaseException:
        executor.shutdown(wait=False)
        raise
    store = Store(path, connection, executor)
    try:
        await store.end_left_open()
    except BaseException:
        await store.close()
        raise
    return StoreOpened(store, replaced)


class Store:
    """One open database. Made by `open_store`.

    Reads raise StoreReadError when the file cannot be read. Writes are one transaction each and raise StoreWriteError
    when it cannot be written: the write is then held in memory, in order, and tried again before the next one and by
    `retry`. Beyond MAX_HELD_WRITES the oldest held ones are lost, with a warning. Reads do not see what is held.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, executor: concurrent.futures.ThreadPoolExecutor
    ) -> None:
        self.path = path
        self._connection = connection
        self._executor = executor
        self._held: collections.deque[Work[object]] = collections.deque()
        self._closing: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def held_writes(self) -> int:
        """Writes that wait for the disk."""
        return len(self._held)

    async def retry(self) -> None:
        """Try again what is held.

        Raises:
            StoreWriteError: it still cannot be written.
        """
        await self._run(self._write_held)

    async def close(self) -> None:
        """Write what can be written and close the file. Safe to repeat; the store cannot be used afterwards."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().run_in_executor(self._executor, self._close)
            self._executor.shutdown(wait=False)
        await asyncio.shield(self._closing)

    # Settings and marks

    async def load_settings(self) -> Settings:
        """What was saved; a value that is no longer valid falls back to its default."""
        return await self._read(repos.load_settings)

    async def save_settings(self, settings: Settings) -> None:
        """Replace all."""
        await self._write(partial(repos.save_settings, settings=settings))

    async def dismiss_problem(self, problem_id: str, at: float) -> None:
        """Remember that the user took this card away."""
        await self._write(partial(repos.dismiss_problem, problem_id=problem_id, at=at))

    async def restore_problem(self, problem_id: str) -> None:
        """Show this card again when it comes back."""
        await self._write(partial(repos.restore_problem, problem_id=problem_id))

    async def dismissed_problems(self) -> frozenset[str]:
        """Ids of the cards that were taken away."""
        return await self._read(repos.dismissed_problems)

    async def mark_name_sent(self, hub_url: str, name: str, at: float) -> None:
        """That hub knows this display name."""
        await self._write(partial(repos.mark_name_sent, hub_url=hub_url, name=name, at=at))

    async def name_sent(self, hub_url: str) -> str | None:
        """The display name that the hub was last told."""
        return await self._read(partial(repos.name_sent, hub_url=hub_url))

    # The joined project

    async def join_project(self, project: JoinedProject) -> None:
        """Make this the one that is taken part in, in place of any other."""
        await self._write(partial(repos.join_project, project=project))

    async def leave_project(self, at: float) -> None:
        """Take part in none."""
        await self._write(partial(repos.leave_project, at=at))

    async def active_project(self) -> JoinedProject | None:
        """The one that is taken part in. Its manifest is as it came: verify it before use."""
        return await self._read(repos.active_project)

    async def project_history(self) -> tuple[JoinedProject, ...]:
        """All that were ever joined, the latest first."""
        return await self._read(repos.project_history)

    # Rounds, curve, days

    async def add_round(self, row: RoundRow) -> None:
        """Keep a round that ended; the project's oldest go beyond `repos.MAX_ROUNDS`."""
        await self._write(partial(repos.add_round, row=row))

    async def recent_rounds(self, project_id: str, limit: int = 100) -> tuple[RoundRow, ...]:
        """The latest first."""
        return await self._read(partial(repos.recent_rounds, project_id=project_id, limit=limit))

    async def add_curve_point(self, project_id: str, point: CurvePoint) -> None:
        """Keep a point, in place of another for the same step."""
        await self._write(partial(repos.add_curve_point, project_id=project_id, point=point))

    async def load_curve(
        self, project_id: str, max_points: int = repos.MAX_LOADED_CURVE_POINTS
    ) -> tuple[CurvePoint, ...]:
        """In order of steps, evenly thinned to `max_points` (2 or more), the first and the last kept."""
        return await self._read(partial(repos.load_curve, project_id=project_id, max_points=max_points))

    async def add_to_day(self, date: str, more: DayCounters) -> None:
        """Add to the counters of a local date, YYYY-MM-DD."""
        await self._write(partial(repos.add_to_day, date=date, more=more))

    async def load_day(self, date: str) -> DayCounters:
        """Zeros for a date that has none."""
        return await self._read(partial(repos.load_day, date=date))

    async def recent_days(self, limit: int = 30) -> tuple[tuple[str, DayCounters], ...]:
        """Dates with their counters, the latest first."""
        return await self._read(partial(repos.recent_days, limit=limit))

    # Receipts on their way to a hub

    async def queue_receipts(self, hub_url: str, receipts: Sequence[SignedReceipt], at: float) -> None:
        """Keep them until delivered; one that is queued already stays one."""
        await self._write(partial(_queue_receipts, hub_url=hub_url, receipts=tuple(receipts), at=at))

    async def take_receipts(self, hub_url: str, limit: int = 200) -> tuple[QueuedReceipt, ...]:
        """The oldest that wait for this hub, each with one more attempt counted. They stay queued until marked.

        Raises:
            StoreWriteError: the attempt cannot be counted; nothing is held, try later.
        """
        return await self._run(lambda: self._transact(partial(repos.take_receipts, hub_url=hub_url, limit=limit)))

    async def mark_delivered(self, receipt_ids: Sequence[int]) -> None:
        """The hub has them."""
        await self._write(partial(repos.mark_delivered, receipt_ids=tuple(receipt_ids)))

    async def mark_rejected(self, reasons: Mapping[int, str], at: float) -> None:
        """The hub refused them, for the reason that stands with each id; they are not sent again."""
        await self._write(partial(repos.mark_rejected, reasons=dict(reasons), at=at))

    async def outbox_counts(self) -> OutboxCounts:
        """Over all hubs."""
        return await self._read(repos.outbox_counts)

    async def rejected_receipts(self, limit: int = 100) -> tuple[tuple[SignedReceipt, str], ...]:
        """Refused receipts with the hub's reason, the latest first."""
        return await self._read(partial(repos.rejected_receipts, limit=limit))

    # Periods

    async def note_period(self, level: str, reasons: tuple[Reason, ...], at: float) -> None:
        """The engine runs at `level` for `reasons` at this moment: the open period goes on, or another begins.

        Call it on every change and every minute or so: a crash loses the time since the last call.
        """
        await self._write(partial(repos.note_period, level=level, reasons=reasons, at=at))

    async def end_period(self, at: float) -> None:
        """The engine stops: the open period ends now."""
        await self._write(partial(repos.end_period, at=at))

    async def end_left_open(self) -> None:
        """After a crash: what was open ended when it was last noted. Done by `open_store`."""
        await self._write(repos.end_left_open)

    async def periods_between(self, from_at: float, to_at: float) -> tuple[Period, ...]:
        """Those that overlap the time span, in order."""
        return await self._read(partial(repos.periods_between, from_at=from_at, to_at=to_at))

    # Readings and use of data

    async def add_reading(self, reading: ReadingInfo) -> None:
        """Keep what the computer was doing at a moment; call it once a minute. What is older than two weeks goes."""
        await self._write(partial(readings.add_reading, reading=reading))

    async def readings_between(
        self, from_at: float, to_at: float, max_readings: int = readings.MAX_READINGS
    ) -> tuple[ReadingInfo, ...]:
        """In order of time, evenly thinned to `max_readings` (2 or more), the first and the last kept."""
        return await self._read(
            partial(readings.readings_between, from_at=from_at, to_at=to_at, max_readings=max_readings)
        )

    async def bytes_by_day(self, from_date: str) -> dict[str, int]:
        """Bytes sent and received on each local date (YYYY-MM-DD) from `from_date` on, for the data limit."""
        return await self._read(partial(readings.bytes_by_day, from_date=from_date))

    # In the store's own thread

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def _read(self, work: Work[T]) -> T:
        return await self._run(partial(self._reading, work))

    async def _write(self, work: Work[object]) -> None:
        await self._run(partial(self._writing, work))

    def _reading(self, work: Work[T]) -> T:
        try:
            return work(self._connection)
        except sqlite3.DatabaseError as error:
            if not is_the_files_fault(error):
                raise
            raise StoreReadError(self.path, str(error)) from error

    def _writing(self, work: Work[object]) -> None:
        try:
            self._write_held()
            self._transact(work)
        except StoreWriteError as error:
            self._hold(work, error)
            raise

    def _transact(self, work: Work[T]) -> T:
        try:
            with transaction(self._connection):
                return work(self._connection)
        except sqlite3.DatabaseError as error:
            if not is_the_files_fault(error):
                raise
            raise StoreWriteError(self.path, str(error)) from error

    def _write_held(self) -> None:
        if not self._held:
            return
        while self._held:
            work = self._held.popleft()
            try:
                self._transact(work)
            except StoreWriteError:
                self._held.appendleft(work)
                raise
        log.info("%s can be written again; nothing waits any more", self.path)

    def _hold(self, work: Work[object], error: StoreWriteError) -> None:
        if not self._held:
            log.warning("%s cannot be written (%s); writes are kept in memory and tried again", self.path, error.detail)
        self._held.append(work)
        if len(self._held) > MAX_HELD_WRITES:
            self._held.popleft()
            log.warning("%s cannot be written for so long that the oldest write is lost", self.path)

    def _close(self) -> None:
        try:
            self._write_held()
        except StoreWriteError as error:
            log.warning("%d writes are lost: %s", len(self._held), error)
        finally:
            self._connection.close()


def _queue_receipts(db: sqlite3.Connection, hub_url: str, receipts: tuple[SignedReceipt, ...], at: float) -> None:
    dropped = repos.queue_receipts(db, hub_url, receipts, at)
    if dropped > 0:
        log.warning("%d of the oldest receipts were dropped: too many wait for a hub", dropped)


def _close_late(executor: concurrent.futures.ThreadPoolExecutor, opening: Opening) -> None:
    """Opening was cancelled while its thread went on: close what it opened, in that thread."""
    if not opening.cancelled() and opening.exception() is None:
        connection, _ = opening.result()
        executor.submit(connection.close)
    executor.shutdown(wait=False)
