"""Before a round begins: the leader's books of who was asked and who answered, a member's shelf of early messages."""

from typing import Final

from engine.averaging.config import FLOAT32_BYTES, RoundConfig
from engine.averaging.effects import (
    Contribution,
    Effect,
    Ignored,
    PeerFault,
    RoundMessage,
    RoundSetup,
    Send,
)
from engine.averaging.partition import claim_fault, make_roll
from engine.transport.base import PeerId
from engine.wire.messages import (
    MAX_MEMBERS,
    MAX_PARTITIONS,
    Accept,
    AveragedPart,
    Commit,
    Decline,
    Discard,
    Member,
    Part,
)

MAX_KEPT_MESSAGES: Final = 2 * MAX_PARTITIONS + MAX_MEMBERS
MAX_KEPT_VECTORS: Final = 2
"""Of bytes from one peer: its parts of what this peer aggregates, and what it aggregates itself."""


class CannotBegin(Exception):
    """The round cannot begin with those who answered; the text says why."""


class Gathering:
    """Candidates are awaited until they accept, decline, misbehave or are lost."""

    def __init__(self, setup: RoundSetup, config: RoundConfig) -> None:
        others = tuple(peer for peer in setup.candidates if peer != setup.leader)
        self.candidates = others[: MAX_MEMBERS - 1]
        self._setup = setup
        self._config = config
        self._awaited = set(self.candidates)
        self._accepted: dict[PeerId, Contribution] = {}

    def take(self, peer: PeerId, message: Accept | Decline) -> list[Effect]:
        """A candidate's answer; says what to send and what to report."""
        if isinstance(message, Decline):
            self.drop(peer)
            return []
        if fault := claim_fault(message, self._config):
            self.drop(peer)
            return [PeerFault(peer, fault), self._refusal(peer, "this contribution is not possible")]
        if peer in self._accepted:
            return [Ignored(peer, "Accept came twice")]
        if peer not in self._awaited:
            return [Ignored(peer, "Accept was not awaited"), self._refusal(peer, "this peer is not in the round")]
        self._awaited.discard(peer)
        self._accepted[peer] = Contribution(
            message.samples,
            message.tokens,
            message.loss_sum,
            message.upload_bytes_per_second,
            message.download_bytes_per_second,
        )
        return []

    def drop(self, peer: PeerId) -> None:
        """The peer will not be on the roll."""
        self._awaited.discard(peer)
        self._accepted.pop(peer, None)

    def complete(self) -> bool:
        """Nobody is awaited."""
        return not self._awaited

    def roll(self, mine: Contribution) -> tuple[Member, ...]:
        """Those who accepted, and the leader.

        Raises:
            CannotBegin: too few, nobody with samples, or a vector that they cannot carry.
        """
        answers = [(self._setup.leader, mine), *self._accepted.items()]
        if len(answers) < self._config.minimum_peers:
            raise CannotBegin(f"{len(answers)} of at least {self._config.minimum_peers} computers answered")
        if not any(contribution.samples for _, contribution in answers):
            raise CannotBegin("nobody has samples to contribute")
        try:
            return make_roll(answers, self._config.vector_length)
        except ValueError as error:
            raise CannotBegin(str(error)) from error

    def refusals(self) -> list[Effect]:
        """For candidates that are still awaited when the round begins."""
        return [self._refusal(peer, "the round began without this peer") for peer in sorted(self._awaited)]

    def awaiting_outcome(self) -> list[PeerId]:
        """Candidates that may be frozen for this round, sorted."""
        return sorted(self._awaited | self._accepted.keys())

    def _refusal(self, peer: PeerId, reason: str) -> Effect:
        return Send(peer, Discard(round_id=self._setup.round_id, reason=reason))


class Shelf:
    """Messages that outran the leader's roll on another link: each partition's once, and no more bytes than vectors."""

    def __init__(self, vector_length: int) -> None:
        self._max_payload_bytes = vector_length * FLOAT32_BYTES
        self._kept: dict[tuple[PeerId, type[RoundMessage], int], RoundMessage] = {}
        self._bytes: dict[PeerId, int] = {}

    def put(self, peer: PeerId, message: RoundMessage) -> list[Effect]:
        """Keep a message, or say why not."""
        name = type(message).__name__
        number, size = 0, 0
        if isinstance(message, Part | AveragedPart):
            number, size = message.partition, len(message.payload)
        if size > self._max_payload_bytes:
            return [PeerFault(peer, f"sent a {name} longer than the vector")]
        whole = self._bytes.get(peer, 0) + size
        key = (peer, type(message), number)
        if (
            key in self._kept
            or len(self._kept) >= MAX_KEPT_MESSAGES
            or whole > MAX_KEPT_VECTORS * self._max_payload_bytes
        ):
            return [Ignored(peer, f"{name} before the roll, more than once")]
        self._kept[key], self._bytes[peer] = message, whole
        return []

    def holds_commit(self) -> bool:
        """Whether somebody said that the round committed."""
        return any(kind is Commit for _, kind, _ in self._kept)

    def clear(self) -> list[tuple[PeerId, RoundMessage]]:
        """Take everything, in the order in which it came."""
        kept, self._kept = self._kept, {}
        self._bytes = {}
        return [(peer, message) for (peer, _, _), message in kept.items()]
