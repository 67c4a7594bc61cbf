"""The arithmetic of averaging, bit-reproducible on every machine.

What makes it so: every float operation is one elementwise numpy call, so each result is rounded once, alone (no fused
multiply-add); sums run in a fixed order (roll order, or a fixed tree of elementwise adds); only + - * / and square
root are used, which IEEE 754 rounds correctly; integers come from a counter-based generator.
Spec: docs/specs/averaging.md.
"""

import hashlib
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.averaging.codecs.base import CodecError, CodecId
from engine.averaging.codecs.registry import ELEMENTWISE
from engine.averaging.effects import Inspect, Inspected, Job, Reduce, Reduced, ReduceRow, RoundResult
from engine.checkpoints.state import SharedState, Vector
from engine.manifest.schema import Model, Optimizer, Tensor

Float64Vector: TypeAlias = npt.NDArray[np.float64]
Payload: TypeAlias = bytes | memoryview

BLOCK_ELEMENTS: Final = 65_536
"""Part of the numbers' contract: norms are summed by blocks of this size."""

DIGEST_CONTEXT: Final = b"potluck partition v2\n"
BETA1_POWER: Final = "beta1_power"
BETA2_POWER: Final = "beta2_power"
MEAN_NORM_SLACK: Final = 1.001
"""A mean of bounded gradients keeps their bound but for float32 rounding."""
CODED_NORM_SLACK: Final = 1.5
"""What a coarse codec and the error that it carries over may add to a norm; senders drop what would exceed it."""

_WIRE: Final = np.dtype("<f4")


class NonFiniteGradient(ValueError):
    """The averaged gradient holds an infinity or a NaN; nothing was changed."""


# Vectors and bytes.


def as_vector(payload: Payload) -> Vector:
    """Float32 little-endian bytes as a vector, not copied where the machine is little-endian."""
    return np.frombuffer(payload, dtype=_WIRE).astype(np.float32, copy=False)


def as_bytes(vector: Vector) -> bytes:
    """The vector as float32 little-endian bytes."""
    return vector.astype(_WIRE, copy=False).tobytes()


def cut(vector: Vector, slices: Sequence[tuple[int, int]]) -> list[bytes]:
    """The runs [start, stop) of a vector: the answer to `NeedParts`."""
    return [as_bytes(vector[start:stop]) for start, stop in slices]


def mean_of(result: RoundResult) -> Vector:
    """A committed round's mean gradient, shape [vector_length]; alike for all who committed it."""
    codecs = result.codecs or (0,) * len(result.slices)
    pieces = zip(result.mean, codecs, result.slices, strict=True)
    decoded = [ELEMENTWISE.codec(codec).decode(payload, stop - start) for payload, codec, (start, stop) in pieces]
    return np.concatenate(decoded)


def digest(contributors: Sequence[int], payload: Payload, codec: int = 0) -> bytes:
    """SHA-256 that names an averaged partition: context, codec, contributors' count and indexes (u32 LE), bytes."""
    hasher = hashlib.sha256(DIGEST_CONTEXT)
    hasher.update(struct.pack(f"<II{len(contributors)}I", codec, len(contributors), *contributors))
    hasher.update(payload)
    return hasher.digest()


def weights_hash(weights: Vector) -> bytes:
    """SHA-256 of the weights' float32 little-endian bytes in the manifest's tensor order."""
    hasher = hashlib.sha256()
    for start in range(0, weights.shape[0], BLOCK_ELEMENTS):
        hasher.update(as_bytes(weights[start : start + BLOCK_ELEMENTS]))
    return hasher.digest()


# The jobs of a round.


def sample_exponent(samples: int) -> int:
    """float16 parts are divided by 2 to this power, which is exact: a sum over many samples would leave its range."""
    return max(0, samples.bit_length() - 1)


WriteMean: TypeAlias = Callable[[Vector, Reduce], tuple[int, bytes]]
"""How an aggregator writes the mean of a job: the codec and the bytes."""


def write_float32(mean: Vector, job: Reduce) -> tuple[int, bytes]:
    """Exactly."""
    return CodecId.FLOAT32, as_bytes(mean)


def perform(job: Job, write_mean: WriteMean = write_float32) -> Reduced | Inspected:
    """Carry out a job of a `RoundMachine`. Slow: a host runs it in a thread."""
    return _reduce(job, write_mean) if isinstance(job, Reduce) else _inspect(job)


def part_fault(payload: Payload, length: int, norm_bound: float, codec: int = 0) -> str:
    """What is wrong with a part's numbers, or ""."""
    return _read(payload, length, norm_bound, codec)[1]


def _read(payload: Payload, length: int, norm_bound: float, codec: int, exponent: int = 0) -> tuple[Vector | None, str]:
    """The part's vector times 2 ** `exponent`, or what is wrong with it."""
    try:
        vector = ELEMENTWISE.codec(codec).decode(payload, length)
        if exponent:
            vector = np.ldexp(vector, exponent)
    except CodecError as error:
        return None, f"sent a part that cannot be read: {error}"
    norm = global_norm(vector)
    bound = norm_bound * (CODED_NORM_SLACK if codec else 1.0)
    if not math.isfinite(norm):
        return None, "sent numbers that are not finite"
    if norm > bound:
        return None, f"sent a part of norm {norm:.3g}, the bound is {bound:.3g}"
    return vector, ""


def part_is_sane(payload: Payload, length: int, samples: int, max_gradient_norm: float) -> bool:
    """Whether a part has `length` finite elements and a norm of at most `samples` * `max_gradient_norm`."""
    return not part_fault(payload, length, samples * max_gradient_norm)


def reduce_parts(parts: Sequence[Vector], samples: Sequence[int]) -> Vector:
    """Sum of the parts in the given order, over the float32 of the samples' sum; both in float32.

    Raises:
        ValueError: no parts, no samples, or parts of different lengths.
    """
    if not parts or len(parts) != len(samples) or sum(samples) < 1:
        raise ValueError("a reduction needs parts, and a count of samples for each")
    total = parts[0].copy()
    for part in parts[1:]:
        if part.shape != total.shape:
            raise ValueError("the parts differ in length")
        np.add(total, part, out=total)
    np.divide(total, np.float32(sum(samples)), out=total)
    return total


def _reduce(job: Reduce, write_mean: WriteMean) -> Reduced:
    faults: list[tuple[int, str]] = []
    sound: list[tuple[ReduceRow, Vector]] = []
    for row in job.rows:
        exponent = sample_exponent(row.samples) if row.codec == CodecId.FLOAT16 else 0
        bound = row.samples * job.max_gradient_norm
        vector, fault = _read(row.payload, job.length, bound, row.codec, exponent)
        if vector is None:
            faults.append((row.index, fault))
        else:
            sound.append((row, vector))
    if not sound:
        return Reduced((), b"", b"", tuple(faults), partition=job.partition)
    contributors = tuple(row.index for row, _ in sound)
    mean = reduce_parts([vector for _, vector in sound], [row.samples for row, _ in sound])
    codec, payload = write_mean(mean, job)
    named = digest(contributors, payload, codec)
    return Reduced(contributors, payload, named, tuple(faults), codec, job.partition)


def _inspect(job: Inspect) -> Inspected:
    # The mean of parts that were written coarsely may exceed the bound as much as they may.
    bound = job.max_gradient_norm * (CODED_NORM_SLACK if job.codec else 1.0) * MEAN_NORM_SLACK
    fault = part_fault(job.payload, job.length, bound, job.codec)
    return Inspected(job.partition, b"" if fault else digest(job.contributors, job.payload, job.codec), fault)


# Norms.


def global_norm(vector: Vector) -> float:
    """Euclidean norm in float64: exact squares, blocks of BLOCK_ELEMENTS, each and then all summed by a fixed tree.

    Not finite exactly when an element is not.
    """
    starts = range(0, vector.shape[0], BLOCK_ELEMENTS)
    sums = np.zeros(len(starts), dtype=np.float64)
    for row, start in enumerate(starts):
        block = vector[start : start + BLOCK_ELEMENTS].astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            sums[row] = _tree_sum(np.multiply(block, block))
    with np.errstate(invalid="ignore", over="ignore"):
        return math.sqrt(_tree_sum(sums))


def _tree_sum(values: Float64Vector) -> float:
    """Zero-pad to a power of two, then add the upper half to the lower until one is left: elementwise adds only."""
    length = 1 << max(0, values.shape[0] - 1).bit_length()
    tree = np.zeros(length, dtype=np.float64)
    tree[: values.shape[0]] = values
    while length > 1:
        length //= 2
        tree = tree[:length] + tree[length:]
    return float(tree[0])


# The beginning.


def initial_weights(model: Model) -> Vector:
    """The weights before step 0, the same bits on every machine; shape [parameter_count]."""
    return np.concatenate([_initial_tensor(tensor, model.seed) for tensor in model.tensors])


def _initial_tensor(tensor: Tensor, seed: int) -> Vector:
    count = math.prod(tensor.shape)
    if tensor.initial.kind == "zeros":
        return np.zeros(count, dtype=np.float32)
    if tensor.initial.kind == "ones":
        return np.ones(count, dtype=np.float32)
    return _uniform(count, seed, tensor.name, tensor.initial.bound)


def _uniform(count: int, seed: int, name: str, bound: float) -> Vector:
    """Uniform in [-bound, bound): the top 24 bits of a Philox 4x64-10 stream keyed by (seed, name).

    k * 2^-23 - 1 is exact in float32; the product with the bound is the one rounding. Philox: Salmon et al., SC 2011.
    """
    tensor_key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    stream = np.random.Philox(key=np.array([seed, tensor_key], dtype=np.uint64))
    result = np.empty(count, dtype=np.float32)
    for start in range(0, count, BLOCK_ELEMENTS):
        block = result[start : start + BLOCK_ELEMENTS]
        noise = np.asarray(stream.random_raw(block.shape[0]), dtype=np.uint64) >> np.uint64(40)
        np.multiply(noise.astype(np.float32), np.float32(2.0**-23), out=block)
        np.subtract(block, np.float32(1.0), out=block)
        np.multiply(block, np.float32(bound), out=block)
    return result


def initial_state(model: Model, manifest_hash: bytes) -> SharedState:
    """The shared state at step 0."""
    weights = initial_weights(model)
    return SharedState(
        global_step=0,
        weights=weights,
        moment1=np.zeros_like(weights),
        moment2=np.zeros_like(weights),
        manifest_hash=manifest_hash,
        scalars={BETA1_POWER: 1.0, BETA2_POWER: 1.0},
    )


# The optimizer.


def learning_rate_at(optimizer: Optimizer, global_step: int) -> float:
    """Rate of the step from `global_step` to the next: linear warm-up, then linear decay to `final_fraction`.

    The first step has 1/warmup_steps of the peak; from `decay_steps` on the rate stays at its floor.
    """
    peak, floor = optimizer.learning_rate, optimizer.learning_rate * optimizer.final_fraction
    if global_step < optimizer.warmup_steps:
        return peak * ((global_step + 1) / optimizer.warmup_steps)
    if global_step >= optimizer.decay_steps:
        return floor
    done = (global_step - optimizer.warmup_steps) / (optimizer.decay_steps - optimizer.warmup_steps)
    return peak - (peak - floor) * done


@dataclass(frozen=True, slots=True)
class _Constants:
    """One step's numbers, each rounded to float32 once."""

    clip: np.float32
    beta1: np.float32
    rest1: np.float32
    beta2: np.float32
    rest2: np.float32
    root_bias2: np.float32
    epsilon: np.float32
    step_size: np.float32
    decay: np.float32


def apply_step(state: SharedState, mean_gradient: Vector, optimizer: Optimizer) -> SharedState:
    """One AdamW step (Loshchilov and Hutter, arXiv 1711.05101) on the master weights and moments, in place.

    The gradient is first clipped to the global norm `clip_norm`. The returned state shares `state`'s vectors, which
    now belong to it. All checks come before the first change: when this raises, `state` is as it was.

    Raises:
        NonFiniteGradient: the gradient holds an infinity or a NaN.
        ValueError: vectors that do not match or cannot be written, or optimizer numbers that float32 cannot carry.
    """
    _check_vectors(state, mean_gradient)
    norm = global_norm(mean_gradient)
    if not math.isfinite(norm):
        raise NonFiniteGradient("the averaged gradient holds numbers that are not finite")
    power1 = float(state.scalars.get(BETA1_POWER, 1.0)) * optimizer.beta1
    power2 = float(state.scalars.get(BETA2_POWER, 1.0)) * optimizer.beta2
    constants = _constants(optimizer, state.global_step, norm, power1, power2)
    scratch = (np.empty(BLOCK_ELEMENTS, dtype=np.float32), np.empty(BLOCK_ELEMENTS, dtype=np.float32))
    vectors = (state.weights, state.moment1, state.moment2, mean_gradient)
    with np.errstate(all="ignore"):
        for start in range(0, state.weights.shape[0], BLOCK_ELEMENTS):
            _update_block([vector[start : start + BLOCK_ELEMENTS] for vector in vectors], constants, scratch)
    scalars = {**state.scalars, BETA1_POWER: power1, BETA2_POWER: power2}
    return replace(state, global_step=state.global_step + 1, scalars=scalars)


def _check_vectors(state: SharedState, mean_gradient: Vector) -> None:
    for name, vector in (("weights", state.weights), ("moment1", state.moment1), ("moment2", state.moment2)):
        if vector.dtype != np.float32 or vector.shape != mean_gradient.shape or vector.ndim != 1:
            raise ValueError(f"{name} is {vector.dtype} {vector.shape}, the gradient has shape {mean_gradient.shape}")
        if not vector.flags.writeable:
            raise ValueError(f"{name} cannot be written")
    if mean_gradient.dtype != np.float32:
        raise ValueError(f"the gradient is {mean_gradient.dtype}")


def _constants(optimizer: Optimizer, global_step: int, norm: float, power1: float, power2: float) -> _Constants:
    if not (power1 < 1.0 and power2 < 1.0) or not np.float32(optimizer.epsilon) > 0.0:
        raise ValueError("AdamW needs beta1 and beta2 below 1, and an epsilon that float32 can hold")
    rate = learning_rate_at(optimizer, global_step)
    return _Constants(
        clip=np.float32(optimizer.clip_norm / norm if norm > optimizer.clip_norm else 1.0),
        beta1=np.float32(optimizer.beta1),
        rest1=np.float32(1.0 - optimizer.beta1),
        beta2=np.float32(optimizer.beta2),
        rest2=np.float32(1.0 - optimizer.beta2),
        root_bias2=np.float32(math.sqrt(1.0 - power2)),
        epsilon=np.float32(optimizer.epsilon),
        step_size=np.float32(rate / (1.0 - power1)),
        decay=np.float32(1.0 - rate * optimizer.weight_decay),
    )


def _update_block(block: Sequence[Vector], c: _Constants, scratch: tuple[Vector, Vector]) -> None:
    """weights, moment1, moment2, gradient of one block, each of shape [<= BLOCK_ELEMENTS]."""
    weights, moment1, moment2, gradient = block
    clipped, work = (buffer[: weights.shape[0]] for buffer in scratch)
    np.multiply(gradient, c.clip, out=clipped)
    np.multiply(moment1, c.beta1, out=moment1)
    np.multiply(clipped, c.rest1, out=work)
    np.add(moment1, work, out=moment1)
    np.multiply(clipped, clipped, out=work)
    np.multiply(work, c.rest2, out=work)
    np.multiply(moment2, c.beta2, out=moment2)
    np.add(moment2, work, out=moment2)
    np.sqrt(moment2, out=work)
    np.divide(work, c.root_bias2, out=work)
    np.add(work, c.epsilon, out=work)
    np.divide(moment1, work, out=work)
    np.multiply(work, c.step_size, out=work)
    np.multiply(weights, c.decay, out=weights)
    np.subtract(weights, work, out=weights)
