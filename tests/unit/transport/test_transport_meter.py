import pytest

from engine.transport.meter import KEPT_SPANS, SAMPLE_BYTES, SPAN_SECONDS, LineRate, RateMeter


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


def test_two_links_share_a_line() -> None:
    line = LineRate()
    meters = [RateMeter(line), RateMeter(line)]
    for meter in meters:
        meter.busy(0.0)
    for second in range(1, 11):
        for meter in meters:
            meter.carried(SAMPLE_BYTES, float(second))
    assert line.bytes_per_second == pytest.approx(2 * SAMPLE_BYTES, rel=0.3)
    assert meters[0].bytes_per_second == pytest.approx(SAMPLE_BYTES)


def test_the_time_while_no_link_has_anything_does_not_count() -> None:
    line = LineRate()
    meter, other = RateMeter(line), RateMeter(line)
    meter.busy(0.0)
    meter.carried(SAMPLE_BYTES, 1.0)
    meter.idle()
    meter.idle()
    other.busy(1000.0)
    other.carried(SAMPLE_BYTES, 1001.0)
    other.idle()
    assert line.bytes_per_second == pytest.approx(SAMPLE_BYTES)


def test_the_fastest_of_the_last_spans_counts() -> None:
    line, now = LineRate(), 0.0
    meter = RateMeter(line)
    meter.busy(now)
    for seconds in [0.1] * 20 + [1.0] * 20:
        now += seconds
        meter.carried(SAMPLE_BYTES, now)
    fast = line.bytes_per_second
    assert fast == pytest.approx(SAMPLE_BYTES / 0.1)
    for _ in range(int(KEPT_SPANS * SPAN_SECONDS) + 60):
        now += 1.0
        meter.carried(SAMPLE_BYTES, now)
    assert line.bytes_per_second == pytest.approx(SAMPLE_BYTES / 1.0, rel=0.01)


def test_a_line_that_was_not_used_is_not_measured() -> None:
    assert LineRate().bytes_per_second is None
