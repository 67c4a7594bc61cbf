"""Error feedback: what a codec lost in one round is added to what goes in the next (Seide et al., Interspeech 2014;
Karimireddy et al., arXiv 1901.09847). It makes biased codecs converge: over rounds, what arrived is what was meant,
but for one round's error.

Two memories, for the two lossy steps of a round (as in DoubleSqueeze, arXiv 1905.05957):

- `PartFeedback`, each member's own, over the whole vector: what its parts lost on the way to the aggregators. It is
  addressed by element, so that it survives other partitions of the vector. 4 bytes an element of the vector, and in
  a round 4 more for each element that was encoded.
- `MeanFeedback`, the aggregator's, over its partition alone: what the returned mean lost. 4 bytes an element of the
  partition, and as much again in a round. When the partition moves, what lies outside the new one is dropped: once, at
  most one round's error for those elements.

Both follow the round: `begin`, `encode` each part or chunk once, then `commit` or `abort`. Until the commit nothing is
changed, so a round that failed leaves the memory as it was and the same values encode to the same bytes. A residual is
in the units of the values: sums of gradients for parts, means for means. What saturated waits in it too.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from engine.averaging.codecs.base import Codec, Encoded, Vector, check_vector


@dataclass(frozen=True, slots=True)
class Sent:
    """What was encoded and what receivers make of it: the aggregator of a mean must itself apply `decoded`."""

    encoded: Encoded
    decoded: Vector  # shape [encoded.count]


class _RoundMemory(ABC):
    """A residual that follows a round's begin, encode, commit and abort."""

    def __init__(self) -> None:
        self._is_open = False
        self._pending: dict[int, Vector] = {}  # by start: the residual if the part is accepted

    @property
    def is_open(self) -> bool:
        """Whether a round has begun and neither committed nor aborted."""
        return self._is_open

    @property
    @abstractmethod
    def memory_bytes(self) -> int:
        """What is held now."""

    def begin(self) -> None:
        """A round begins.

        Raises:
            ValueError: one is open.
        """
        if self._is_open:
            raise ValueError("a round is open: commit or abort it first")
        self._is_open = True

    def encode(self, codec: Codec, start: int, values: Vector) -> Sent:
        """Encode `values` plus the residual; `values` [count] begin at element `start` of the vector.

        Raises:
            CodecError: as `Codec.encode`; the round goes on, and this part may be encoded by another codec.
            ValueError: no round is open, or the elements are outside the vector or were encoded in this round.
        """
        if not self._is_open:
            raise ValueError("no round is open")
        check_vector(codec.codec_id, values)
        self._check_run(start, start + values.shape[0])
        with np.errstate(over="ignore", invalid="ignore"):
            meant = np.add(values, self._residual(start, start + values.shape[0]))
        encoded = codec.encode(meant)
        decoded = codec.decode(encoded.payload, encoded.count)
        if meant.shape[0]:
            self._pending[start] = np.subtract(meant, decoded, out=meant)
        return Sent(encoded, decoded)

    def residual(self, start: int, stop: int) -> Vector:
        """What is owed for these elements; not to be changed."""
        return self._residual(start, stop)

    @abstractmethod
    def drop(self, start: int, stop: int) -> None:
        """Owe nothing for these elements any more."""

    def commit(self, accepted: Collection[tuple[int, int]] | None = None) -> None:
        """The round stands. `accepted` are the runs [start, stop) that count, None for all; others are as if not sent.

        Raises:
            ValueError: no round is open, or a run within which nothing was encoded; nothing is changed.
        """
        if not self._is_open:
            raise ValueError("no round is open")
        kept = set(self._pending) if accepted is None else set[int]()
        for start, stop in accepted or ():
            within = {begun for begun, new in self._pending.items() if start <= begun and begun + new.shape[0] <= stop}
            if not within:
                raise ValueError(f"nothing was encoded within [{start}, {stop})")
            kept |= within
        self._keep([(start, self._pending[start]) for start in sorted(kept)])
        self._close()

    def abort(self) -> None:
        """The round failed: the memory is as it was at `begin`. Without an open round nothing happens."""
        self._close()

    @abstractmethod
    def forget(self) -> None:
        """Begin afresh, as after the state was taken from a peer; an open round is aborted."""

    @abstractmethod
    def _residual(self, start: int, stop: int) -> Vector:
        """What was lost of these elements; not to be changed."""

    @abstractmethod
    def _keep(self, residuals: Iterable[tuple[int, Vector]]) -> None:
        """New residuals with their starts."""

    def _check_run(self, start: int, stop: int) -> None:
        if start < 0:
            raise ValueError(f"the run [{start}, {stop}) begins before the vector")
        for begun, pending in self._pending.items():
            if start < begun + pending.shape[0] and begun < stop:
                raise ValueError(f"elements of [{start}, {stop}) were encoded in this round")

    def _close(self) -> None:
        self._pending = {}
        self._is_open = False

    def _pending_bytes(self) -> int:
        return sum(residual.nbytes for residual in self._pending.values())


class PartFeedback(_RoundMemory):
    """A member's residual of shape [vector_length]; allocated by the first commit.

    Raises:
        ValueError: the vector is empty.
    """

    def __init__(self, vector_length: int) -> None:
        super().__init__()
        if vector_length < 1:
            raise ValueError(f"a vector of {vector_length} elements")
        self._vector_length = vector_length
        self._memory: Vector | None = None

    @property
    def memory_bytes(self) -> int:
        """At most 4 * vector_length, and in a round 4 for each element encoded."""
        return (0 if self._memory is None else self._memory.nbytes) + self._pending_bytes()

    def forget(self) -> None:
        self._close()
        self._memory = None

    def drop(self, start: int, stop: int) -> None:
        if self._memory is not None:
            self._memory[start:stop] = 0.0

    def _residual(self, start: int, stop: int) -> Vector:
        if self._memory is None:
            return np.zeros(stop - start, dtype=np.float32)
        return self._memory[start:stop]

    def _keep(self, residuals: Iterable[tuple[int, Vector]]) -> None:
        if self._memory is None:
            self._memory = np.zeros(self._vector_length, dtype=np.float32)
        for start, residual in residuals:
            self._memory[start : start + residual.shape[0]] = residual

    def _check_run(self, start: int, stop: int) -> None:
        super()._check_run(start, stop)
        if stop > self._vector_length:
            raise ValueError(f"the run [{start}, {stop}) is not within {self._vector_length} elements")


class MeanFeedback(_RoundMemory):
    """An aggregator's residual of the means of the last round that stood."""

    def __init__(self) -> None:
        super().__init__()
        self._memory: dict[int, Vector] = {}

    @property
    def memory_bytes(self) -> int:
        """At most 4 for each element of the last partition, and in a round as much for the new one."""
        return sum(residual.nbytes for residual in self._memory.values()) + self._pending_bytes()

    def forget(self) -> None:
        self._close()
        self._memory = {}

    def drop(self, start: int, stop: int) -> None:
        for begun, kept in self._memory.items():
            kept[max(0, start - begun) : max(0, stop - begun)] = 0.0

    def _residual(self, start: int, stop: int) -> Vector:
        residual = np.zeros(stop - start, dtype=np.float32)
        for begun, kept in self._memory.items():
            first, last = max(start, begun), min(stop, begun + kept.shape[0])
            if first < last:
                residual[first - start : last - start] = kept[first - begun : last - begun]
        return residual

    def _keep(self, residuals: Iterable[tuple[int, Vector]]) -> None:
        self._memory = dict(residuals)
