import pytest

from engine.transport.line import LOSS_PROBES, MAX_WAITING, Line


def test_a_report_tells_when_its_probe_left_and_the_round_trip() -> None:
    line = Line(7)
    assert line.probe(1.0) == 7
    assert line.on_report(7, 1, 1.5) == 1.0
    assert line.round_trip_seconds == 0.5
    assert line.on_report(7, 1, 1.6) is None
    assert line.on_report(99, 1, 1.6) is None


def test_round_trips_are_smoothed() -> None:
    line = Line(0)
    line.on_round_trip(1.0)
    line.on_round_trip(2.0)
    assert line.round_trip_seconds == 1.125


@pytest.mark.parametrize(("every", "loss"), [(10, 0.1), (4, 0.25), (10**9, 0.0)])
def test_loss_is_the_share_of_probes_that_did_not_arrive(every: int, loss: float) -> None:
    line, arrived = Line(2**32 - 50), 0
    for place in range(10 * LOSS_PROBES):
        number = line.probe(float(place))
        if place % every:
            arrived += 1
            line.on_report(number, arrived, place + 0.05)
    assert line.loss == pytest.approx(loss, abs=0.011)


def test_probes_that_nobody_answers_are_forgotten() -> None:
    line = Line(0)
    first = line.probe(0.0)
    for _ in range(MAX_WAITING):
        line.probe(1.0)
    assert line.on_report(first, 1, 2.0) is None
    assert line.loss is None
