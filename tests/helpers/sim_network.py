"""Averaging rounds on a virtual clock: links with seeded delays, peers that die, freeze or slow down on cue.

Each `SimPeer` does what a session does with a `RoundMachine` and, in swarm mode, with a `SwarmView`: it is the
shortest whole host of the two. Nothing here waits, and the same seed gives the same history.
"""

import functools
import hashlib
import heapq
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.averaging import kernels
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
    RoundResult,
    RoundSetup,
    Send,
)
from engine.averaging.packing import Packer
from engine.averaging.round import RoundMachine
from engine.averaging.states import RoundState
from engine.checkpoints.state import Vector
from engine.swarm.progress import CatchUp, Lead, SwarmView
from engine.transport.base import PeerId
from engine.wire.messages import AveragedPart, Decline, Part, Progress, Propose

SETUP_HASH = bytes(32)


def peer_id(number: int) -> PeerId:
    """A well-formed id that sorts by its number."""
    return "abcdefghijklmnopqrstuvwxyz"[number] * 52


@dataclass(frozen=True)
class Fault:
    """What befalls `target` when its machine is first seen in `phase`, after `cut` more messages were sent."""

    kind: str  # "kill", "freeze" or "slow"
    target: int
    phase: RoundState
    cut: int = 0
    seconds: float = 1e9  # how long it stays frozen, or by how much its messages are late


@dataclass
class SimLink:
    """Per direction and lane, messages arrive in order."""

    delay: float
    last: dict[bool, float] = field(default_factory=dict)


class SimNetwork:
    """The clock, the links and the faults."""

    def __init__(
        self,
        count: int,
        config: RoundConfig,
        seed: int = 1,
        fault: Fault | None = None,
        heartbeat_seconds: float | None = 4.0,
        duplicates: float = 0.0,
    ) -> None:
        self.now = 0.0
        self.config = config
        self.fault = fault
        self.duplicates = duplicates
        self.heartbeat_seconds = heartbeat_seconds
        self.dice = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._links = {
            pair: SimLink(self.dice.uniform(0.002, 0.12)) for pair in itertools.permutations(range(count), 2)
        }
        self.down: set[frozenset[int]] = set()
        self.peers = [SimPeer(self, number) for number in range(count)]

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(when, self.now), next(self._numbers), what))

    def run(self, until: float = 1e8) -> None:
        """Until nothing is left to happen, or that moment."""
        while self._events and self._events[0][0] <= until:
            self.now, _, what = heapq.heappop(self._events)
            what()

    def number_of(self, peer: PeerId) -> int:
        return "abcdefghijklmnopqrstuvwxyz".index(peer[0])

    def send(self, source: "SimPeer", target: PeerId, message: RoundMessage | Progress) -> None:
        number = self.number_of(target)
        if frozenset((source.number, number)) in self.down:
            self.at(self.now, lambda: source.input(lambda: source.lost(number)))
            return
        link = self._links[source.number, number]
        bulk = isinstance(message, Part | AveragedPart)
        for _ in range(1 + (self.dice.random() < self.duplicates)):
            arrival = self.now + source.slowness + link.delay * self.dice.uniform(1.0, 1.5) * (3.0 if bulk else 1.0)
            arrival = max(arrival, link.last.get(bulk, 0.0))
            link.last[bulk] = arrival
            self.at(arrival, lambda: self._deliver(source.number, number, message))

    def _deliver(self, source: int, target: int, message: RoundMessage | Progress) -> None:
        if frozenset((source, target)) not in self.down:
            self.peers[target].input(lambda: self.peers[target].receive(source, message))

    def cut_link(self, a: int, b: int) -> None:
        """Both ends are told; what was under way is lost."""
        if frozenset((a, b)) in self.down:
            return
        self.down.add(frozenset((a, b)))
        for one, other in ((a, b), (b, a)):
            self.at(self.now, lambda one=one, other=other: self.peers[one].input(lambda: self.peers[one].lost(other)))

    def mend_link(self, a: int, b: int) -> None:
        self.down.discard(frozenset((a, b)))
        for one, other in ((a, b), (b, a)):
            self.at(self.now, lambda one=one, other=other: self.peers[one].input(lambda: self.peers[one].up(other)))

    def kill(self, number: int) -> None:
        """Others notice at different moments; what had left is still delivered until then."""
        self.peers[number].dead = True
        for other in range(len(self.peers)):
            if other != number:
                self.at(self.now + self.dice.uniform(0.2, 1.5), lambda other=other: self.cut_link(number, other))

    def freeze(self, number: int, seconds: float) -> None:
        """As by SIGSTOP: it does nothing, and what comes in waits."""
        peer = self.peers[number]
        peer.frozen_until = self.now + seconds
        if self.heartbeat_seconds is not None and seconds > self.heartbeat_seconds:
            for other in range(len(self.peers)):
                if other != number:
                    noticed = self.now + self.heartbeat_seconds + self.dice.uniform(0.0, 1.0)
                    self.at(noticed, lambda other=other: self.cut_link(number, other))
                    if seconds < 1e8:
                        back = max(noticed, peer.frozen_until) + 1.0
                        self.at(back, lambda other=other: self.mend_link(number, other))

    def strike(self, number: int) -> None:
        fault, self.fault = self.fault, None
        assert fault is not None
        if fault.kind == "kill":
            self.kill(number)
        elif fault.kind == "freeze":
            self.freeze(number, fault.seconds)
        else:
            self.peers[number].slowness = fault.seconds

    # One round.

    def start_round(self, leader: int = 0, absent: Sequence[int] = ()) -> None:
        candidates = tuple(peer.id for peer in self.peers if peer.number != leader and peer.number not in absent)
        setup = RoundSetup(self.dice.randbytes(16), peer_id(leader), 0, SETUP_HASH, candidates)
        self.peers[leader].begin(setup)

    def outcomes(self) -> dict[int, str]:
        """What each peer's latest machine ended as, in one word."""
        return {peer.number: type(peer.outcome).__name__ for peer in self.peers if peer.outcome is not None}

    def results(self) -> dict[int, RoundResult]:
        return {peer.number: peer.outcome.result for peer in self.peers if isinstance(peer.outcome, Committed)}


class SimPeer:
    """A host: one machine at a time, and a swarm view where the test wants the whole loop."""

    def __init__(self, network: SimNetwork, number: int) -> None:
        self.network = network
        self.number = number
        self.id = peer_id(number)
        self.dead = False
        self.frozen_until = 0.0
        self.slowness = 0.0
        self.job_seconds = 0.01
        self.freeze_seconds: float | None = 0.1  # None: the worker never answers
        self.machine: RoundMachine | None = None
        self.started_at = 0.0
        self.ended_at: float | None = None
        self.outcome: Outcome | None = None
        self.faults: list[PeerFault] = []
        self.ignored: list[Ignored] = []
        self.unlinked: set[int] = set()
        self.samples = number + 1
        self.gradient: Vector = _noise(number, network.config.vector_length) * np.float32(self.samples)
        self.spoil: Callable[[RoundMessage], RoundMessage] = lambda message: message
        # Swarm mode.
        self.view: SwarmView | None = None
        self.step = 0
        self.weights_hash = SETUP_HASH
        self.rate = 0
        self.sequence = 0
        self.fetching = False
        self.history: list[Outcome] = []
        self.applied: dict[int, bytes] = {}  # step begun from: hash after it, on this peer's branch

    def input(self, what: Callable[[], None]) -> None:
        """Whatever reaches this process: lost on the dead, late on the frozen."""
        if self.dead:
            return
        if self.network.now < self.frozen_until:
            if self.frozen_until < 1e8:
                self.network.at(self.frozen_until, lambda: self.input(what))
            return
        what()
        self._pump()

    # Round.

    @functools.cached_property
    def packer(self) -> Packer:
        return Packer(self.id, self.network.config)

    def begin(self, setup: RoundSetup) -> None:
        self.machine = RoundMachine(self.id, self.network.config, setup, self.network.now)
        self.started_at, self.ended_at, self.outcome = self.network.now, None, None
        self.input(lambda: None)

    def receive(self, source: int, message: RoundMessage | Progress) -> None:
        now, sender = self.network.now, peer_id(source)
        if isinstance(message, Progress):
            if self.view:
                self.view.on_progress(sender, message, now)
            return
        machine = self.machine
        if isinstance(message, Propose) and (machine is None or machine.setup.round_id != message.round_id):
            self._proposed(sender, message)
        elif machine is not None and machine.setup.round_id == message.round_id:
            machine.on_message(sender, message, now)

    def _proposed(self, sender: PeerId, message: Propose) -> None:
        now, machine = self.network.now, self.machine
        if self.view is not None:
            reason = self.view.judge(sender, message, now)
            busy = machine is not None and not machine.ended
            leading_early = busy and machine is not None and machine.leads and not machine.roll
            if leading_early and not reason and self.view.outranks(sender, now):
                machine.abort("yields to the one before it in line", now)
                self._pump()
                busy = False
            if reason or busy or self.fetching:
                refusal = Decline(round_id=message.round_id, reason=reason or "busy")
                self.network.send(self, sender, refusal)
                return
        setup = RoundSetup(message.round_id, sender, message.global_step, message.weights_hash)
        self.begin(setup)

    def lost(self, other: int) -> None:
        self.unlinked.add(other)
        if self.view:
            self.view.on_peer_lost(peer_id(other))
        if self.machine:
            self.machine.on_peer_lost(peer_id(other), self.network.now)

    def up(self, other: int) -> None:
        self.unlinked.discard(other)
        if self.view:
            self.view.on_peer_up(peer_id(other), self.network.now)
            self.push()

    def _pump(self) -> None:
        """Carry out effects until there are none, then set the timer."""
        machine = self.machine
        if machine is None:
            return
        while True:
            effects = machine.take_effects()
            self._carry_out(machine, effects)
            if not effects:
                break
        deadline = machine.next_deadline()
        if deadline is not None and not self.dead:
            self.network.at(deadline, lambda: self.input(lambda: machine.on_timer(self.network.now)))

    def _carry_out(self, machine: RoundMachine, effects: list[Effect]) -> None:
        fault = self.network.fault
        struck = fault is not None and fault.target == self.number and machine.state is fault.phase
        sent = 0
        for effect in effects:
            if struck and fault is not None and sent >= fault.cut:
                self.network.strike(self.number)
                struck = False
            if self.dead:
                return
            if isinstance(effect, Send):
                sent += 1
            self._defer(lambda effect=effect: self._perform(machine, effect))
        if struck:
            self.network.strike(self.number)

    def _defer(self, what: Callable[[], None]) -> None:
        """A peer that froze amid its effects carries out the rest when it thaws."""
        if self.network.now < self.frozen_until:
            if self.frozen_until < 1e8:
                self.network.at(self.frozen_until, what)
        else:
            what()

    def _perform(self, machine: RoundMachine, effect: Effect) -> None:
        now = self.network.now
        match effect:
            case Send(peer, message):
                self.network.send(self, peer, self.spoil(message))
            case Freeze():
                if self.freeze_seconds is not None:
                    self.network.at(now + self.freeze_seconds, lambda: self.input(lambda: self._frozen(machine)))
            case Begun(roll):
                for member in roll:
                    if self.network.number_of(member.peer_id) in self.unlinked:
                        machine.on_peer_lost(member.peer_id, now)
            case NeedParts():
                packed = self.packer.parts(self.gradient, self.samples, effect)
                self._later(lambda: machine.on_parts(packed.payloads, self.network.now, packed.codecs))
            case Reduce() | Inspect():
                answer = self.packer.perform(effect)
                self._later(lambda: machine.on_job_done(answer, self.network.now))
            case Committed() | Discarded() | Missed():
                self._end(effect)
            case PeerFault():
                self.faults.append(effect)
            case Ignored():
                self.ignored.append(effect)

    def _later(self, what: Callable[[], None]) -> None:
        self.network.at(self.network.now + self.job_seconds + self.slowness, lambda: self.input(what))

    def _frozen(self, machine: RoundMachine) -> None:
        contribution = Contribution(self.samples, self.samples * 8, self.samples * 8 * 1.5, 1e6 * (1 + self.number))
        self.packer.begin(contribution.upload_bytes_per_second)
        machine.on_frozen(contribution, self.network.now)

    def _end(self, outcome: Outcome) -> None:
        self.ended_at = self.network.now
        self.outcome = outcome
        self.history.append(outcome)
        self.packer.end(outcome)
        if self.view is None:
            return
        if isinstance(outcome, Committed):
            vector = kernels.mean_of(outcome.result)
            self.weights_hash = hashlib.sha256(self.weights_hash + vector.tobytes()).digest()
            self.applied[self.step] = self.weights_hash
            self._renew(self.step + 1)
        elif isinstance(outcome, Discarded):
            self.view.on_round_discarded(outcome.blame, self.network.now)
        self.push()

    # Swarm.

    def join_swarm(self, view: SwarmView, rate: int) -> None:
        """Begin to train by oneself, four times a second, and to do what the view decides."""
        self.view = view
        self.rate = rate
        self.samples = 0
        self.gradient = np.zeros(self.network.config.vector_length, dtype=np.float32)
        for other in self.network.peers:
            if other is not self:
                view.on_peer_up(other.id, self.network.now)
        self._tick()

    def push(self) -> None:
        self.sequence += 1
        progress = Progress(
            sequence=self.sequence,
            global_step=self.step,
            weights_hash=self.weights_hash,
            samples=self.samples,
            samples_per_second=float(self.rate),
            upload_bytes_per_second=0.0,
            download_bytes_per_second=0.0,
            training=not self.fetching,
        )
        if self.view:
            self.view.set_mine(progress, self.network.now)
        for other in self.network.peers:
            if other is not self and other.number not in self.unlinked:
                self.network.send(self, other.id, progress)

    def _tick(self) -> None:
        self.network.at(self.network.now + 0.25, lambda: self.input(self._tick))
        busy = self.machine is not None and not self.machine.ended
        if busy or self.fetching:
            return
        new = self.network.dice.randint(0, max(1, self.rate // 2))
        self.samples += new
        self.gradient += _noise(self.network.dice.randint(0, 1 << 30), self.gradient.shape[0]) * np.float32(new)
        self.push()
        assert self.view is not None
        match self.view.decide(self.network.now):
            case Lead(attempt, candidates):
                round_id = self.network.dice.randbytes(16)
                self.begin(RoundSetup(round_id, self.id, self.step, self.weights_hash, candidates, attempt))
            case CatchUp(donors, step, weights_hash):
                self.fetching = True
                donor = self.network.peers[self.network.number_of(donors[0])]
                self.network.at(
                    self.network.now + 0.5, lambda: self.input(lambda: self._fetched(donor, step, weights_hash))
                )

    def _fetched(self, donor: "SimPeer", step: int, weights_hash: bytes) -> None:
        assert self.view is not None
        self.fetching = False
        if donor.dead or donor.number in self.unlinked or (donor.step, donor.weights_hash) != (step, weights_hash):
            self.view.on_catch_up_failed(donor.id, self.network.now)
            return
        self.view.on_caught_up(donor.id)
        self.weights_hash = weights_hash
        self.applied = dict(donor.applied)
        self._renew(step)
        self.push()

    def _renew(self, step: int) -> None:
        self.step = step
        self.samples = 0
        self.gradient = np.zeros_like(self.gradient)


def _noise(seed: int, length: int) -> Vector:
    return (np.random.Generator(np.random.Philox(seed)).standard_normal(length) * 0.1).astype(np.float32)


def reference_mean(network: SimNetwork, result: RoundResult) -> bytes:
    """Sum of G_k over sum of m_k for each partition's contributors, in roll order, float32, one operation at a time."""
    pieces: list[bytes] = []
    for (start, stop), contributors in zip(result.slices, result.contributors, strict=True):
        total: Vector | None = None
        for index in contributors:
            peer = network.peers[network.number_of(result.roll[index].peer_id)]
            part = peer.gradient[start:stop]
            total = part.copy() if total is None else total + part
        assert total is not None
        samples = sum(result.roll[index].samples for index in contributors)
        pieces.append((total / np.float32(samples)).astype("<f4").tobytes())
    return b"".join(pieces)
