import math
import time

import pytest

from engine.core.clock import ManualClock, SystemClock


def test_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(now=100.0, monotonic=5.0)
    assert (clock.now(), clock.monotonic()) == (100.0, 5.0)
    clock.advance(2.5)
    assert (clock.now(), clock.monotonic()) == (102.5, 7.5)


def test_setting_the_wall_clock_leaves_measured_time_alone() -> None:
    clock = ManualClock(now=100.0, monotonic=5.0)
    clock.set_wall(50.0)
    assert (clock.now(), clock.monotonic()) == (50.0, 5.0)


@pytest.mark.parametrize("seconds", [-0.1, -math.inf, math.nan])
def test_time_does_not_go_back(seconds: float) -> None:
    clock = ManualClock()
    with pytest.raises(ValueError, match="does not pass"):
        clock.advance(seconds)


def test_system_clock_reads_the_systems_clocks() -> None:
    clock = SystemClock()
    before_wall, before_monotonic = time.time(), time.monotonic()
    now, monotonic = clock.now(), clock.monotonic()
    assert before_wall <= now <= time.time()
    assert before_monotonic <= monotonic <= time.monotonic()
