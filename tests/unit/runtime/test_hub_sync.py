"""The engine's dealings with its hub: what is due is asked, failures are waited out, nothing handed in is lost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from engine.contract.snapshot import HubStatus, Leaderboard
from engine.core.clock import ManualClock
from engine.hub.client import Catalogue
from engine.hub.errors import HubError, HubNonsense, HubRefused, HubUnreachable
from engine.hub.protocol import Board, BoardEntry, NameStored, ReceiptResult
from engine.ledger.receipts import SignedReceipt
from engine.ledger.signing import sign_receipt
from engine.runtime.hub_sync import (
    CATALOGUE_SECONDS,
    PROBLEM_AFTER_SECONDS,
    RECEIPTS_A_TURN,
    RECEIPTS_SECONDS,
    HubSync,
    HubSyncParts,
)
from engine.store.service import Store, open_store
from tests.helpers.hub_samples import identity, receipt

URL = "http://127.0.0.1:9"
ANN, BEN = identity(1), identity(2)
PROJECT = "ab" * 32
AWAY = HubUnreachable(URL, "connection refused")


@dataclass
class ToyHub:
    """In place of `HubClient`: answers from memory, or fails as told."""

    calls: list[str] = field(default_factory=list)
    down: HubError | None = None
    refuses: dict[str, HubError] = field(default_factory=dict)
    receipts: list[SignedReceipt] = field(default_factory=list)
    verdict: Callable[[SignedReceipt], ReceiptResult] = lambda _: ReceiptResult(status="stored")
    during: Callable[[str], None] = lambda _: None
    names: list[str] = field(default_factory=list)

    def _call(self, what: str) -> None:
        self.calls.append(what)
        self.during(what)
        error = self.down or self.refuses.get(what)
        if error is not None:
            raise error

    async def projects(self) -> Catalogue:
        self._call("catalogue")
        return Catalogue((), ())

    async def leaderboard(self, project_id: str) -> Board:
        self._call("leaderboard")
        rows = tuple(
            BoardEntry(
                peer_id=who.peer_id, name="", verified_tokens=9 - n, pending_tokens=0, rejected_tokens=0, rounds=1
            )
            for n, who in enumerate((BEN, ANN))
        )
        return Board(project_id=project_id, rows=rows, peers_total=2, verified_tokens_total=17)

    async def post_receipts(self, receipts: Sequence[SignedReceipt]) -> tuple[ReceiptResult, ...]:
        self._call("receipts")
        self.receipts += receipts
        return tuple(self.verdict(signed) for signed in receipts)

    async def set_name(self, name: str, at: float) -> NameStored:
        self._call("name")
        self.names.append(name)
        return NameStored(status="stored")


@dataclass
class Heard:
    """A `HubListener` that keeps everything."""

    news: asyncio.Event = field(default_factory=asyncio.Event)
    statuses: list[HubStatus] = field(default_factory=list)
    catalogues: int = 0
    boards: list[Leaderboard] = field(default_factory=list)
    troubles: list[tuple[str, float]] = field(default_factory=list)
    mended: int = 0

    def _tell(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    def on_hub_status(self, status: HubStatus) -> None:
        self.statuses.append(status)
        self._tell()

    def on_catalogue(self, catalogue: Catalogue) -> None:
        self.catalogues += 1
        self._tell()

    def on_leaderboard(self, board: Leaderboard) -> None:
        self.boards.append(board)
        self._tell()

    def on_hub_trouble(self, error: HubError, lasting_seconds: float) -> None:
        self.troubles.append((error.detail, lasting_seconds))
        self._tell()

    def on_hub_mended(self) -> None:
        self.mended += 1
        self._tell()


class Bench:
    """A sync that runs by hand: each turn is asked for, so no test waits for the hub's pace."""

    def __init__(self, store: Store, http: aiohttp.ClientSession) -> None:
        self.store, self.hub, self.heard, self.clock = store, ToyHub(), Heard(), ManualClock()
        self.sync = HubSync(HubSyncParts(ANN, store, self.clock, self.heard, http), URL)
        self.sync._client = self.hub  # type: ignore[assignment]

    async def turns(self, count: int = 1) -> None:
        """Run until so many more statuses were told."""
        wanted = len(self.heard.statuses) + count
        task = asyncio.create_task(self.sync.run())
        try:
            async with asyncio.timeout(10):
                while len(self.heard.statuses) < wanted:
                    await self.heard.news.wait()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def one_turn(self) -> float:
        """What is due at this moment, without forgetting what is not; the wait that follows."""
        return await self.sync._turn()

    async def queue(self, *numbers: int) -> list[SignedReceipt]:
        made = [
            sign_receipt(receipt(ANN, BEN, [ANN, BEN], round_id=number.to_bytes(16, "big")), ANN) for number in numbers
        ]
        await self.store.queue_receipts(URL, made, 1.0)
        return made


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    opened = await open_store(tmp_path / "store.db", 0.0)
    async with opened.store as store, aiohttp.ClientSession() as http:
        yield Bench(store, http)


async def test_at_first_everything_is_asked(bench: Bench) -> None:
    bench.sync.want_board(PROJECT)
    bench.sync.want_name("Ann")
    await bench.queue(1)
    await bench.turns()
    assert bench.hub.calls == ["catalogue", "name", "receipts", "leaderboard"]
    assert bench.heard.statuses[-1].connected
    (board,) = bench.heard.boards
    assert [(row.rank, row.peer_id, row.me) for row in board.rows] == [
        (1, BEN.peer_id, False),
        (2, ANN.peer_id, True),
    ]
    assert board.project_id == PROJECT
    assert await bench.store.name_sent(URL) == "Ann"


async def test_each_thing_has_its_own_pace(bench: Bench) -> None:
    await bench.one_turn()
    assert bench.hub.calls == ["catalogue"]  # no board wanted, no name to say, no receipts
    await bench.queue(1)
    assert await bench.one_turn() <= RECEIPTS_SECONDS
    assert bench.hub.calls == ["catalogue"]
    bench.clock.advance(RECEIPTS_SECONDS)
    await bench.one_turn()
    assert bench.hub.calls == ["catalogue", "receipts"]
    bench.clock.advance(CATALOGUE_SECONDS)
    await bench.one_turn()
    assert bench.hub.calls.count("catalogue") == 2
    assert bench.hub.names == []


async def test_a_name_is_said_once_and_can_be_taken_back(bench: Bench) -> None:
    for name in ("Ann", "Ann", "Anna", ""):
        bench.sync.want_name(name)
        await bench.one_turn()
    assert bench.hub.names == ["Ann", "Anna", ""]


async def test_waits_grow_while_the_hub_is_away_and_end_when_it_is_back(bench: Bench) -> None:
    bench.hub.down = AWAY
    waits = [await bench.one_turn() for _ in range(7)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    status = bench.heard.statuses[-1]
    assert (status.connected, status.detail) == (False, "connection refused")
    assert status.next_try_at == bench.clock.now() + 30.0
    bench.hub.down = None
    await bench.one_turn()
    assert bench.heard.statuses[-1].connected
    assert bench.heard.mended == 1
    bench.hub.down = AWAY
    bench.clock.advance(CATALOGUE_SECONDS)
    assert await bench.one_turn() == 1.0


async def test_trouble_is_told_when_it_lasts(bench: Bench) -> None:
    bench.hub.down = AWAY
    await bench.one_turn()
    bench.clock.advance(PROBLEM_AFTER_SECONDS - 1)
    await bench.one_turn()
    assert bench.heard.troubles == []
    bench.clock.advance(1)
    await bench.one_turn()
    assert bench.heard.troubles == [("connection refused", PROBLEM_AFTER_SECONDS)]


async def test_nonsense_is_told_at_once(bench: Bench) -> None:
    bench.hub.down = HubNonsense(URL, "not JSON")
    await bench.one_turn()
    assert bench.heard.troubles == [("not JSON", 0.0)]


async def test_while_it_is_away_news_of_ours_do_not_hurry_it_but_the_user_does(bench: Bench) -> None:
    bench.hub.down = AWAY
    await bench.one_turn()
    bench.sync.wake("receipts")
    bench.sync.want_name("Ann")
    assert not bench.sync._wake.is_set()
    bench.sync.wake()
    assert bench.sync._wake.is_set()
    assert await bench.one_turn() == 1.0  # the backoff begins anew


async def test_what_the_hub_refuses_does_not_stop_the_rest(bench: Bench) -> None:
    bench.sync.want_board(PROJECT)
    bench.sync.want_name("Ann")
    bench.hub.refuses = {"name": HubRefused(URL, "bad_name", "no"), "leaderboard": HubRefused(URL, "not_found", "")}
    await bench.queue(1)
    await bench.one_turn()
    assert bench.hub.calls == ["catalogue", "name", "receipts", "leaderboard"]
    assert bench.heard.statuses[-1].connected
    assert len(bench.hub.receipts) == 1
    assert bench.heard.troubles == []


async def test_receipts_wait_for_a_hub_that_was_away(bench: Bench) -> None:
    made = await bench.queue(1, 2, 3)
    bench.hub.refuses = {"receipts": AWAY}
    await bench.one_turn()
    await bench.one_turn()
    assert (await bench.store.outbox_counts()).waiting == 3
    bench.hub.refuses = {}
    await bench.one_turn()
    assert bench.hub.receipts == made
    assert (await bench.store.outbox_counts()).waiting == 0
    bench.clock.advance(RECEIPTS_SECONDS)
    await bench.one_turn()
    assert bench.hub.receipts == made  # once


async def test_all_that_waits_goes_in_one_turn_in_batches(bench: Bench) -> None:
    made = await bench.queue(*range(2 * RECEIPTS_A_TURN + 5))
    await bench.one_turn()
    assert bench.hub.calls.count("receipts") == 3
    assert bench.hub.receipts == made


async def test_a_refused_receipt_is_kept_with_its_reason_and_not_sent_again(bench: Bench) -> None:
    made = await bench.queue(1, 2, 3)

    def verdict(signed: SignedReceipt) -> ReceiptResult:
        if signed == made[1]:
            return ReceiptResult(status="rejected", reason="over_bounds")
        return ReceiptResult(status="duplicate" if signed == made[2] else "stored")

    bench.hub.verdict = verdict
    await bench.one_turn()
    counts = await bench.store.outbox_counts()
    assert (counts.waiting, counts.rejected) == (0, 1)
    assert await bench.store.rejected_receipts() == ((made[1], "over_bounds"),)
    bench.clock.advance(RECEIPTS_SECONDS)
    await bench.one_turn()
    assert bench.hub.receipts == made


async def test_delivered_receipts_ask_for_the_board(bench: Bench) -> None:
    bench.sync.want_board(PROJECT)
    await bench.one_turn()
    await bench.queue(1)
    bench.clock.advance(RECEIPTS_SECONDS)
    await bench.one_turn()
    assert bench.hub.calls[-2:] == ["receipts", "leaderboard"]


async def test_a_wake_in_the_middle_of_a_turn_is_not_forgotten(bench: Bench) -> None:
    bench.sync.want_name("Ann")

    def change_of_mind(what: str) -> None:
        if what == "name" and bench.sync._name == "Ann":
            bench.sync.want_name("Anna")

    bench.hub.during = change_of_mind
    await bench.turns(2)
    assert bench.hub.names == ["Ann", "Anna"]


async def test_another_project_has_another_board(bench: Bench) -> None:
    bench.sync.want_board(PROJECT)
    await bench.one_turn()
    bench.sync.want_board("cd" * 32)
    await bench.one_turn()
    bench.sync.want_board(None)
    await bench.one_turn()
    assert [board.project_id for board in bench.heard.boards] == [PROJECT, "cd" * 32]


async def test_it_ends_when_it_is_cancelled(bench: Bench) -> None:
    task = asyncio.create_task(bench.sync.run())
    while not bench.heard.statuses:
        await bench.heard.news.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
