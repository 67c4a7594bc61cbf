"""What the benchmarks let the engine do: how many threads, and on which project. Pure."""

import math
from typing import Final

import msgspec

from engine.contract.settings import MIN_CPU_SHARE_PERCENT
from engine.manifest.schema import Manifest

LONE_NAME: Final = "lone-volunteer"


def whole_threads(cores_logical: int) -> tuple[int, int]:
    """The fewest threads that some CPU share in whole percent lets run all the time, and that share.

    Raises:
        ValueError: there are no cores.
    """
    if cores_logical < 1:
        raise ValueError("cores_logical must be positive")
    for threads in range(1, cores_logical):
        share, rest = divmod(100 * threads, cores_logical)
        if rest == 0 and share >= MIN_CPU_SHARE_PERCENT:
            return threads, share
    return cores_logical, 100


def lone_project(bundled: Manifest, samples_per_second: float, step_seconds: float) -> Manifest:
    """`bundled` for one volunteer alone: it may step by itself, and does so about every `step_seconds`.

    Raises:
        ValueError: a number is not positive.
    """
    if samples_per_second <= 0.0 or step_seconds <= 0.0:
        raise ValueError("the rate and the time between steps must be positive")
    micro_batches = math.ceil(samples_per_second * step_seconds / bundled.training.micro_batch_samples)
    training = msgspec.structs.replace(
        bundled.training,
        minimum_peers=1,
        target_batch_samples=micro_batches * bundled.training.micro_batch_samples,
    )
    return msgspec.structs.replace(bundled, name=LONE_NAME, training=training)
