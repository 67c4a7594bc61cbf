"""What a round is told before it begins, and how long each of its phases may take."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from engine.averaging.codecs.base import CodecId

MAX_MEMBER_SAMPLES: Final = 2**24
"""A contribution of more samples is refused: up to here counts are exact in float32 and sums cannot overflow."""

FLOAT32_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class RoundDeadlines:
    """Patience in seconds; each peer measures by its own clock. Who waits for another is more patient than that one.

    `gather` and `begin` count from the proposal, the others from the roll. `echo_grace` counts from the loss of the
    link to the leader.

    Raises:
        ValueError: an order that would let a peer give up on one that is still within its own time.
    """

    gather_seconds: float = 10.0  # leader: for answers
    begin_seconds: float = 15.0  # member: for the roll
    parts_seconds: float = 30.0  # aggregator: for parts
    averages_seconds: float = 45.0  # member: for averaged partitions
    votes_seconds: float = 55.0  # leader: for votes
    commit_seconds: float = 65.0  # member: for the outcome
    echo_grace_seconds: float = 2.0  # member without a leader: for another member's echo of the commit

    def __post_init__(self) -> None:
        if not all(math.isfinite(value) and value > 0.0 for value in self._values()):
            raise ValueError("every deadline must be a positive number of seconds")
        self._check_order("gather_seconds", "begin_seconds", "a member must wait for the roll while the leader gathers")
        self._check_order("parts_seconds", "averages_seconds", "a member must wait while an aggregator awaits parts")
        self._check_order("averages_seconds", "votes_seconds", "the leader must wait while members await averages")
        self._check_order("votes_seconds", "commit_seconds", "a member must wait while the leader counts votes")

    def _values(self) -> tuple[float, ...]:
        return (
            self.gather_seconds,
            self.begin_seconds,
            self.parts_seconds,
            self.averages_seconds,
            self.votes_seconds,
            self.commit_seconds,
            self.echo_grace_seconds,
        )

    def _check_order(self, shorter: str, longer: str, reason: str) -> None:
        if not getattr(self, shorter) < getattr(self, longer):
            raise ValueError(f"{shorter} must be less than {longer}: {reason}")

    @property
    def last_begin_seconds(self) -> float:
        """After this the leader voids a round rather than begin it: members may be about to stop waiting."""
        return (self.gather_seconds + self.begin_seconds) / 2.0

    @property
    def last_commit_seconds(self) -> float:
        """After this the leader voids a round rather than commit it: members may be about to stop waiting."""
        return (self.votes_seconds + self.commit_seconds) / 2.0

    @property
    def bound_seconds(self) -> float:
        """From its start, no machine lives longer than this if its host calls `on_timer` when it is due."""
        return self.begin_seconds + self.commit_seconds + self.echo_grace_seconds


def deadlines_for(vector_length: int, slowest_bytes_per_second: float = 64_000.0) -> RoundDeadlines:
    """Deadlines that let a vector of `vector_length` float32 cross a line of that rate once out and once back.

    Raises:
        ValueError: the rate is not positive.
    """
    if not slowest_bytes_per_second > 0.0:
        raise ValueError("the slowest line must have a positive rate")
    transfer = vector_length * FLOAT32_BYTES / slowest_bytes_per_second
    parts = 10.0 + transfer
    averages = parts + 10.0 + transfer
    return RoundDeadlines(
        parts_seconds=parts,
        averages_seconds=averages,
        votes_seconds=averages + 5.0,
        commit_seconds=averages + 15.0,
    )


class Exchange(StrEnum):
    """How a project's gradients travel; the manifest says so."""

    FLOAT32 = "float32"  # exact
    FLOAT16 = "float16"
    INT8 = "int8"  # whatever the lines, with error feedback; small parts are written finer
    AUTO = "auto"  # float16 on fast lines, int8 on others


ALLOWED_CODECS: Final[dict[Exchange, frozenset[CodecId]]] = {
    Exchange.FLOAT32: frozenset({CodecId.FLOAT32}),
    Exchange.FLOAT16: frozenset({CodecId.FLOAT32, CodecId.FLOAT16}),
    Exchange.INT8: frozenset({CodecId.FLOAT32, CodecId.FLOAT16, CodecId.INT8}),
    Exchange.AUTO: frozenset({CodecId.FLOAT32, CodecId.FLOAT16, CodecId.INT8}),
}
"""What a member may send; a finer codec than asked for harms nobody."""


@dataclass(frozen=True, slots=True)
class RoundConfig:
    """The project's bounds on a round, alike for all its peers.

    Raises:
        ValueError: a bound that makes no sense.
    """

    vector_length: int
    minimum_peers: int
    max_gradient_norm: float  # per sample
    max_tokens_per_sample: int
    exchange: Exchange = Exchange.FLOAT32
    deadlines: RoundDeadlines = RoundDeadlines()

    def __post_init__(self) -> None:
        if self.vector_length < 1 or self.minimum_peers < 1 or self.max_tokens_per_sample < 1:
            raise ValueError("vector_length, minimum_peers and max_tokens_per_sample must be at least 1")
        if not (math.isfinite(self.max_gradient_norm) and self.max_gradient_norm > 0.0):
            raise ValueError("max_gradient_norm must be a positive number")
