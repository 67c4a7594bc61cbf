"""The engine's dealings with its hub beside the room: catalogue, leaderboard, receipts, display name.

One task asks in turn, backs off while the hub is away, and can be woken. What the hub says is verified in `HubClient`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import aiohttp

from engine.contract.snapshot import HubStatus, Leaderboard, LeaderboardRow
from engine.core.backoff import Backoff
from engine.core.clock import Clock
from engine.hub.client import Catalogue, HubClient
from engine.hub.errors import HubError, HubNonsense, HubRefused
from engine.identity.keys import Identity
from engine.store.errors import StoreError
from engine.store.service import Store

log = logging.getLogger(__name__)

CATALOGUE_SECONDS: Final = 15.0
LEADERBOARD_SECONDS: Final = 5.0
RECEIPTS_SECONDS: Final = 2.0
RECEIPTS_A_TURN: Final = 200
PROBLEM_AFTER_SECONDS: Final = 10.0
"""A hub that is away for less is not worth a card."""


class HubListener(Protocol):
    """The supervisor's side; returns at once."""

    def on_hub_status(self, status: HubStatus) -> None:
        """Reached, or not and why."""

    def on_catalogue(self, catalogue: Catalogue) -> None:
        """Fresh from the hub."""

    def on_leaderboard(self, board: Leaderboard) -> None:
        """Fresh from the hub."""

    def on_hub_trouble(self, error: HubError, lasting_seconds: float) -> None:
        """It does not answer, or not as a hub does."""

    def on_hub_mended(self) -> None:
        """It answers again."""


@dataclass(frozen=True, slots=True)
class HubSyncParts:
    """What a `HubSync` works with."""

    identity: Identity
    store: Store
    clock: Clock
    listener: HubListener
    session: aiohttp.ClientSession


class HubSync:
    """Keeps one hub and this computer informed of each other. A change of hub means a new one."""

    def __init__(self, parts: HubSyncParts, url: str) -> None:
        self._parts = parts
        self._url = url
        self._client = HubClient(url, parts.identity, parts.session)
        self._wake = asyncio.Event()
        self._backoff = Backoff(first_seconds=1.0, longest_seconds=30.0)
        self._steps: dict[str, tuple[float, Callable[[], Awaitable[None]]]] = {
            "catalogue": (CATALOGUE_SECONDS, self.refresh_catalogue),
            "name": (CATALOGUE_SECONDS, self._send_name),
            "receipts": (RECEIPTS_SECONDS, self._send_receipts),
            "leaderboard": (LEADERBOARD_SECONDS, self._fetch_leaderboard),
        }
        self._due = dict.fromkeys(self._steps, 0.0)
        self._project_id: str | None = None
        self._name = ""
        self._failing_since: float | None = None

    @property
    def client(self) -> HubClient:
        """For calls that a command makes."""
        return self._client

    def want_board(self, project_id: str | None) -> None:
        """Whose leaderboard to follow."""
        if project_id != self._project_id:
            self._project_id = project_id
            self.wake("leaderboard")

    def want_name(self, name: str) -> None:
        """The display name that the hub should know."""
        self._name = name
        self.wake("name")

    def wake(self, *what: str) -> None:
        """Do these now, or once the hub is back; with none given everything at once, and the backoff is forgotten."""
        for name in what or tuple(self._due):
            self._due[name] = 0.0
        if not what:
            self._backoff.reset()
        if not what or self._failing_since is None:
            self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._wake.clear()
            wait = await self._turn()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()

    async def _turn(self) -> float:
        """Do what is due; seconds until something is due again."""
        now = self._parts.clock.monotonic()
        for name, (every_seconds, step) in self._steps.items():
            if self._due[name] > now:
                continue
            self._due[name] = now + every_seconds  # first, so that a wake meanwhile is not forgotten
            try:
                await step()
            except HubRefused as error:  # this one thing; the rest may well be welcome
                log.info("the hub refused: %s", error)
            except HubError as error:
                self._due[name] = 0.0
                return self._failed(error)
            except StoreError as error:
                log.info("receipts wait: %s", error)  # the store has told the supervisor by its other writes
        self._succeeded()
        return max(0.1, min(self._due.values()) - self._parts.clock.monotonic())

    def _failed(self, error: HubError) -> float:
        now = self._parts.clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            log.info("the hub cannot be used: %s", error)
        wait = self._backoff.next_seconds()
        clock_now = self._parts.clock.now()
        self._parts.listener.on_hub_status(
            HubStatus(
                url=self._url, connected=False, since=clock_now, detail=error.detail, next_try_at=clock_now + wait
            )
        )
        lasting = now - self._failing_since
        if lasting >= PROBLEM_AFTER_SECONDS or isinstance(error, HubNonsense):
            self._parts.listener.on_hub_trouble(error, lasting)
        return wait

    def _succeeded(self) -> None:
        if self._failing_since is not None:
            log.info("the hub answers again")
            self._parts.listener.on_hub_mended()
        self._failing_since = None
        self._backoff.reset()
        self._parts.listener.on_hub_status(HubStatus(url=self._url, connected=True, since=self._parts.clock.now()))

    async def refresh_catalogue(self) -> None:
        """Ask for the catalogue now.

        Raises:
            HubError
        """
        self._parts.listener.on_catalogue(await self._client.projects())

    async def _fetch_leaderboard(self) -> None:
        project_id = self._project_id
        if project_id is None:
            return
        board = await self._client.leaderboard(project_id)
        me = self._parts.identity.peer_id
        rows = tuple(
            LeaderboardRow(
                rank=rank,
                peer_id=row.peer_id,
                name=row.name,
                verified_tokens=row.verified_tokens,
                pending_tokens=row.pending_tokens,
                rejected_tokens=row.rejected_tokens,
                rounds=row.rounds,
                me=row.peer_id == me,
            )
            for rank, row in enumerate(board.rows, start=1)
        )
        self._parts.listener.on_leaderboard(
            Leaderboard(project_id=project_id, rows=rows, fetched_at=self._parts.clock.now())
        )

    async def _send_receipts(self) -> None:
        store = self._parts.store
        while queued := await store.take_receipts(self._url, RECEIPTS_A_TURN):
            results = await self._client.post_receipts([row.receipt for row in queued])
            done = [row.receipt_id for row, result in zip(queued, results, strict=True) if result.status != "rejected"]
            refused = {
                row.receipt_id: result.reason
                for row, result in zip(queued, results, strict=True)
                if result.status == "rejected"
            }
            await store.mark_delivered(done)
            if refused:
                log.info("the hub refused %d receipts: %s", len(refused), sorted(set(refused.values())))
                await store.mark_rejected(refused, self._parts.clock.now())
            if done:
                self.wake("leaderboard")

    async def _send_name(self) -> None:
        store, name = self._parts.store, self._name
        sent = await store.name_sent(self._url)
        if name == (sent or ""):
            return
        now = self._parts.clock.now()
        await self._client.set_name(name, now)
        await store.mark_name_sent(self._url, name, now)
