"""Carries out what one round machine asks for: sends, the worker's freeze, numpy in a thread."""

import asyncio
import logging

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
    Inspected,
    Missed,
    NeedParts,
    Outcome,
    PeerFault,
    Reduce,
    Reduced,
    RoundMessage,
    RoundSetup,
    Send,
)
from engine.averaging.kernels import perform
from engine.averaging.round import RoundMachine
from engine.runtime.peers import PeerTable
from engine.runtime.trainer import Trainer
from engine.training.protocol import Frozen
from engine.transport.base import PeerId

log = logging.getLogger(__name__)


class RoundDriver:
    """One round from its proposal to its end, as this peer sees it."""

    def __init__(self, me: PeerId, config: RoundConfig, setup: RoundSetup, peers: PeerTable, now: float) -> None:
        self.setup = setup
        self.started_at = now
        self.members = 0
        self.frozen = False
        self._freeze_asked = False
        self._me = me
        self._peers = peers
        self._machine = RoundMachine(me, config, setup, now)

    def next_deadline(self) -> float | None:
        """When `on_timer` is due, in the monotonic clock's seconds."""
        return self._machine.next_deadline()

    def on_timer(self, now: float) -> None:
        self._machine.on_timer(now)

    def on_message(self, peer: PeerId, message: RoundMessage, now: float) -> None:
        self._machine.on_message(peer, message, now)

    def on_peer_lost(self, peer: PeerId, now: float) -> None:
        self._machine.on_peer_lost(peer, now)

    def on_frozen(self, totals: Frozen, upload_bytes_per_second: float, now: float) -> None:
        """The worker's gradients are final; those of another step are worth nothing here."""
        if self.frozen or not self._freeze_asked:
            return  # the answer to an earlier round's freeze came first, and served
        self.frozen = True
        usable = totals.global_step == self.setup.global_step
        self._machine.on_frozen(
            Contribution(
                samples=totals.samples if usable else 0,
                tokens=totals.tokens if usable else 0,
                loss_sum=totals.loss_sum if usable else 0.0,
                upload_bytes_per_second=upload_bytes_per_second,
            ),
            now,
        )

    @property
    def yields(self) -> bool:
        """Whether this computer leads, and has not begun."""
        return self._machine.leads and not self._machine.roll

    def abort(self, reason: str, now: float) -> None:
        """Take no further part."""
        self._machine.abort(reason, now)

    async def advance(self, trainer: Trainer, worker_ready: bool, now: float) -> Outcome | None:
        """Carry out effects until there are none; the round's outcome once it has one."""
        while effects := self._machine.take_effects():
            for effect in effects:
                if isinstance(effect, Committed | Discarded | Missed):
                    return effect
                await self._perform(effect, trainer, now)
            if self._freeze_asked and not self.frozen and not worker_ready:
                # Nobody will answer the freeze: take part with nothing, and so stay in step with the others.
                self.frozen = True
                self._machine.on_frozen(Contribution(samples=0, tokens=0, loss_sum=0.0), now)
        return None

    async def _perform(self, effect: Effect, trainer: Trainer, now: float) -> None:
        match effect:
            case Send():
                self._send(effect, now)
            case Freeze():
                self._freeze_asked = True
                await trainer.freeze()
            case Begun(roll=roll):
                self.members = len(roll)
                ready = self._peers.ready()
                for member in roll:
                    if member.peer_id != self._me and member.peer_id not in ready:
                        self._machine.on_peer_lost(member.peer_id, now)
            case NeedParts(slices=slices):
                gradients = trainer.gradients()
                self._machine.on_parts([gradients[start:stop].tobytes() for start, stop in slices], now)
            case Reduce() | Inspect():
                done = await asyncio.to_thread(perform, effect)
                if isinstance(done, Reduced):
                    self._machine.on_reduced(done, now)
                elif isinstance(done, Inspected):
                    self._machine.on_inspected(done, now)
            case PeerFault(peer=peer, what=what):
                log.info("%s broke the round's rules: %s", peer[:8], what)
            case Ignored(peer=peer, what=what):
                log.debug("ignored from %s: %s", peer[:8], what)

    def _send(self, effect: Send, now: float) -> None:
        if effect.peer in self._peers.ready():
            self._peers.send(effect.peer, effect.message)
        else:
            self._machine.on_peer_lost(effect.peer, now)
