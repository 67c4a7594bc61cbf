"""A link's further associations: opened while there is bulk that they would speed up, introduced over the link itself.

The link's first association proved who is at its other end; what travels in its control channel is as good as signed,
so the fingerprints in a lane's offer and answer need no signature of their own, and no hub takes part.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Final, Protocol

from engine.signaling.messages import IceServer, SignalingError
from engine.signaling.sdp import Transport, parse_sdp
from engine.transport.association import BULK, Association, AssociationOwner
from engine.transport.config import WebRtcConfig
from engine.wire.budget import Budget
from engine.wire.errors import WireError
from engine.wire.frames import LaneSignal, LaneStep
from engine.wire.limits import MAX_LANES

log = logging.getLogger(__name__)

FIRST_LANE_BYTES: Final = 256 * 1024
"""So much bulk in waiting is worth a lane of its own, away from control."""
MORE_LANE_BYTES: Final = 512 * 1024
STARVED_SHARE: Final = 0.15
"""Another lane is worth it when for this share of the time only room in a lane was missing."""
MAX_LATE_SECONDS: Final = 0.010
"""Where the event loop is later than this, a lane would find no time to be used."""
JUDGE_SECONDS: Final = 0.5
HELPED: Final = 1.05
"""A rate that grew by this factor since the last lane was opened."""
MAX_PATIENCE: Final = 32.0
"""Times JUDGE_SECONDS: the longest wait after lanes that did not help."""
RETRY_SECONDS: Final = 10.0
"""After a lane that did not come about."""
OFFERS_PER_SECOND: Final = 0.2
OFFERS_AT_ONCE_SECONDS: Final = 200.0
"""A peer may offer this many seconds' worth of lanes at once."""
_LAST_NUMBER: Final = 2**16 - 1


@dataclass(frozen=True, slots=True)
class Demand:
    """What a link has to send."""

    queued_bytes: int
    starved_seconds: float  # since the last look, in which only room in a lane was missing
    sent_bytes: int  # since the link came up
    late_seconds: float  # how late this computer's event loop is


class LanesOwner(AssociationOwner, Protocol):
    """What the lanes need of their link."""

    def lane_is_made(self, association: Association) -> None: ...

    def lane_is_open(self, association: Association) -> None: ...

    def lane_is_closed(self, association: Association) -> None: ...

    def lane_is_gone(self, association: Association) -> None: ...

    def send_signal(self, signal: LaneSignal) -> None: ...


class Lanes:
    """The further lanes of one link, from its coming up to its end. `close` before the link forgets it."""

    def __init__(
        self,
        owner: LanesOwner,
        config: WebRtcConfig,
        servers: tuple[IceServer, ...],
        most: int,
        *,
        odd: bool,
        monotonic: Callable[[], float],
    ) -> None:
        self._owner = owner
        self._config = config
        self._servers = servers
        self._most = min(most, MAX_LANES) - 1
        self._monotonic = monotonic
        self._next = 1 if odd else 2
        self._lanes: dict[int, Association] = {}
        self._answers: dict[int, asyncio.Future[Transport]] = {}  # of lanes that this end offered
        self._ends: dict[int, asyncio.Future[None]] = {}
        self._open: set[int] = set()
        self._mine: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._retry_at = 0.0
        self._considered_at = monotonic()
        self._judge_at = self._judged_at = self._considered_at
        self._judged_bytes, self._judged_rate = 0, 0.0
        self._patience = 1.0
        self._idle_since: float | None = None
        self._offers = Budget(OFFERS_PER_SECOND, OFFERS_AT_ONCE_SECONDS, self._considered_at)

    @property
    def open_count(self) -> int:
        """Further lanes that carry."""
        return len(self._open)

    def associations(self) -> list[Association]:
        """All that exist, open or not."""
        return list(self._lanes.values())

    def consider(self, demand: Demand, now: float) -> None:
        """Open a lane when one would help. Call it at regular times while there is bulk."""
        seconds, self._considered_at = now - self._considered_at, now
        starved = (
            demand.starved_seconds > STARVED_SHARE * seconds
            and demand.queued_bytes >= MORE_LANE_BYTES
            and demand.late_seconds < MAX_LATE_SECONDS
        )
        if len(self._lanes) > len(self._open) or len(self._lanes) >= self._most:
            return
        if not self._lanes:
            if demand.queued_bytes >= FIRST_LANE_BYTES and now >= self._retry_at:
                self._open_more(2)
        elif starved and now >= max(self._retry_at, self._judge_at):
            self._judge(demand.sent_bytes, now)

    def _judge(self, sent_bytes: int, now: float) -> None:
        """More lanes if the last ones helped, else one after a while: what is short may be this computer's time."""
        rate = (sent_bytes - self._judged_bytes) / max(now - self._judged_at, 1e-3)
        helped = rate > self._judged_rate * HELPED
        self._patience = 1.0 if helped else min(2.0 * self._patience, MAX_PATIENCE)
        self._judged_bytes, self._judged_at, self._judged_rate = sent_bytes, now, rate
        self._judge_at = now + JUDGE_SECONDS * self._patience
        self._open_more(max(1, len(self._open) // 2) if helped else 1)

    def _open_more(self, count: int) -> None:
        for _ in range(min(count, self._most - len(self._lanes))):
            if self._next > _LAST_NUMBER:
                return
            number, self._next = self._next, self._next + 2
            self._mine.add(number)
            self._spawn(self._offer(self._add(number)))

    def rest(self, now: float, *, busy: bool) -> None:
        """Close this end's lanes after a long time without bulk."""
        if busy:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        elif now - self._idle_since > self._config.lane_idle_seconds:
            for number in self._mine & self._open:
                self._end(number)

    def on_signal(self, signal: LaneSignal) -> None:
        """The peer offers, answers or closes a lane.

        Raises:
            WireError: a lane or description that makes no sense, or offers without end.
        """
        if signal.step is LaneStep.CLOSING:
            self._end(signal.lane)
            return
        try:
            transport = parse_sdp(signal.sdp)
        except SignalingError as error:
            raise WireError(f"lane {signal.lane}: {error}") from error
        if signal.step is LaneStep.ANSWER:
            answer = self._answers.get(signal.lane)
            if answer is not None and not answer.done():
                answer.set_result(transport)
            return
        if signal.lane % 2 == self._next % 2 or signal.lane in self._lanes:
            raise WireError(f"lane {signal.lane} is not the peer's to offer")
        if not self._offers.spend(1.0, self._monotonic()):
            raise WireError("lanes were offered without end")
        if len(self._lanes) >= self._most:
            self._owner.send_signal(LaneSignal(LaneStep.CLOSING, signal.lane))
            return
        self._spawn(self._answer(self._add(signal.lane), transport))

    def on_open(self, association: Association) -> None:
        """A lane's channel can be sent on."""
        if association.number in self._lanes:
            self._open.add(association.number)
            self._owner.lane_is_open(association)

    def on_ended(self, association: Association) -> None:
        """A lane broke."""
        self._end(association.number)

    async def close(self) -> None:
        """End and dispose of all."""
        for number in list(self._ends):
            self._end(number)
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _add(self, number: int) -> Association:
        self._ends[number] = asyncio.get_running_loop().create_future()
        association = Association(number, (BULK,), self._owner, self._config, self._servers)
        self._lanes[number] = association
        self._owner.lane_is_made(association)
        return association

    def _end(self, number: int) -> None:
        end = self._ends.get(number)
        if end is not None and not end.done():
            end.set_result(None)

    async def _offer(self, association: Association) -> None:
        number = association.number
        answer = self._answers[number] = asyncio.get_running_loop().create_future()

        async def connect() -> None:
            self._owner.send_signal(LaneSignal(LaneStep.OFFER, number, await association.offer()))
            await association.use_answer(await answer)

        try:
            await self._carry(association, connect)
        finally:
            del self._answers[number]

    async def _answer(self, association: Association, offer: Transport) -> None:
        async def connect() -> None:
            sdp = await association.answer(offer)
            self._owner.send_signal(LaneSignal(LaneStep.ANSWER, association.number, sdp))

        await self._carry(association, connect)

    async def _carry(self, association: Association, connect: Callable[[], Coroutine[None, None, None]]) -> None:
        """Connect and wait for the end, by whoever finds a reason; then clean up."""
        end = self._ends[association.number]

        async def establish() -> None:
            async with asyncio.timeout(self._config.connect_timeout_seconds):
                await connect()
                await association.opened.wait()

        body = asyncio.create_task(establish())
        try:
            await asyncio.wait({body, end}, return_when=asyncio.FIRST_COMPLETED)
            if association.opened.is_set():
                await end
        finally:
            body.cancel()
            await self._clean_up(association, body)

    async def _clean_up(self, association: Association, body: asyncio.Task[None]) -> None:
        number = association.number
        if number in self._open:
            self._open.discard(number)
        else:
            self._retry_at = self._monotonic() + RETRY_SECONDS
        self._mine.discard(number)
        self._owner.lane_is_closed(association)
        self._owner.send_signal(LaneSignal(LaneStep.CLOSING, number))
        await asyncio.wait({body})
        await association.dispose()
        del self._lanes[number], self._ends[number]
        self._owner.lane_is_gone(association)
        # Border: whatever aiortc raises in one lane must not end its link.
        if not body.cancelled() and (error := body.exception()) is not None:
            log.info("lane %d did not come about: %r", number, error)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
