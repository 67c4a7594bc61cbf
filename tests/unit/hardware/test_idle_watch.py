import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.clock import ManualClock
from engine.hardware.answer import Answer
from engine.hardware.idle_watch import SAME_INPUT_SECONDS, IdleWatcher, ReturnDetector

LIMIT_SECONDS = 20.0


def test_nobody_comes_back() -> None:
    detector = ReturnDetector()
    assert not any(detector.saw_input(300.0 + step * 0.1, 1000.0 + step * 0.1) for step in range(100))


def test_somebody_comes_back() -> None:
    detector = ReturnDetector()
    assert not detector.saw_input(300.0, 1000.0)
    assert not detector.saw_input(300.1, 1000.1)
    assert detector.saw_input(0.05, 1000.2)


@given(st.lists(st.floats(-SAME_INPUT_SECONDS / 2, SAME_INPUT_SECONDS / 2 - 1e-6), min_size=2, max_size=30))
def test_a_source_that_rounds_is_no_input(errors: list[float]) -> None:
    detector = ReturnDetector()
    for step, error in enumerate(errors):
        assert not detector.saw_input(300.0 + step + error, 1000.0 + step)


@given(st.floats(5.0, 1e6), st.floats(0.0, 0.2), st.floats(0.1, 4.0))
def test_any_input_after_a_rest_is_noticed(idle: float, since: float, later: float) -> None:
    detector = ReturnDetector()
    detector.saw_input(idle, 1000.0)
    assert detector.saw_input(min(since, later), 1000.0 + later)


class Hands:
    """A source of idle times whose answers a test chooses, and that says when it was asked."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.idle: float | None = 300.0
        self.asked = threading.Semaphore(0)
        self.noticed = threading.Semaphore(0)
        self.watcher = IdleWatcher(self._read, self.noticed.release, monotonic=self.clock.monotonic)

    def _read(self) -> Answer[float]:
        self.asked.release()
        return Answer(self.idle, "hands")

    def looked(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.asked.acquire(timeout=LIMIT_SECONDS)


@pytest.fixture
def hands() -> Hands:
    return Hands()


def test_the_watcher_tells_once(hands: Hands) -> None:
    try:
        hands.watcher.arm()
        hands.looked(3)
        assert hands.watcher.armed
        hands.idle = 0.0
        assert hands.noticed.acquire(timeout=LIMIT_SECONDS)
        assert not hands.watcher.armed
        assert not hands.noticed.acquire(blocking=False)
    finally:
        hands.watcher.close()


def test_armed_again_it_tells_of_later_input_only(hands: Hands) -> None:
    try:
        for idle in (0.0, 0.0):
            hands.idle = 300.0
            hands.clock.advance(301.0)
            hands.watcher.arm()
            hands.looked()
            hands.looked()
            hands.idle = idle
            assert hands.noticed.acquire(timeout=LIMIT_SECONDS)
    finally:
        hands.watcher.close()


def test_disarmed_it_does_not_look(hands: Hands) -> None:
    hands.watcher.arm()
    hands.looked()
    hands.watcher.disarm()
    assert not hands.watcher.armed
    hands.watcher.close()
    while hands.asked.acquire(blocking=False):
        pass
    hands.watcher.arm()
    assert not hands.watcher.armed
    assert not hands.asked.acquire(blocking=False)


def test_a_source_that_fails_ends_nothing(hands: Hands) -> None:
    class Broken(Exception):
        pass

    asked = threading.Event()

    def read() -> Answer[float]:
        asked.set()
        raise Broken

    watcher = IdleWatcher(read, hands.noticed.release)
    watcher.arm()
    assert asked.wait(LIMIT_SECONDS)
    watcher.close()
    watcher.close()
    assert not hands.noticed.acquire(blocking=False)


def test_closing_it_from_its_own_call(hands: Hands) -> None:
    closed = threading.Event()

    def close() -> None:
        watcher.close()
        closed.set()

    watcher = IdleWatcher(hands._read, close, monotonic=hands.clock.monotonic)
    watcher.arm()
    hands.looked()
    hands.idle = 0.0
    assert closed.wait(LIMIT_SECONDS)
    watcher.close()
