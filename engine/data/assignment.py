"""Which samples a peer takes: a pure function of run seed, peer, step and micro-batch, so that work can be recomputed.

Counter-based: SHA-256 of the coordinates gives the numbers directly, so any sample can be found without drawing those
before it, and the streams of two peers share samples no more often than two fair draws would.
"""

import hashlib
from collections.abc import Iterator
from typing import Final

_CONTEXT: Final = b"potluck samples v1\n"
_NUMBERS_PER_BLOCK: Final = 4
_NUMBER_BYTES: Final = 8


def sample_offsets(
    run_seed: int, peer_id: str, global_step: int, micro_batch: int, count: int, choices: int
) -> tuple[int, ...]:
    """Starting offsets of `count` samples, each in [0, choices), near-uniform (bias below choices / 2**64).

    Raises:
        ValueError: `choices` or `count` is not positive, or another number is negative.
    """
    if choices < 1 or count < 1 or min(run_seed, global_step, micro_batch) < 0:
        raise ValueError("counts must be positive and coordinates must not be negative")
    key = _CONTEXT + f"{run_seed}\n{peer_id}\n{global_step}\n{micro_batch}\n".encode()
    numbers = _numbers(key)
    return tuple((next(numbers) * choices) >> (8 * _NUMBER_BYTES) for _ in range(count))


def held_out_offsets(count: int, choices: int) -> tuple[int, ...]:
    """The same evenly spread offsets for everyone, each in [0, choices), so that losses can be compared.

    Raises:
        ValueError: `choices` or `count` is not positive.
    """
    if choices < 1 or count < 1:
        raise ValueError("counts must be positive")
    return tuple(index * choices // count for index in range(count))


def is_held_out(name: str, percent: int) -> bool:
    """Whether a document is kept away from training, by the hash of its name: alike on every machine."""
    digest = hashlib.sha256(b"potluck held out v1\n" + name.encode()).digest()
    return int.from_bytes(digest[:4], "big") % 100 < percent


def _numbers(key: bytes) -> Iterator[int]:
    """Unsigned 64-bit numbers."""
    block = 0
    while True:
        digest = hashlib.sha256(key + block.to_bytes(8, "big")).digest()
        for place in range(_NUMBERS_PER_BLOCK):
            yield int.from_bytes(digest[place * _NUMBER_BYTES : (place + 1) * _NUMBER_BYTES], "big")
        block += 1
