"""How much of a disk is left to others."""

import pytest

from engine.contract.snapshot import Machine, Settings
from engine.governor.rules import disk_reserve_bytes

GB = 1_000_000_000


@pytest.mark.parametrize(
    ("total", "chosen", "reserve"),
    [
        (1000 * GB, 10 * GB, 10 * GB),
        (64 * GB, 10 * GB, 6.4 * GB),
        (16 * GB, 10 * GB, 2 * GB),
        (64 * GB, 20 * GB, 20 * GB),
        (None, 10 * GB, 10 * GB),
    ],
)
def test_a_tenth_of_a_small_disk_is_reserve_enough(total: int | None, chosen: int, reserve: float) -> None:
    reading = Machine(disk_total_bytes=total)
    assert disk_reserve_bytes(reading, Settings(disk_free_bytes=chosen)) == reserve
