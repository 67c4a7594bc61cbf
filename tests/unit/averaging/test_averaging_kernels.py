"""Numbers that come out alike on every machine: exact references, committed hashes, torch for the sense of it."""

import functools
import hashlib
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.averaging import kernels
from engine.averaging.effects import Inspect, Inspected, Reduce, Reduced, ReduceRow
from engine.checkpoints.state import SharedState, Vector
from engine.manifest.schema import Initial, Model, Optimizer, Tensor

OPTIMIZER = Optimizer(
    kind="adamw",
    learning_rate=3e-3,
    beta1=0.9,
    beta2=0.98,
    epsilon=1e-8,
    weight_decay=0.05,
    warmup_steps=4,
    decay_steps=40,
    final_fraction=0.1,
    clip_norm=1.0,
)
MODEL = Model(
    architecture="test",
    config={},
    tensors=(
        Tensor(name="a.weight", shape=(300, 401), initial=Initial(kind="uniform", bound=0.05)),
        Tensor(name="a.bias", shape=(7,), initial=Initial(kind="zeros")),
        Tensor(name="norm", shape=(5,), initial=Initial(kind="ones")),
        Tensor(name="b.weight", shape=(11, 3), initial=Initial(kind="uniform", bound=0.05)),
    ),
    seed=2024,
)


def noise(length: int, seed: int, scale: float = 1.0) -> Vector:
    """Uniform float32 in [-scale, scale), by integers and elementwise arithmetic only."""
    raw = np.asarray(np.random.Philox(key=seed).random_raw(length), dtype=np.uint64) >> np.uint64(40)
    unit = raw.astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)
    return (unit * np.float32(scale)).astype(np.float32)


def fresh(length: int) -> SharedState:
    return SharedState(
        global_step=0,
        weights=noise(length, 1, 0.1),
        moment1=np.zeros(length, dtype=np.float32),
        moment2=np.zeros(length, dtype=np.float32),
        manifest_hash=bytes(32),
    )


# Reduction.


@given(st.lists(st.integers(1, 2**24), min_size=1, max_size=6), st.integers(1, 3000))
def test_reduce_is_the_ordered_sum_over_all_samples(samples: list[int], length: int) -> None:
    parts = [noise(length, seed, 1000.0) for seed in range(len(samples))]
    expected = functools.reduce(np.add, parts) / np.float32(sum(samples))
    got = kernels.reduce_parts(parts, samples)
    assert got.tobytes() == expected.astype("<f4").tobytes()


def test_reduce_keeps_the_sign_of_zero_and_its_input() -> None:
    part = np.array([-0.0, 1.0], dtype="<f4")
    assert kernels.reduce_parts([part], [2]).tobytes() == np.array([-0.0, 0.5], dtype="<f4").tobytes()
    assert part.tobytes() == np.array([-0.0, 1.0], dtype="<f4").tobytes()


@pytest.mark.parametrize(("lengths", "samples"), [([], []), ([1], [0]), ([1], [1, 2]), ([2, 1], [1, 1])])
def test_a_reduction_of_nothing_or_of_unequal_parts_is_refused(lengths: list[int], samples: list[int]) -> None:
    with pytest.raises(ValueError, match="parts"):
        kernels.reduce_parts([np.zeros(length, dtype=np.float32) for length in lengths], samples)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0, 4.0], ""),
        ([3.0, 4.001], "norm"),
        ([math.nan, 0.0], "a value of nan"),
        ([math.inf, 0.0], "a value of inf"),
        ([3e38, 3e38], "the limit is"),
        ([1e30, 1e30], "norm"),
        ([1.0], "bytes"),
    ],
)
def test_parts_are_checked(values: list[float], expected: str) -> None:
    payload = np.array(values, dtype="<f4").tobytes()
    fault = kernels.part_fault(payload, 2, 5 * 1.0)
    assert expected in fault
    assert kernels.part_is_sane(payload, 2, 5, 1.0) == (fault == "")
    assert bool(expected) == bool(fault)


def test_a_bad_part_costs_its_sender_and_nobody_else() -> None:
    good, bad = noise(10, 1), noise(10, 2)
    bad[3] = np.nan
    rows = (ReduceRow(0, 2, good.tobytes()), ReduceRow(1, 3, bad.tobytes()), ReduceRow(4, 1, good.tobytes()))
    reduced = kernels.perform(Reduce(rows, 10, 100.0))
    assert isinstance(reduced, Reduced)
    assert reduced.contributors == (0, 4)
    assert reduced.payload == ((good + good) / np.float32(3)).tobytes()
    assert reduced.digest == kernels.digest((0, 4), reduced.payload)
    assert [(index, "a value of nan" in what) for index, what in reduced.faults] == [(1, True)]


def test_only_bad_parts_reduce_to_nothing() -> None:
    reduced = kernels.perform(Reduce((ReduceRow(2, 1, np.full(4, 9.0, dtype="<f4").tobytes()),), 4, 1.0))
    assert isinstance(reduced, Reduced)
    assert (reduced.contributors, reduced.payload, len(reduced.faults)) == ((), b"", 1)


def test_an_average_is_inspected() -> None:
    payload = noise(8, 3).tobytes()
    sound = kernels.perform(Inspect(1, (0, 2), payload, 8, 10.0))
    assert sound == Inspected(1, kernels.digest((0, 2), payload), "")
    steep = kernels.perform(Inspect(1, (0, 2), payload, 8, 0.01))
    assert isinstance(steep, Inspected)
    assert "norm" in steep.fault


def test_a_digest_names_contributors_and_bytes() -> None:
    context, payload = b"potluck partition v2\n", b"abcd"
    by_hand = context + b"".join(number.to_bytes(4, "little") for number in (1, 2, 0, 3)) + payload
    assert kernels.digest((0, 3), payload, 1) == hashlib.sha256(by_hand).digest()
    alike = [((0, 3), 0), ((0,), 0), ((3, 0), 0), ((0, 3), 1)]
    assert len({kernels.digest(contributors, payload, codec) for contributors, codec in alike}) == 4


def test_weights_hash_is_that_of_the_little_endian_bytes() -> None:
    weights = noise(200_000, 9)
    assert kernels.weights_hash(weights) == hashlib.sha256(weights.astype("<f4").tobytes()).digest()


# Norms.


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), max_size=40))
def test_the_norm_is_the_norm(values: list[float]) -> None:
    vector = np.array(values, dtype=np.float32)
    exact = math.sqrt(math.fsum(float(value) ** 2 for value in vector))
    assert kernels.global_norm(vector) == pytest.approx(exact, rel=1e-14)


def test_the_norm_adds_by_a_fixed_tree() -> None:
    vector = noise(3 * kernels.BLOCK_ELEMENTS + 77, 4)

    def tree(values: list[float]) -> float:
        while len(values) & (len(values) - 1):
            values = [*values, 0.0]
        while len(values) > 1:
            half = len(values) // 2
            values = [values[k] + values[half + k] for k in range(half)]
        return values[0]

    squares = [float(value) * float(value) for value in vector]
    starts = range(0, len(squares), kernels.BLOCK_ELEMENTS)
    by_hand = math.sqrt(tree([tree(squares[start : start + kernels.BLOCK_ELEMENTS]) for start in starts]))
    assert kernels.global_norm(vector) == by_hand


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 70_000])
def test_the_norm_is_not_finite_when_an_element_is_not(bad: float, at: int) -> None:
    vector = np.full(70_001, 3e38, dtype=np.float32)
    assert math.isfinite(kernels.global_norm(vector))
    vector[at] = bad
    assert not math.isfinite(kernels.global_norm(vector))


# The beginning.


def test_initial_weights_are_the_same_bits_everywhere() -> None:
    """A committed hash: when it changes, runs of different versions no longer begin alike."""
    weights = kernels.initial_weights(MODEL)
    assert weights.dtype == np.float32
    assert weights.shape == (300 * 401 + 7 + 5 + 33,)
    assert kernels.weights_hash(weights).hex() == "4db408ba2bfce432a26162d2b8d864611cf6d7c1b7c3fb629c449f9a8e45f749"


def test_initial_weights_follow_their_declaration() -> None:
    weights = kernels.initial_weights(MODEL)
    first, rest = weights[: 300 * 401], weights[300 * 401 :]
    assert float(first.min()) >= -0.05
    assert float(first.max()) < 0.05
    assert abs(float(first.mean())) < 0.001
    assert float(first.std()) == pytest.approx(0.05 / math.sqrt(3.0), rel=0.01)
    assert rest[:7].tolist() == [0.0] * 7
    assert rest[7:12].tolist() == [1.0] * 5
    assert rest[12:].tolist() != first[:33].tolist()


# The optimizer.


def test_adamw_gives_the_committed_bits() -> None:
    """A committed hash over weights, moments and scalars after five steps, two of them clipped."""
    state = fresh(150_001)
    for step in range(5):
        state = kernels.apply_step(state, noise(150_001, 50 + step, 0.002 * (step + 1)), OPTIMIZER)
    hasher = hashlib.sha256()
    for vector in (state.weights, state.moment1, state.moment2):
        hasher.update(vector.astype("<f4").tobytes())
    hasher.update(repr(sorted(state.scalars.items())).encode())
    assert state.global_step == 5
    assert hasher.hexdigest() == "2593a97b685405c711cb53cb1412142529283ba4d9eb41cedefc1b9a31afd584"


def test_adamw_is_torchs_adamw_up_to_rounding() -> None:
    length, steps = 70_000, 12
    state = fresh(length)
    parameter = torch.nn.Parameter(torch.from_numpy(state.weights.copy()))
    peer = torch.optim.AdamW([parameter], lr=1.0, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.05, foreach=False)
    for step in range(steps):
        gradient = noise(length, 90 + step, 0.01)
        parameter.grad = torch.from_numpy(gradient.copy())
        torch.nn.utils.clip_grad_norm_([parameter], OPTIMIZER.clip_norm)
        peer.param_groups[0]["lr"] = kernels.learning_rate_at(OPTIMIZER, step)
        peer.step()
        state = kernels.apply_step(state, gradient, OPTIMIZER)
    np.testing.assert_allclose(state.weights, parameter.detach().numpy(), rtol=2e-5, atol=2e-7)


def test_one_element_by_hand() -> None:
    state = SharedState(0, np.array([0.5], np.float32), np.zeros(1, np.float32), np.zeros(1, np.float32), bytes(32))
    kernels.apply_step(state, np.array([0.25], np.float32), OPTIMIZER)
    f = np.float32
    gradient, rate = f(0.25), 3e-3 * (1 / 4)
    moment1 = gradient * f(1.0 - 0.9)
    moment2 = (gradient * gradient) * f(1.0 - 0.98)
    step = moment1 / (np.sqrt(moment2) / f(math.sqrt(1.0 - 0.98)) + f(1e-8)) * f(rate / (1.0 - 0.9))
    assert state.weights[0] == f(0.5) * f(1.0 - rate * 0.05) - step
    assert (state.moment1[0], state.moment2[0]) == (moment1, moment2)


@pytest.mark.parametrize("split", [1, 1000, kernels.BLOCK_ELEMENTS])
def test_blocks_do_not_show_in_the_result(split: int) -> None:
    length = kernels.BLOCK_ELEMENTS + 1000
    whole, gradient = fresh(length), noise(length, 6, 1e-4)
    pieces = [fresh(length), fresh(length)]
    kernels.apply_step(whole, gradient, OPTIMIZER)
    parts = []
    for piece, cut in zip(pieces, (slice(0, split), slice(split, None)), strict=True):
        some = SharedState(0, piece.weights[cut], piece.moment1[cut], piece.moment2[cut], bytes(32))
        kernels.apply_step(some, gradient[cut], OPTIMIZER)
        parts.append(some.weights)
    assert np.concatenate(parts).tobytes() == whole.weights.tobytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_changes_nothing(bad: float) -> None:
    state = fresh(70_000)
    before = (state.weights.tobytes(), state.moment1.tobytes(), state.moment2.tobytes(), dict(state.scalars))
    gradient = noise(70_000, 3)
    gradient[-1] = bad
    with pytest.raises(kernels.NonFiniteGradient):
        kernels.apply_step(state, gradient, OPTIMIZER)
    assert before == (state.weights.tobytes(), state.moment1.tobytes(), state.moment2.tobytes(), state.scalars)


def test_vectors_that_do_not_match_are_refused() -> None:
    state = fresh(10)
    with pytest.raises(ValueError, match="shape"):
        kernels.apply_step(state, noise(11, 1), OPTIMIZER)
    with pytest.raises(ValueError, match="float64"):
        kernels.apply_step(state, np.zeros(10), OPTIMIZER)  # type: ignore[arg-type]
    state.moment2.flags.writeable = False
    with pytest.raises(ValueError, match="moment2 cannot be written"):
        kernels.apply_step(state, noise(10, 1), OPTIMIZER)
    assert state.weights.tobytes() == fresh(10).weights.tobytes()


def test_numbers_that_float32_cannot_carry_are_refused() -> None:
    for field in ({"beta1": 1.0}, {"beta2": 1.0}, {"epsilon": 1e-60}):
        optimizer = Optimizer(**{**{name: getattr(OPTIMIZER, name) for name in OPTIMIZER.__struct_fields__}, **field})
        with pytest.raises(ValueError, match="AdamW needs"):
            kernels.apply_step(fresh(4), noise(4, 1), optimizer)


def test_the_rate_warms_up_then_decays_to_its_floor() -> None:
    rates = [kernels.learning_rate_at(OPTIMIZER, step) for step in range(60)]
    assert rates[0] == 3e-3 / 4
    assert rates[3] == 3e-3
    assert rates[4] == 3e-3
    assert all(first > second for first, second in itertools.pairwise(rates[4:41]))
    assert rates[40:] == [pytest.approx(3e-4)] * 20


def test_the_initial_state_is_valid() -> None:
    state = kernels.initial_state(MODEL, b"m" * 32)
    state.validate(300 * 401 + 7 + 5 + 33)
    assert state.global_step == 0
