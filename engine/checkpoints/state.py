"""What every peer of a run holds alike: the whole result of training so far."""

import math
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float32]

MAX_SCALARS: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class SharedState:
    """Weights and AdamW moments after `global_step` optimizer steps.

    The three vectors are float32 of shape [parameter_count], in the manifest's tensor order. `scalars` are the
    optimizer's numbers beside them, such as running beta products. Nothing here is peer-specific.
    """

    global_step: int
    weights: Vector
    moment1: Vector
    moment2: Vector
    manifest_hash: bytes  # 32 bytes
    scalars: dict[str, float] = field(default_factory=dict)

    @property
    def parameter_count(self) -> int:
        """Elements of each vector."""
        return int(self.weights.shape[0])

    def validate(self, parameter_count: int) -> None:
        """Check what the types cannot say.

        Raises:
            ValueError: a vector of another shape or type, a number that is not finite, a negative second moment,
                a bad step or hash. The message names the field.
        """
        if self.global_step < 0:
            raise ValueError("global_step is negative")
        if len(self.manifest_hash) != 32:
            raise ValueError("manifest_hash is not 32 bytes")
        if len(self.scalars) > MAX_SCALARS:
            raise ValueError(f"scalars has more than {MAX_SCALARS} entries")
        for name, number in self.scalars.items():
            if not math.isfinite(number):
                raise ValueError(f"scalars[{name[:40]!r}] is not finite")
        for name in ("weights", "moment1", "moment2"):
            _check_vector(name, getattr(self, name), parameter_count)
        if self.moment2.size and float(self.moment2.min()) < 0.0:
            raise ValueError("moment2 holds a negative number")


def _check_vector(name: str, vector: Vector, parameter_count: int) -> None:
    if vector.dtype != np.float32 or vector.shape != (parameter_count,):
        raise ValueError(
            f"{name} is {vector.dtype} of shape {list(vector.shape)}, expected float32 [{parameter_count}]"
        )
    if not bool(np.isfinite(vector).all()):
        raise ValueError(f"{name} holds a number that is not finite")
