"""What the demonstration sees of its volunteers, and the figures that it ends with."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from engine.contract import commands as c
from engine.contract.errors import ControlError
from engine.contract.snapshot import EngineState, RoundInfo, SessionState
from engine.contract.words import status_sentence
from engine.control.client import ControlClient, EngineGone
from engine.runtime.status_text import number
from engine.store.rows import RoundRow

MAX_ROUNDS: Final = 1000
SETTLE_POLL_SECONDS: Final = 0.5


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON line at the end. Losses are held-out, in nats per byte; tokens are of committed rounds."""

    peers: int
    rounds_committed: int
    rounds_discarded: int
    loss_first: float | None
    loss_last: float | None
    weights_identical: bool
    tokens: int
    verified_tokens: int


@dataclass(slots=True)
class Watched:
    """One volunteer: its link and what it has shown so far."""

    name: str
    client: ControlClient
    latest: EngineState | None = None
    most_peers: int = 0
    hashes: dict[int, str] = field(default_factory=dict)  # weights by step
    losses: dict[int, float] = field(default_factory=dict)  # held-out by step
    first_round: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self) -> None:
        """Until the link ends."""
        async for state in self.client.states():
            self.latest = state
            session = state.session
            if session is None:
                continue
            self.most_peers = max(self.most_peers, len(session.peers))
            if session.last_round is not None and session.last_round.committed:
                self._note_round(session.last_round)
            if session.held_out_loss is not None and session.global_step == 0:
                self.losses[0] = session.held_out_loss
            for point in state.curve[-20:]:
                if point.held_out_loss is not None:
                    self.losses[point.global_step] = point.held_out_loss

    def _note_round(self, info: RoundInfo) -> None:
        self.hashes[info.global_step] = info.weights_hash
        self.first_round.set()

    @property
    def session(self) -> SessionState | None:
        """The latest of its project."""
        return self.latest.session if self.latest is not None else None

    def line(self) -> str:
        """One line of progress."""
        if self.latest is None:
            return f"{self.name:<12} starting"
        session = self.session
        if session is None:
            return f"{self.name:<12} {status_sentence(self.latest.status, None)}"
        return (
            f"{self.name:<12} step {session.global_step:>4}  loss {number(session.train_loss, 'nats', 2):<11}"
            f" {number(session.my_tokens_per_second, 'tokens/s'):<16} {len(session.peers)} peers"
            f"  {status_sentence(self.latest.status, session)}"
        )

    async def rounds(self) -> list[RoundRow]:
        """All rounds that ended there, from its store."""
        with contextlib.suppress(ControlError, EngineGone, TimeoutError):
            result = await self.client.request(c.GetRounds(limit=MAX_ROUNDS))
            return msgspec.convert(result, list[RoundRow])
        return []


async def settle(volunteers: list[Watched], seconds: float) -> None:
    """Pause everybody, then wait until no round runs and all receipts are credited, or time is up."""
    for volunteer in volunteers:
        with contextlib.suppress(ControlError, EngineGone, TimeoutError):
            await volunteer.client.request(c.Pause())
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                if await _is_settled(volunteers):
                    return
                await asyncio.sleep(SETTLE_POLL_SECONDS)


async def _is_settled(volunteers: list[Watched]) -> bool:
    summary = await summarise(volunteers)
    steps = {volunteer.session.global_step for volunteer in volunteers if volunteer.session is not None}
    return summary.verified_tokens == summary.tokens and len(steps) == 1


async def summarise(volunteers: list[Watched]) -> Summary:
    """The figures now, from what each volunteer stored and what the hub credits."""
    committed: dict[str, RoundRow] = {}
    discarded: set[str] = set()
    for volunteer in volunteers:
        for row in await volunteer.rounds():
            if row.committed:
                committed[row.round_id] = row
            else:
                discarded.add(row.round_id)
    losses: dict[int, float] = {}
    for volunteer in volunteers:
        losses.update(volunteer.losses)
    steps = sorted(losses)
    return Summary(
        peers=1 + max((volunteer.most_peers for volunteer in volunteers), default=0),
        rounds_committed=len(committed),
        rounds_discarded=len(discarded - committed.keys()),
        loss_first=round(losses[steps[0]], 4) if steps else None,
        loss_last=round(losses[steps[-1]], 4) if steps else None,
        weights_identical=_identical(volunteers),
        tokens=sum(row.tokens for row in committed.values()),
        verified_tokens=_verified(volunteers),
    )


def _identical(volunteers: list[Watched]) -> bool:
    """Whether all who saw a step's weights saw the same, at every step, and all stand at the same ones now."""
    seen: dict[int, set[str]] = {}
    for volunteer in volunteers:
        for step, digest in volunteer.hashes.items():
            seen.setdefault(step, set()).add(digest)
    now = {
        (volunteer.session.global_step, volunteer.session.weights_hash)
        for volunteer in volunteers
        if volunteer.session is not None
    }
    return bool(seen) and all(len(digests) == 1 for digests in seen.values()) and len(now) == 1


def _verified(volunteers: list[Watched]) -> int:
    """What the hub credits in all, by the newest board that a volunteer fetched."""
    boards: list[Any] = [volunteer.latest.leaderboard for volunteer in volunteers if volunteer.latest is not None]
    fresh = max(boards, key=lambda board: board.fetched_at or 0.0, default=None)
    return sum(row.verified_tokens for row in fresh.rows) if fresh is not None else 0
