"""How fast parts are encoded and decoded: `make bench-codecs`. The last line of standard output is JSON.

Each codec takes turns with a copy of the same float32 vector into memory that is there already, and each figure is the
median over the turns; `..._of_copy` is the rate over that of the copy measured just before. The values are normally
distributed, with magnitudes that differ from block to block as those of layers do. PowerSGD has them as square
matrices; its products take the threads that numpy's library takes (OPENBLAS_NUM_THREADS=1: one), all else one.

The goal: a line of 100 Mbit/s carries 12.5 million int8 values a second; at 125 million that is a tenth of a core.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from engine.averaging.codecs.base import Codec, Vector
from engine.averaging.codecs.feedback import PartFeedback
from engine.averaging.codecs.float16 import Float16Codec
from engine.averaging.codecs.float32 import Float32Codec
from engine.averaging.codecs.int8 import QUANTISED_BLOCK_ELEMENTS, Int8Codec
from engine.averaging.codecs.layout import pieces_of
from engine.averaging.codecs.powersgd import PowerSgdCodec
from engine.averaging.codecs.streaming import decode_chunks, encode_chunks
from tests.benchmarks.report import Goal, goal, line, paired_ratios, rounded, spread

MATRIX_SIDE: Final = 1024
RANK: Final = 4
GOAL_MILLION_VALUES_PER_SECOND: Final = 125.0

Work = Callable[[], object]


def sample(matrices: int) -> Vector:
    """Shape [matrices * MATRIX_SIDE * MATRIX_SIDE]."""
    dice = np.random.default_rng(2024)
    blocks = dice.standard_normal(
        (matrices * MATRIX_SIDE * MATRIX_SIDE // QUANTISED_BLOCK_ELEMENTS, QUANTISED_BLOCK_ELEMENTS), dtype=np.float32
    )
    blocks *= np.exp2(dice.integers(-12, 4, (blocks.shape[0], 1))).astype(np.float32)
    return blocks.reshape(-1)


def _seconds(work: Work) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def rates(work: Work, values: Vector, turns: int) -> tuple[float, float]:
    """Million values a second, and the rate over that of a copy; medians."""
    target = np.empty_like(values)
    copies, works = [], []
    work()
    for _ in range(turns):
        copies.append(_seconds(lambda: np.copyto(target, values)))
        works.append(_seconds(work))
    million = [values.shape[0] / seconds / 1e6 for seconds in works]
    return spread(million).median, spread(paired_ratios(copies, works)).median


def measure(codec: Codec, values: Vector, turns: int) -> dict[str, Any]:
    """One codec at once and by chunks."""
    count = values.shape[0]
    payload = codec.encode(values).payload
    chunks = [chunk.payload for chunk in encode_chunks(codec, values)]
    feedback = PartFeedback(count)
    feedback.begin()
    feedback.encode(codec, 0, values)
    feedback.commit()

    def with_feedback() -> None:
        feedback.begin()
        feedback.encode(codec, 0, values)
        feedback.commit()

    figures: dict[str, Any] = {"bytes_per_value": rounded(len(payload) / count)}
    for name, work in (
        ("encode", lambda: codec.encode(values)),
        ("decode", lambda: codec.decode(payload, count)),
        ("encode_chunks", lambda: sum(chunk.count for chunk in encode_chunks(codec, values))),
        ("decode_chunks", lambda: decode_chunks(codec, chunks, count)),
        ("encode_with_feedback", with_feedback),
    ):
        million, of_copy = rates(work, values, turns)
        figures[f"{name}_million_values_per_second"] = million
        figures[f"{name}_of_copy"] = of_copy
    return figures


def run(matrices: int, turns: int) -> str:
    """The JSON line."""
    values = sample(matrices)
    shapes = ((MATRIX_SIDE, MATRIX_SIDE),) * matrices
    low_rank = PowerSgdCodec(pieces_of(shapes, 0, values.shape[0], RANK), RANK)
    codecs: tuple[Codec, ...] = (Float32Codec(), Float16Codec(), Int8Codec(), low_rank)
    copy_million, _ = rates(values.copy, values, turns)
    figures: dict[str, Any] = {
        "values": values.shape[0],
        "turns": turns,
        "processors": os.cpu_count(),
        "load_average": rounded(os.getloadavg()[0]) if hasattr(os, "getloadavg") else None,
        "new_copy_million_values_per_second": copy_million,
        "powersgd_rank": RANK,
    }
    goals: dict[str, Goal] = {}
    for codec in codecs:
        name = codec.codec_id.name.lower()
        figures[name] = measure(codec, values, turns)
        for step in ("encode", "decode"):
            got = figures[name][f"{step}_million_values_per_second"]
            goals[f"{name}_{step}_million_values_per_second"] = goal(got, GOAL_MILLION_VALUES_PER_SECOND, "at_least")
    return line("codecs", figures, goals)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the JSON line last."""
    parser = argparse.ArgumentParser(prog="make bench-codecs", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=9, choices=range(1, 101), metavar="N", help="1 to 100 (default 9)")
    parser.add_argument(
        "--matrices", type=int, default=8, choices=range(1, 65), metavar="N", help="of 2^20 values (default 8)"
    )
    options = parser.parse_args(arguments)
    sys.stdout.write(run(options.matrices, options.turns) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
