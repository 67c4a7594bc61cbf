"""One volunteer of `make bench-averaging`: the engine's network and round machine, a gradient that is there at once.

`python -m tests.benchmarks.averager NUMBER COUNT EXCHANGE LENGTH [lab]`. Every line of output is JSON; "go" on standard
input lets it lead a round with all others, "end" ends it.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
import secrets
import sys
import time
from typing import Any, Final

import aiohttp
import numpy as np

from engine.averaging.config import Exchange, RoundConfig, deadlines_for
from engine.averaging.effects import Committed, Outcome, RoundMessage, RoundSetup
from engine.averaging.kernels import mean_of
from engine.averaging.packing import Packer
from engine.checkpoints.state import Vector
from engine.core.clock import SystemClock
from engine.core.tasks import TaskOwner
from engine.hub.client import HubClient
from engine.hub.errors import HubError
from engine.manifest.verify import open_signed
from engine.runtime.link_book import LinkBook
from engine.runtime.peers import PeerTable
from engine.runtime.round_driver import RoundDriver
from engine.signaling.client import HubRoom
from engine.training.protocol import Frozen
from engine.transport.base import LinkDown, LinkUp, NetworkEvent, Received
from engine.transport.webrtc import WebRtcConfig, WebRtcNetwork
from engine.wire.messages import Propose
from tests.helpers.hub_samples import sealed
from tests.lab.hub import HUB_URL
from tests.lab.peer import identity, told

SAMPLES: Final = 16
STEP: Final = 0
ROUND_TICK_SECONDS: Final = 0.05


class ReadyWork:
    """As `engine.runtime.work.Work`, with a worker that froze long ago."""

    def __init__(self, gradient: Vector) -> None:
        self._gradient = gradient
        self.carried = Frozen(global_step=STEP, samples=SAMPLES, tokens=SAMPLES * 8, loss_sum=1.0)

    def responds(self, now: float) -> bool:
        return True

    async def freeze(self, now: float) -> None:
        return

    def gradients(self) -> Vector:
        return self._gradient


class Terms:
    """See `RoundTerms`."""

    def __init__(self, me: str, config: RoundConfig) -> None:
        self.config = config
        self.packer = Packer(me, config)


class Averager:
    """Answers proposals, and leads when told to."""

    def __init__(self, number: int, network: WebRtcNetwork, peers: PeerTable, terms: Terms, gradient: Vector) -> None:
        self.me = identity(number).peer_id
        self._network = network
        self._peers = peers
        self._terms = terms
        self._work: Any = ReadyWork(gradient)
        self._clock = SystemClock()
        self._links = LinkBook(network, self._clock)
        self._round: RoundDriver | None = None
        self._began_at = 0.0
        self._lock = asyncio.Lock()

    async def follow(self) -> None:
        """Network events, in order."""
        async for event in self._network.events():
            async with self._lock:
                await self._handle(event)
                await self._advance()

    async def tick(self) -> None:
        """Deadlines."""
        while True:
            await asyncio.sleep(ROUND_TICK_SECONDS)
            async with self._lock:
                now = self._clock.monotonic()
                if self._round is not None and (at := self._round.next_deadline()) is not None and now >= at:
                    self._round.on_timer(now)
                await self._advance()

    async def lead(self) -> None:
        """Propose a round to all who are linked."""
        async with self._lock:
            setup = RoundSetup(secrets.token_bytes(16), self.me, STEP, bytes(32), self._peers.ready())
            self._begin(setup)
            await self._advance()

    async def _handle(self, event: NetworkEvent) -> None:
        now = self._clock.monotonic()
        match event:
            case LinkUp():
                self._links.on_up(event, now)
                self._peers.on_link_up(event, now)
            case LinkDown():
                self._links.on_down(event)
                self._peers.on_link_down(event)
                if self._round is not None:
                    self._round.on_peer_lost(event.peer_id, now)
                told("down", code=str(event.code), reason=event.reason)
            case Received():
                messages, ready = await self._peers.on_received(event, now)
                if ready:
                    told("ready", count=len(self._peers.ready()))
                for message in messages:
                    if isinstance(message, Propose):
                        self._begin(RoundSetup(message.round_id, event.peer_id, STEP, bytes(32)))
                    elif isinstance(message, RoundMessage) and self._is_in(message.round_id):
                        self._drive().on_message(event.peer_id, message, now)

    def _is_in(self, round_id: bytes) -> bool:
        return self._round is not None and round_id == self._round.setup.round_id

    def _drive(self) -> RoundDriver:
        if self._round is None:
            raise RuntimeError("no round")
        return self._round

    def _begin(self, setup: RoundSetup) -> None:
        self._began_at = self._clock.monotonic()
        line = self._links.figures
        self._round = RoundDriver(self.me, self._terms, setup, self._peers, line, self._began_at)

    async def _advance(self) -> None:
        if self._round is None:
            return
        outcome = await self._round.advance(self._work, self._clock)
        if outcome is not None:
            driver, self._round = self._round, None
            self._tell(driver, outcome)

    def _tell(self, driver: RoundDriver, outcome: Outcome) -> None:
        seconds = self._clock.monotonic() - self._began_at
        more: dict[str, Any] = {}
        if isinstance(outcome, Committed):
            digest = hashlib.sha256(mean_of(outcome.result).tobytes()).hexdigest()
            shares = [member.share for member in outcome.result.roll]
            more = {"digest": digest, "accepted": len(outcome.result.accepted), "shares": shares}
        else:
            more = {"reason": outcome.reason}
        traffic = self._network.traffic()
        told(
            "outcome",
            kind=type(outcome).__name__,
            seconds=round(seconds, 4),
            cpu=round(time.process_time(), 4),
            line=self._links.figures(),
            sent=traffic.sent_bytes + traffic.local_sent_bytes,
            **more,
        )


async def main(number: int, count: int, exchange: str, length: int, *, lab: bool) -> None:
    """Until told to end, or standard input ends."""
    me, publisher = identity(number), identity(1000)
    project = sealed(publisher, name="lab")
    verified = open_signed(project)
    config = RoundConfig(length, count, 1e6, 8, Exchange(exchange), deadlines_for(length))
    gradient = np.random.Generator(np.random.Philox(number)).standard_normal(length).astype(np.float32)
    async with aiohttp.ClientSession() as http, TaskOwner("averager", close_seconds=20.0) as tasks:
        with contextlib.suppress(HubError):  # another one published it first
            await HubClient(HUB_URL, publisher, http).publish(project)
        room = HubRoom(HUB_URL, verified.project_id, me, http)
        network = WebRtcNetwork(me, verified.manifest_hash, room, WebRtcConfig(loopback_only=not lab))
        peers = PeerTable(network, verified.manifest_hash, "bench", tasks)
        averager = Averager(number, network, peers, Terms(me.peer_id, config), gradient)
        told("start", pid=os.getpid())
        tasks.spawn("follow", averager.follow())
        tasks.spawn("tick", averager.tick())
        await room.start()
        await network.start()
        while (await asyncio.to_thread(sys.stdin.readline)).strip() == "go":
            await averager.lead()
        await network.close()
    told("end")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main(*map(int, sys.argv[1:3]), sys.argv[3], int(sys.argv[4]), lab="lab" in sys.argv[5:]))
