"""One round machine on the bench: messages go in by hand, effects are looked at one by one."""

import numpy as np

from engine.averaging import kernels
from engine.averaging.config import RoundConfig
from engine.averaging.effects import (
    Committed,
    Contribution,
    Discarded,
    Effect,
    Ignored,
    Inspected,
    Missed,
    PeerFault,
    Reduce,
    RoundMessage,
    RoundSetup,
    Send,
)
from engine.averaging.partition import make_roll
from engine.averaging.round import RoundMachine
from engine.averaging.states import RoundState
from engine.wire.messages import (
    Abstain,
    Accept,
    AveragedPart,
    Begin,
    Commit,
    Part,
    Vote,
)
from tests.helpers.sim_network import peer_id

ROUND = b"r" * 16
LENGTH = 6
A, B, C, D = (peer_id(number) for number in range(4))
CONFIG = RoundConfig(vector_length=LENGTH, minimum_peers=2, max_gradient_norm=100.0, max_tokens_per_sample=8)
LIMITS = CONFIG.deadlines
MINE = Contribution(2, 16, 20.0, 1e6)


def setup(leader: str, *candidates: str) -> RoundSetup:
    return RoundSetup(ROUND, leader, 7, bytes(32), candidates)


def accept(samples: int = 3, tokens: int = 24, upload: float = 0.0) -> Accept:
    return Accept(round_id=ROUND, samples=samples, tokens=tokens, loss_sum=30.0, upload_bytes_per_second=upload)


def sent(effects: list[Effect], kind: type[RoundMessage]) -> list[str]:
    return [effect.peer for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)]


def faults(effects: list[Effect]) -> list[str]:
    return [effect.what for effect in effects if isinstance(effect, PeerFault)]


def payload(value: float) -> bytes:
    return np.full(LENGTH, value, dtype="<f4").tobytes()


class Bench:
    """A machine of peer B in a round of A (leads and aggregates), B and C; the vector is one partition."""

    def __init__(self, aggregator: str = A) -> None:
        self.machine = RoundMachine(B, CONFIG, setup(A), 0.0)
        rates = {peer: 9e6 if peer == aggregator else 1e5 for peer in (A, B, C)}
        self.mine = Contribution(2, 16, 20.0, rates[B])
        self.roll = make_roll([(peer, Contribution(2, 16, 20.0, rates[peer])) for peer in (A, B, C)], LENGTH)

    def take(self) -> list[Effect]:
        return self.machine.take_effects()

    def gathered(self) -> "Bench":
        self.machine.on_frozen(self.mine, 0.1)
        self.take()
        return self

    def exchanging(self) -> "Bench":
        self.gathered().hear(A, Begin(round_id=ROUND, global_step=7, members=self.roll), 0.2)
        self.machine.on_parts([payload(2.0)], 0.2)
        self.take()
        return self

    def average(self, value: float = 1.0) -> AveragedPart:
        return AveragedPart(round_id=ROUND, contributors=(0, 1, 2), payload=payload(value))

    def voted(self) -> "Bench":
        self.exchanging().hear(A, self.average(), 0.5)
        self.machine.on_inspected(Inspected(0, kernels.digest((0, 1, 2), payload(1.0)), ""), 0.5)
        assert sent(self.take(), Vote) == [A]
        return self

    def abstained(self) -> "Bench":
        self.exchanging().machine.on_timer(0.2 + LIMITS.averages_seconds)
        assert sent(self.take(), Abstain) == [A]
        return self

    def concluding(self) -> "Bench":
        self.exchanging().hear(C, self.commit(), 0.4)
        assert sorted(sent(self.take(), Commit)) == [A]
        return self

    def commit(self, value: float = 1.0, accepted: tuple[int, ...] = (0, 1, 2)) -> Commit:
        digest = kernels.digest((0, 1, 2), payload(value))
        return Commit(round_id=ROUND, global_step=7, digests=(digest,), accepted=accepted)

    def hear(self, peer: str, message: RoundMessage, now: float) -> None:
        self.machine.on_message(peer, message, now)


def outcome(effects: list[Effect]) -> Committed | Discarded | Missed:
    found = [effect for effect in effects if isinstance(effect, Committed | Discarded | Missed)]
    assert len(found) == 1
    assert [effect for effect in effects if not isinstance(effect, Ignored)][-1] is found[0]
    return found[0]


def leading(*candidates: str) -> RoundMachine:
    machine = RoundMachine(A, CONFIG, setup(A, *candidates), 0.0)
    machine.on_frozen(MINE, 0.1)
    machine.take_effects()
    return machine


def three(aggregator_rate: float = 9e6) -> RoundMachine:
    """A leads and aggregates for B and C; all parts are in and reduced."""
    machine = RoundMachine(A, CONFIG, setup(A, B, C), 0.0)
    machine.on_frozen(Contribution(2, 16, 20.0, aggregator_rate), 0.1)
    machine.on_message(B, accept(upload=1e5), 0.2)
    machine.on_message(C, accept(upload=1e5), 0.2)
    machine.on_parts([payload(2.0)], 0.2)
    for peer in (B, C):
        machine.on_message(peer, Part(round_id=ROUND, payload=payload(3.0)), 0.3)
    job = machine.take_effects()[-1]
    assert isinstance(job, Reduce)
    machine.on_reduced(kernels.perform(job), 0.4)  # type: ignore[arg-type]
    assert sent(machine.take_effects(), AveragedPart) == [B, C]
    assert machine.state is RoundState.VOTED
    return machine


def good_digest() -> bytes:
    return kernels.digest((0, 1, 2), payload(1.0))
