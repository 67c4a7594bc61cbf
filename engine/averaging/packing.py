"""How one member writes what it sends in its rounds: which codec for which part, and what a coarse one still owes.

Not PURE in one way: it remembers, from round to round, what was lost in writing (`codecs.feedback`). One round at a
time: `begin`, then `parts` and `write_mean`, then `end` with the round's outcome. The methods may run in threads, one
after the other. Spec: docs/specs/averaging.md, "Codecs".
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from engine.averaging.codecs.base import Codec, CodecError, CodecId
from engine.averaging.codecs.choose import Choice, Direction, choose
from engine.averaging.codecs.feedback import MeanFeedback, PartFeedback
from engine.averaging.codecs.registry import ELEMENTWISE
from engine.averaging.config import Exchange, RoundConfig
from engine.averaging.effects import Committed, Inspected, Job, NeedParts, Outcome, Reduce, Reduced
from engine.averaging.kernels import CODED_NORM_SLACK, as_bytes, global_norm, perform, sample_exponent
from engine.checkpoints.state import Vector
from engine.transport.base import PeerId

FAST_LINE: Final = math.inf
SLOW_LINE: Final = 0.0


@dataclass(frozen=True, slots=True)
class Packed:
    """The answer to `NeedParts`."""

    payloads: list[bytes]
    codecs: list[int]


class Packer:
    """Of one member, for as long as its session lasts."""

    def __init__(self, me: PeerId, config: RoundConfig) -> None:
        self._me = me
        self._config = config
        self._parts = PartFeedback(config.vector_length)
        self._mean = MeanFeedback()
        self._upload_bytes_per_second = 0.0
        self._receivers = 1
        self._carried: set[tuple[int, int]] = set()  # runs that were written with feedback in this round
        self._mean_runs: list[tuple[int, int]] = []
        self.saturated_count = 0
        """Elements beyond a format's range so far."""

    @property
    def memory_bytes(self) -> int:
        """Held between rounds."""
        return self._parts.memory_bytes + self._mean.memory_bytes

    def begin(self, upload_bytes_per_second: float) -> None:
        """A round begins; one that was left open came to nothing."""
        self._parts.abort()
        self._mean.abort()
        self._carried.clear()
        self._mean_runs.clear()
        self._upload_bytes_per_second = upload_bytes_per_second
        self._parts.begin()
        self._mean.begin()

    def parts(self, gradients: Vector, samples: int, wanted: NeedParts) -> Packed:
        """Cut and write this member's gradient sum; `gradients` has shape [vector_length]."""
        self._receivers = max(1, wanted.receivers)
        packed = Packed([], [])
        shares = wanted.shares or [stop - start for start, stop in wanted.slices]
        for number, (start, stop) in enumerate(wanted.slices):
            values = gradients[start:stop]
            if number in wanted.mine:
                codec, payload = 0, as_bytes(values)
            else:
                codec, payload = self._part(values, start, samples, shares[number])
            packed.codecs.append(codec)
            packed.payloads.append(payload)
        return packed

    def perform(self, job: Job) -> Reduced | Inspected:
        """Carry out a job of the round."""
        return perform(job, self._write_mean)

    def end(self, outcome: Outcome) -> None:
        """What was lost in writing is owed to the next round, as far as what was written counted in this one."""
        if isinstance(outcome, Committed):
            self._parts.commit(sorted(self._accepted(outcome) & self._carried))
            self._mean.commit(self._mean_runs)
        else:
            self._parts.abort()
            self._mean.abort()

    def forget(self) -> None:
        """The state was taken from a peer: what earlier rounds owe belongs to other weights."""
        self._parts.forget()
        self._mean.forget()

    def _accepted(self, outcome: Committed) -> set[tuple[int, int]]:
        result = outcome.result
        me = next(index for index, member in enumerate(result.roll) if member.peer_id == self._me)
        pairs = zip(result.slices, result.contributors, strict=True)
        return {run for run, contributors in pairs if me in contributors}

    def _choice(self, count: int, direction: Direction) -> Choice:
        exchange = self._config.exchange
        if exchange is Exchange.FLOAT32:
            return Choice(CodecId.FLOAT32, needs_feedback=False)
        lines = {Exchange.FLOAT16: FAST_LINE, Exchange.INT8: SLOW_LINE}
        line = lines.get(exchange, self._upload_bytes_per_second)
        if math.isinf(line):  # float16 where float32 is not as good
            fine = choose(count, Direction.PART, SLOW_LINE).codec_id is CodecId.FLOAT32
            return Choice(CodecId.FLOAT32 if fine else CodecId.FLOAT16, needs_feedback=False)
        return choose(count, direction, line, self._receivers if direction is Direction.MEAN else 1)

    def _part(self, values: Vector, start: int, samples: int, share: int) -> tuple[int, bytes]:
        choice = self._choice(share, Direction.PART)
        codec = ELEMENTWISE.codec(choice.codec_id)
        try:
            if choice.needs_feedback:
                bound = samples * self._config.max_gradient_norm * CODED_NORM_SLACK
                return self._with_feedback(self._parts, codec, values, start, bound, self._carried)
            scaled = values
            if choice.codec_id is CodecId.FLOAT16:
                scaled = np.ldexp(values, -sample_exponent(samples))
            return self._plainly(codec, scaled)
        except CodecError:
            # Not finite, or beyond any bound: sent as it is, so that the aggregator refuses it by its own check.
            return CodecId.FLOAT32, as_bytes(values)

    def _write_mean(self, mean: Vector, job: Reduce) -> tuple[int, bytes]:
        choice, start = self._choice(job.share or job.length, Direction.MEAN), job.start
        codec = ELEMENTWISE.codec(choice.codec_id)
        if not choice.needs_feedback:
            return self._plainly(codec, mean)
        self._mean_runs.append((start, start + mean.shape[0]))
        bound = job.max_gradient_norm * CODED_NORM_SLACK
        return self._with_feedback(self._mean, codec, mean, start, bound, set())

    def _plainly(self, codec: Codec, values: Vector) -> tuple[int, bytes]:
        encoded = codec.encode(values)
        self.saturated_count += encoded.saturated_count
        return encoded.codec_id, encoded.payload

    def _with_feedback(
        self,
        memory: PartFeedback | MeanFeedback,
        codec: Codec,
        values: Vector,
        start: int,
        norm_bound: float,
        carried: set[tuple[int, int]],
    ) -> tuple[int, bytes]:
        """A residual that might carry the values beyond what receivers take is dropped: one round's error is lost."""
        stop = start + values.shape[0]
        # Writing may add as much again as the residual, which is an error of writing itself.
        if global_norm(values) + 2.0 * global_norm(memory.residual(start, stop)) > norm_bound:
            memory.drop(start, stop)
        sent = memory.encode(codec, start, values)
        self.saturated_count += sent.encoded.saturated_count
        carried.add((start, stop))
        return sent.encoded.codec_id, sent.encoded.payload
