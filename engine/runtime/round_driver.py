"""Carries out what one round machine asks for: sends, the worker's freeze, numpy in a thread."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from engine.averaging.config import RoundConfig
from engine.averaging.effects import (
    Begun,
    Committed,
    Contribution,
    Discarded,
    Effect,
    Freeze,
    Ignored,
    Inspect,
    Missed,
    NeedParts,
    Outcome,
    PeerFault,
    Reduce,
    RoundMessage,
    RoundSetup,
    Send,
)
from engine.averaging.packing import Packer
from engine.averaging.partition import claim_fault
from engine.averaging.round import RoundMachine
from engine.core.clock import Clock
from engine.runtime.peers import PeerTable
from engine.runtime.work import Work
from engine.training.protocol import Frozen
from engine.transport.base import PeerId

log = logging.getLogger(__name__)

_NOTHING: Final = Contribution(samples=0, tokens=0, loss_sum=0.0)


class RoundTerms(Protocol):
    """What all rounds of a session have in common."""

    config: RoundConfig
    packer: Packer


class RoundDriver:
    """One round from its proposal to its end, as this peer sees it."""

    def __init__(
        self,
        me: PeerId,
        terms: RoundTerms,
        setup: RoundSetup,
        peers: PeerTable,
        line: Callable[[], tuple[float, float]],
        now: float,
    ) -> None:
        self.setup = setup
        self.started_at = now
        self.members = 0
        self.frozen = False
        self._freeze_asked = False
        self._me = me
        self._config = terms.config
        self._packer = terms.packer
        self._line = line  # bytes a second up and down, 0.0 where not measured
        self._samples = 0
        self._peers = peers
        self._machine = RoundMachine(me, terms.config, setup, now)

    def next_deadline(self) -> float | None:
        """When `on_timer` is due, in the monotonic clock's seconds."""
        return self._machine.next_deadline()

    def on_timer(self, now: float) -> None:
        self._machine.on_timer(now)

    def on_message(self, peer: PeerId, message: RoundMessage, now: float) -> None:
        self._machine.on_message(peer, message, now)

    def on_peer_lost(self, peer: PeerId, now: float) -> None:
        self._machine.on_peer_lost(peer, now)

    def on_frozen(self, totals: Frozen, now: float) -> None:
        """The worker's gradients are final; those of another step are worth nothing here."""
        if self.frozen or not self._freeze_asked:
            return
        self.frozen, line = True, self._line()
        mine = Contribution(totals.samples, totals.tokens, totals.loss_sum, *line)
        fault = claim_fault(mine, self._config)
        if fault:
            log.info("what the worker accumulated cannot be used: %s", fault)
        if fault or totals.global_step != self.setup.global_step:
            mine = replace(_NOTHING, upload_bytes_per_second=line[0], download_bytes_per_second=line[1])
        self._samples = mine.samples
        self._packer.begin(line[0])
        self._machine.on_frozen(mine, now)

    @property
    def yields(self) -> bool:
        """Whether this computer leads, and has not begun."""
        return self._machine.leads and not self._machine.roll

    def abort(self, reason: str, now: float) -> None:
        """Take no further part."""
        self._machine.abort(reason, now)

    async def advance(self, work: Work, clock: Clock) -> Outcome | None:
        """Carry out effects until there are none; the round's outcome once it has one."""
        while True:
            if self._freeze_asked and not self.frozen and not work.responds(clock.monotonic()):
                # Nobody will answer the freeze: take part with nothing, and so stay in step with the others.
                self.frozen = True
                self._packer.begin(0.0)
                self._machine.on_frozen(_NOTHING, clock.monotonic())
            effects = self._machine.take_effects()
            if not effects:
                return None
            for effect in effects:
                if isinstance(effect, Committed | Discarded | Missed):
                    self._packer.end(effect)
                    return effect
                await self._perform(effect, work, clock)

    async def _perform(self, effect: Effect, work: Work, clock: Clock) -> None:
        now = clock.monotonic()
        match effect:
            case Send():
                self._send(effect, now)
            case Freeze():
                self._freeze_asked = True
                if work.carried is not None:
                    self.on_frozen(work.carried, now)
                elif work.responds(now):
                    await work.freeze(now)
            case Begun(roll=roll):
                self.members = len(roll)
                ready = self._peers.ready()
                for member in roll:
                    if member.peer_id != self._me and member.peer_id not in ready:
                        self._machine.on_peer_lost(member.peer_id, now)
            case NeedParts():
                packed = await asyncio.to_thread(self._packer.parts, work.gradients(), self._samples, effect)
                self._machine.on_parts(packed.payloads, clock.monotonic(), packed.codecs)
            case Reduce() | Inspect():
                done = await asyncio.to_thread(self._packer.perform, effect)
                self._machine.on_job_done(done, clock.monotonic())
            case PeerFault(peer=peer, what=what):
                log.info("%s broke the round's rules: %s", peer[:8], what)
            case Ignored(peer=peer, what=what):
                log.debug("ignored from %s: %s", peer[:8], what)

    def _send(self, effect: Send, now: float) -> None:
        if effect.peer in self._peers.ready():
            self._peers.send(effect.peer, effect.message)
        else:
            self._machine.on_peer_lost(effect.peer, now)
