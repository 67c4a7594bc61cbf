import pytest

from engine.transport.meter import SAMPLE_BYTES, RateMeter


def test_nothing_is_claimed_before_there_was_enough() -> None:
    meter = RateMeter()
    assert meter.bytes_per_second is None
    meter.busy(0.0)
    meter.carried(SAMPLE_BYTES - 1, 1.0)
    assert meter.bytes_per_second is None


def test_bytes_over_busy_time() -> None:
    meter = RateMeter()
    meter.busy(10.0)
    meter.carried(SAMPLE_BYTES, 12.0)
    assert meter.bytes_per_second == SAMPLE_BYTES / 2.0


def test_idle_time_does_not_count() -> None:
    meter = RateMeter()
    for start in (0.0, 1000.0, 2000.0):
        meter.busy(start)
        meter.carried(SAMPLE_BYTES, start + 2.0)
        meter.idle()
    assert meter.bytes_per_second == pytest.approx(SAMPLE_BYTES / 2.0)


def test_the_present_outweighs_the_past() -> None:
    meter = RateMeter()
    now = 0.0
    for seconds in [1.0] * 20 + [4.0] * 20:
        meter.busy(now)
        now += seconds
        meter.carried(SAMPLE_BYTES, now)
    assert meter.bytes_per_second == pytest.approx(SAMPLE_BYTES / 4.0, rel=0.05)


def test_no_time_and_no_beginning_divide_by_nothing() -> None:
    meter = RateMeter()
    meter.carried(SAMPLE_BYTES, 5.0)
    meter.busy(6.0)
    meter.carried(SAMPLE_BYTES, 6.0)
    assert meter.bytes_per_second is None
