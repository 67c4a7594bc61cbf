"""One peer's books of a round whose roll is known: parts that came in, partitions that it holds, votes it counted."""

import itertools
from collections.abc import Sequence, Set
from dataclasses import dataclass
from enum import Enum, auto

from engine.averaging.codecs.registry import ELEMENTWISE
from engine.averaging.effects import Inspect, Inspected, NeedParts, Reduce, Reduced, ReduceRow, RoundResult, RoundSetup
from engine.averaging.partition import partitions_of
from engine.transport.base import PeerId
from engine.wire.messages import AveragedPart, Commit, Member, Part


@dataclass(frozen=True, slots=True)
class Held:
    """An averaged partition that passed inspection."""

    contributors: tuple[int, ...]
    payload: bytes
    digest: bytes
    codec: int = 0


class Exchange:
    """Members are named by their index in the roll, partitions by their order in the vector."""

    def __init__(self, me: PeerId, members: tuple[Member, ...], allowed_codecs: Set[int]) -> None:
        self._allowed_codecs = allowed_codecs
        self.members = members
        self.index_of = {member.peer_id: index for index, member in enumerate(members)}
        self.me = self.index_of[me]
        self.partitions = partitions_of(members)
        self.mine = frozenset(j for j, partition in enumerate(self.partitions) if partition.owner == self.me)
        self.held: dict[int, Held] = {}
        self._reducing: set[int] = set()  # begun, or done
        self._parts: dict[int, dict[int, tuple[int, bytes]]] = {j: {} for j in self.mine}  # member: codec, payload
        self._refused: set[int] = set()
        self._inspecting: dict[int, AveragedPart] = {}

    def others(self) -> tuple[PeerId, ...]:
        """Everybody on the roll but me."""
        return tuple(member.peer_id for member in self.members if member.peer_id != self.members[self.me].peer_id)

    def aggregator_of(self, partition: int) -> PeerId:
        """Who averages a partition."""
        return self.members[self.partitions[partition].owner].peer_id

    def what_to_send(self) -> NeedParts:
        """The parts of this peer's own gradients."""
        return NeedParts(
            tuple((partition.start, partition.stop) for partition in self.partitions),
            self.mine,
            tuple(self.members[partition.owner].share for partition in self.partitions),
            len(self.members) - 1,
        )

    def sending_order(self) -> list[int]:
        """Partitions in turn from each aggregator, so that all of them have work from the beginning."""
        place: dict[int, int] = {}
        order = []
        for number, partition in enumerate(self.partitions):
            turn = place[partition.owner] = place.get(partition.owner, -1) + 1
            order.append((turn, partition.owner, number))
        return [number for _, _, number in sorted(order)]

    def check_sizes(self, parts: Sequence[bytes], codecs: Sequence[int]) -> None:
        """Refuse parts of my own making that do not fit the partitions.

        Raises:
            ValueError: their number, or their sizes.
        """
        runs = zip(self.partitions, codecs, strict=True)
        sizes = [ELEMENTWISE.codec(codec).encoded_bytes(partition.length) for partition, codec in runs]
        if [len(part) for part in parts] != sizes:
            raise ValueError(f"expected parts of {sizes} bytes")

    # As an aggregator.

    def put_part(self, partition: int, index: int, payload: bytes, codec: int = 0) -> None:
        """Keep a member's part of one of my partitions, unless its reduction has begun."""
        if partition not in self._reducing:
            self._parts[partition][index] = codec, payload

    def is_late(self, index: int, part: Part) -> bool:
        """Whether a member's part is not awaited (any more)."""
        if part.partition not in self.mine:
            return False
        return part.partition in self._reducing or index in self._refused or index in self._parts[part.partition]

    def refuse(self, index: int) -> None:
        """Do not wait for this member's parts any more."""
        self._refused.add(index)

    def part_fault(self, index: int, part: Part) -> str:
        """What is wrong with the frame of a part sent to me, or ""."""
        if part.partition not in self.mine:
            return f"sent a part of partition {part.partition} to a peer that does not aggregate it"
        if not self.members[index].samples:
            return "sent a part without having samples"
        return self._payload_fault("a part", part.codec, part.payload, self.partitions[part.partition].length)

    def ready_to_reduce(self, lost: Set[PeerId]) -> list[int]:
        """My partitions of which every part is in, or will not come."""
        awaited = {
            index
            for index, member in enumerate(self.members)
            if member.samples and member.peer_id not in lost and index not in self._refused
        }
        return [j for j in sorted(self.mine - self._reducing) if awaited <= self._parts[j].keys()]

    def unreduced(self) -> list[int]:
        """My partitions whose reduction has not begun."""
        return sorted(self.mine - self._reducing)

    def start_reduce(self, partition: int, max_gradient_norm: float) -> Reduce | None:
        """The job over the parts at hand, in roll order; None when there are none. Frees the parts."""
        self._reducing.add(partition)
        parts, place = self._parts.pop(partition), self.partitions[partition]
        if not parts:
            return None
        rows = tuple(
            ReduceRow(index, self.members[index].samples, payload, codec)
            for index, (codec, payload) in sorted(parts.items())
        )
        share = self.members[self.me].share
        return Reduce(rows, place.length, max_gradient_norm, partition, place.start, share)

    def take_reduced(self, round_id: bytes, reduced: Reduced) -> AveragedPart:
        """Hold a partition that this peer averaged; what the others get."""
        self.held[reduced.partition] = Held(reduced.contributors, reduced.payload, reduced.digest, reduced.codec)
        return AveragedPart(
            round_id=round_id,
            partition=reduced.partition,
            codec=reduced.codec,
            contributors=reduced.contributors,
            payload=reduced.payload,
        )

    # As a receiver.

    def take_inspected(self, message: AveragedPart, inspected: Inspected) -> None:
        """Hold a partition that another peer averaged and this one found sound."""
        held = Held(message.contributors, message.payload, inspected.digest, message.codec)
        self.held[inspected.partition] = held

    def average_fault(self, index: int, message: AveragedPart) -> str:
        """What is wrong with the frame of an averaged partition, or ""."""
        contributors = message.contributors
        if message.partition >= len(self.partitions) or self.partitions[message.partition].owner != index:
            return f"sent an average of partition {message.partition}, which is not its own"
        length = self.partitions[message.partition].length
        if fault := self._payload_fault("an average", message.codec, message.payload, length):
            return fault
        if not _ascending(contributors, len(self.members)) or not contributors:
            return "sent an average with a garbled list of contributors"
        if not all(self.members[contributor].samples for contributor in contributors):
            return "names a contributor that has no samples"
        return ""

    def start_inspect(self, message: AveragedPart, max_gradient_norm: float) -> Inspect | None:
        """The job that checks an averaged partition; None when it is held or being checked already."""
        partition = message.partition
        if partition in self.held or partition in self._inspecting:
            return None
        self._inspecting[partition] = message
        length = self.partitions[partition].length
        return Inspect(partition, message.contributors, message.payload, length, max_gradient_norm, message.codec)

    def end_inspect(self, partition: int) -> AveragedPart | None:
        """The message that was being checked, once."""
        return self._inspecting.pop(partition, None)

    def _payload_fault(self, what: str, codec: int, payload: bytes, count: int) -> str:
        if codec not in self._allowed_codecs:
            return f"sent {what} in codec {codec}, which this project does not use"
        expected = ELEMENTWISE.codec(codec).encoded_bytes(count)
        return "" if len(payload) == expected else f"sent {what} of {len(payload)} bytes, expected {expected}"

    def undelivered(self) -> list[int]:
        """Partitions that have not come."""
        return [j for j in range(len(self.partitions)) if j not in self.held and j not in self._inspecting]

    def missing(self) -> list[int]:
        """Partitions that are not held (not come, or not yet checked)."""
        return [j for j in range(len(self.partitions)) if j not in self.held]

    # The outcome.

    def digests(self) -> tuple[bytes, ...]:
        """Of every partition; only when none is missing."""
        return tuple(self.held[j].digest for j in range(len(self.partitions)))

    def accepted(self) -> tuple[int, ...]:
        """Members whose gradient is in every partition; only when none is missing."""
        common = set(range(len(self.members)))
        for held in self.held.values():
            common &= set(held.contributors)
        return tuple(sorted(common))

    def commit_fault(self, commit: Commit, global_step: int) -> str:
        """What is wrong with the frame of a commit, or ""."""
        if commit.global_step != global_step:
            return f"commits step {commit.global_step}, the round is for {global_step}"
        if len(commit.digests) != len(self.partitions):
            return f"commits {len(commit.digests)} partitions of {len(self.partitions)}"
        if not _ascending(commit.accepted, len(self.members)):
            return "commits with a garbled list of accepted members"
        return ""

    def contradicts(self, commit: Commit) -> bool:
        """Whether something that I hold differs from what is committed."""
        if any(held.digest != commit.digests[j] for j, held in self.held.items()):
            return True
        return not self.missing() and commit.accepted != self.accepted()

    def result(self, setup: RoundSetup) -> RoundResult:
        """What was agreed; only when none is missing."""
        order = range(len(self.partitions))
        accepted = self.accepted()
        tokens = sum(self.members[index].tokens for index in accepted)
        loss_sum = sum(self.members[index].loss_sum for index in accepted)
        return RoundResult(
            round_id=setup.round_id,
            leader=setup.leader,
            global_step=setup.global_step,
            mean=tuple(self.held[j].payload for j in order),
            digests=self.digests(),
            roll=self.members,
            contributors=tuple(self.held[j].contributors for j in order),
            slices=tuple((partition.start, partition.stop) for partition in self.partitions),
            accepted=accepted,
            samples=sum(self.members[index].samples for index in accepted),
            tokens=tokens,
            train_loss=loss_sum / tokens if tokens else None,
            codecs=tuple(self.held[j].codec for j in order),
        )


def _ascending(indexes: Sequence[int], length: int) -> bool:
    inside = all(0 <= index < length for index in indexes)
    return inside and all(first < second for first, second in itertools.pairwise(indexes))


class Verdict(Enum):
    """What the votes say so far."""

    WAIT = auto()
    COMMIT = auto()
    HOPELESS = auto()


class Ballot:
    """The leader's count. A member votes or abstains once; what it said first stands."""

    def __init__(self, members: tuple[Member, ...]) -> None:
        self._peers = tuple(member.peer_id for member in members)
        self._votes: dict[PeerId, tuple[bytes, ...]] = {}
        self._abstained: set[PeerId] = set()

    def vote(self, peer: PeerId, digests: tuple[bytes, ...]) -> bool:
        """False when the peer had spoken already."""
        if peer in self._votes or peer in self._abstained:
            return False
        self._votes[peer] = digests
        return True

    def abstain(self, peer: PeerId) -> bool:
        """False when the peer had spoken already."""
        if peer in self._votes or peer in self._abstained:
            return False
        self._abstained.add(peer)
        return True

    def pending(self, lost: Set[PeerId]) -> list[PeerId]:
        """Live members that have not spoken."""
        return [
            peer for peer in self._peers if peer not in self._votes and peer not in self._abstained and peer not in lost
        ]

    def verdict(self, mine: tuple[bytes, ...] | None, lost: Set[PeerId], overdue: bool) -> Verdict:
        """Commit needs more than half of the roll behind the leader's own digests, and nobody left to wait for."""
        agreeing = sum(1 for digests in self._votes.values() if mine is None or digests == mine)
        pending = [] if overdue else self.pending(lost)
        if (agreeing + len(pending)) * 2 <= len(self._peers):
            return Verdict.HOPELESS
        if mine is None or pending:
            return Verdict.WAIT
        return Verdict.COMMIT
