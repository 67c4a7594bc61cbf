"""The delay controller against a simulated bottleneck. Every figure is of virtual time, the same on any machine."""

import pytest

from engine.transport.ledbat import (
    BASE_MINUTES,
    IDLE_SECONDS,
    MIN_WINDOW_BYTES,
    TARGET_SECONDS,
    DelayController,
    MinimumOverMinutes,
)
from tests.helpers.bottleneck import Bottleneck, Sender, Tcp, quantile

MBIT = 125_000.0


def line_with(
    rate: float, round_trip: float, *senders: Sender, buffer: float = 0.2, tcp: Tcp | None = None
) -> Bottleneck:
    line = Bottleneck(rate, round_trip, buffer)
    line.senders = list(senders)
    line.tcp = tcp
    return line


@pytest.mark.parametrize(
    ("mbit", "round_trip", "least"),
    [(50, 0.05, 0.9), (10, 0.03, 0.9), (100, 0.02, 0.9), (10, 0.002, 0.9), (5, 0.15, 0.85), (2, 0.04, 0.9)],
)
def test_a_free_line_is_filled_and_its_queue_stays_small(mbit: float, round_trip: float, least: float) -> None:
    line = line_with(mbit * MBIT, round_trip, Sender(DelayController(0.0)))
    line.run(30.0)
    assert line.senders[0].delivered >= least * mbit * MBIT * 30.0
    later = line.queues[5000:]
    assert quantile(later, 0.95) <= 0.030
    assert quantile(later, 0.5) <= TARGET_SECONDS + 0.005


@pytest.mark.parametrize(("mbit", "round_trip", "buffer"), [(50, 0.05, 0.1), (10, 0.03, 0.1), (10, 0.03, 0.3)])
def test_a_tcp_flow_keeps_the_line(mbit: float, round_trip: float, buffer: float) -> None:
    tcp = Tcp(began_at=10.0)
    line = line_with(mbit * MBIT, round_trip, Sender(DelayController(0.0)), buffer=buffer, tcp=tcp)
    line.run(15.0)
    before = tcp.delivered
    line.run(45.0)
    assert tcp.delivered - before >= 0.85 * mbit * MBIT * 30.0


def test_the_line_is_taken_again_when_the_tcp_flow_ends() -> None:
    tcp = Tcp(began_at=5.0)
    line = line_with(20 * MBIT, 0.04, Sender(DelayController(0.0)), tcp=tcp)
    line.run(20.0)
    line.tcp = None
    line.run(26.0)
    before = line.senders[0].delivered
    line.run(31.0)
    assert line.senders[0].delivered - before >= 0.85 * 20 * MBIT * 5.0


def test_two_links_share_without_a_longer_queue() -> None:
    first, second = Sender(DelayController(0.0)), Sender(DelayController(10.0), began_at=10.0)
    line = line_with(20 * MBIT, 0.04, first, second)
    line.run(70.0)
    both = [sender.delivered for sender in line.senders]
    line.run(130.0)
    late = [sender.delivered - before for sender, before in zip(line.senders, both, strict=True)]
    assert sum(late) >= 0.9 * 20 * MBIT * 60.0
    assert min(late) >= 0.05 * sum(late)
    assert quantile(line.queues[70_000:], 0.95) <= 0.035


@pytest.mark.parametrize("drift", [100e-6, -100e-6])
def test_clocks_that_drift_apart_are_not_taken_for_a_queue(drift: float) -> None:
    line = line_with(5 * MBIT, 0.04, Sender(DelayController(0.0), clock_drift=drift))
    line.run(240.0)
    before = line.senders[0].delivered
    line.run(300.0)
    assert line.senders[0].delivered - before >= 0.85 * 5 * MBIT * 60.0
    assert quantile(line.queues[240_000:], 0.95) <= 0.035


def test_a_rate_that_is_not_used_does_not_grow() -> None:
    sender = Sender(DelayController(0.0), demand=2 * MBIT)
    line = line_with(50 * MBIT, 0.05, sender)
    line.run(60.0)
    assert sender.controller.bytes_per_second <= 4 * 2 * MBIT


def test_after_a_long_pause_it_begins_carefully() -> None:
    controller = DelayController(0.0)
    line = line_with(50 * MBIT, 0.05, Sender(controller))
    line.run(20.0)
    before = controller.window_bytes
    controller.on_sent(1000, line.now + IDLE_SECONDS / 2)
    assert controller.window_bytes == before
    controller.on_sent(1000, line.now + 2 * IDLE_SECONDS)
    assert controller.window_bytes == before / 2


def test_a_queue_of_others_takes_it_down_to_the_least_and_no_further() -> None:
    controller, now = DelayController(0.0), 0.0
    controller.on_sample(5.0, 0.05, 0, now)
    for _ in range(400):
        now += 0.025
        controller.on_sent(5000, now)
        controller.on_sample(5.2, 0.25, 0, now)
    assert controller.window_bytes == MIN_WINDOW_BYTES
    assert controller.queue_seconds == pytest.approx(0.2)


def test_one_late_sample_is_no_queue() -> None:
    controller = DelayController(0.0)
    controller.on_sample(5.0, 0.05, 0, 0.0)
    controller.on_sample(5.0, 0.05, 0, 0.1)
    controller.on_sample(5.3, 0.35, 0, 0.2)
    assert controller.queue_seconds == 0.0


def test_the_minimum_forgets_after_some_minutes() -> None:
    minimum = MinimumOverMinutes()
    minimum.add(1.0, 0.0)
    minimum.add(2.0, 30.0)
    for minute in range(1, BASE_MINUTES):
        minimum.add(3.0, 60.0 * minute)
    assert minimum.lowest == 1.0
    minimum.add(4.0, 60.0 * BASE_MINUTES)
    assert minimum.lowest == 3.0
