import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.training.duty import MAX_DEBT_SECONDS, DutyBalance


class Plant:
    """A worker on a clock of its own: micro-batches of some length, rests that last a little longer than asked."""

    def __init__(self, duty: float, micro_batch_seconds: float, seed: int = 1, late_seconds: float = 0.0) -> None:
        self.dice = random.Random(seed)
        self.now = self.busy = 0.0
        self.micro_batch_seconds = micro_batch_seconds
        self.late_seconds = late_seconds
        self.balance = DutyBalance(0.0, 0.0)
        self.balance.set_duty(duty, 0.0, 0.0)

    def micro_batch(self) -> None:
        seconds = self.micro_batch_seconds * self.dice.uniform(0.5, 1.5)
        self.now += seconds
        self.busy += seconds
        self.balance.settle(self.now, self.busy)

    def rest(self) -> float:
        seconds = self.balance.rest_seconds(self.now)
        self.now += seconds + (self.dice.uniform(0.0, self.late_seconds) if seconds else 0.0)
        self.balance.settle(self.now, self.busy)
        return seconds

    def run(self, seconds: float) -> float:
        """The share of the time that it computed."""
        end, begun, busy = self.now + seconds, self.now, self.busy
        while self.now < end:
            self.micro_batch()
            self.rest()
        return (self.busy - busy) / (self.now - begun)


@pytest.mark.parametrize("duty", [0.1, 0.25, 0.5, 0.75])
@pytest.mark.parametrize("micro_batch_seconds", [0.002, 0.05, 0.3, 4.0])
def test_the_duty_is_held_within_three_points(duty: float, micro_batch_seconds: float) -> None:
    plant = Plant(duty, micro_batch_seconds, late_seconds=0.01)
    assert plant.run(max(20.0, 50 * micro_batch_seconds / duty)) == pytest.approx(duty, abs=0.03)


@given(duty=st.floats(0.02, 0.98), length=st.floats(0.001, 5.0), seed=st.integers(0, 1000))
def test_the_error_of_any_window_is_at_most_one_micro_batch(duty: float, length: float, seed: int) -> None:
    plant = Plant(duty, length, seed)
    seconds = 40 * length / duty
    assert abs(plant.run(seconds) - duty) * seconds <= 1.5 * length + 0.25 + 1e-6


def test_every_rest_ends_when_the_balance_is_even() -> None:
    plant = Plant(0.1, 2.0)
    plant.micro_batch()
    assert plant.rest() == pytest.approx(plant.busy * 9)
    assert plant.balance.rest_seconds(plant.now) == pytest.approx(0.0)


def test_full_duty_never_rests_and_none_never_works() -> None:
    full, none = Plant(1.0, 0.3), Plant(0.0, 0.3)
    full.micro_batch()
    assert full.balance.rest_seconds(full.now) == 0.0
    assert none.balance.rest_seconds(none.now) == math.inf


def test_a_rest_ends_at_once_when_all_is_allowed_and_sooner_when_more_is() -> None:
    plant = Plant(0.1, 3.0)
    plant.micro_batch()
    rest = plant.balance.rest_seconds(plant.now)
    owed = 0.1 * rest
    plant.balance.set_duty(0.5, plant.now, plant.busy)
    assert plant.balance.rest_seconds(plant.now) == pytest.approx(owed / 0.5)
    plant.balance.set_duty(1.0, plant.now, plant.busy)
    assert plant.balance.rest_seconds(plant.now) == 0.0


@pytest.mark.parametrize("length", [0.05, 2.0, 6.0])
def test_a_duty_that_changes_all_the_time_is_held_on_the_mean(length: float) -> None:
    plant = Plant(0.1, length)
    wanted = 0.0
    begun = last = plant.now
    while plant.now < 4000.0:
        plant.micro_batch()
        while (rest := plant.balance.rest_seconds(plant.now)) > 1e-6:
            duty = plant.dice.uniform(0.05, 0.3)
            wanted += plant.balance.duty * (plant.now - last)
            last = plant.now
            plant.balance.set_duty(duty, plant.now, plant.busy)
            plant.now += min(2.0, plant.balance.rest_seconds(plant.now), rest)
    assert plant.busy / (plant.now - begun) == pytest.approx(wanted / (last - begun), abs=0.03)


def test_a_pause_pays_what_is_owed() -> None:
    plant = Plant(0.5, 2.0)
    plant.micro_batch()
    plant.balance.set_duty(0.0, plant.now, plant.busy)
    plant.now += 60.0
    plant.balance.set_duty(0.5, plant.now, plant.busy)
    assert plant.balance.rest_seconds(plant.now) == 0.0


def test_the_same_duty_again_forgives_nothing() -> None:
    plant = Plant(0.1, 3.0)
    plant.micro_batch()
    rest = plant.balance.rest_seconds(plant.now)
    plant.balance.set_duty(0.1, plant.now, plant.busy)
    assert plant.balance.rest_seconds(plant.now) == rest


def test_a_wait_for_others_earns_no_burst() -> None:
    plant = Plant(0.5, 0.1)
    plant.now += 600.0
    plant.balance.settle(plant.now, plant.busy)
    assert plant.run(10.0) == pytest.approx(0.5, abs=0.03)


def test_a_computer_that_slept_in_a_micro_batch_does_not_rest_for_hours() -> None:
    plant = Plant(0.1, 40_000.0)
    plant.micro_batch()
    assert plant.balance.rest_seconds(plant.now) == pytest.approx(MAX_DEBT_SECONDS / 0.1)


def test_clocks_that_go_back_are_not_believed() -> None:
    balance = DutyBalance(100.0, 50.0)
    balance.set_duty(0.5, 100.0, 50.0)
    balance.settle(90.0, 40.0)
    balance.settle(101.0, 50.5)
    assert balance.rest_seconds(101.0) == pytest.approx(0.0)


def test_nonsense_stops() -> None:
    balance = DutyBalance(0.0, 0.0)
    balance.set_duty(math.nan, 0.0, 0.0)
    assert balance.rest_seconds(0.0) == math.inf
