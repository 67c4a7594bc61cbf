"""Shared states with recognisable numbers."""

import numpy as np

from engine.checkpoints.state import SharedState

PROJECT = bytes(range(32))


def make_state(
    parameter_count: int, global_step: int = 5, manifest_hash: bytes = PROJECT, seed: int = 0
) -> SharedState:
    """Valid, and the same for the same arguments."""
    generator = np.random.default_rng((seed, global_step))
    return SharedState(
        global_step=global_step,
        weights=generator.normal(size=parameter_count).astype(np.float32),
        moment1=generator.normal(size=parameter_count).astype(np.float32),
        moment2=generator.random(size=parameter_count).astype(np.float32),
        manifest_hash=manifest_hash,
        scalars={"beta1_product": 0.9**global_step, "beta2_product": 0.95**global_step},
    )


def assert_same_state(one: SharedState, other: SharedState) -> None:
    """Bit for bit."""
    assert one.global_step == other.global_step
    assert one.manifest_hash == other.manifest_hash
    assert one.scalars == other.scalars
    for name in ("weights", "moment1", "moment2"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
