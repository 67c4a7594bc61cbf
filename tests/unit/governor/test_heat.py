"""The controller of heat on simulated computers (tests/helpers/thermal_plant.py)."""

import math
import statistics

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.contract.snapshot import Machine, Settings
from engine.governor.heat import MAX_STEP_SECONDS, MIN_DUTY, SILENT_SECONDS, HeatState, control, plausible
from engine.governor.policy import GovernorMemory, Inputs, RunLevel, decide
from engine.governor.rules import HOT_CPU_CELSIUS, HOT_GPU_CELSIUS
from tests.helpers.thermal_plant import Plant, Simulation

READ_SECONDS = 2.0
TARGETS = {"cpu": (80.0, HOT_CPU_CELSIUS), "gpu": (75.0, HOT_GPU_CELSIUS)}

plants = st.builds(
    Plant,
    rise_celsius=st.floats(20, 90),
    seconds=st.floats(math.log(8), math.log(400)).map(math.exp),
    room_celsius=st.floats(10, 45),
    noise_celsius=st.floats(0, 1.2),
    step_celsius=st.sampled_from([0.01, 1.0]),
)


def run(
    plant: Plant, seconds: float, target: float, seed: int = 0, start: float | None = None, warmer: float = 0.0
) -> tuple[list[float], list[float]]:
    """True temperatures and duties over `seconds`; at half time the room gets `warmer`."""
    simulation = Simulation(plant, seed, start)
    state, duty = HeatState(), 1.0
    temperatures, duties = [], []
    while simulation.now < seconds:
        if warmer and simulation.now >= seconds / 2:
            simulation.room = plant.room_celsius + warmer
        state = control(state, simulation.walk(duty, READ_SECONDS), target, 1.0, simulation.now)
        duty = state.ceiling
        temperatures.append(simulation.celsius)
        duties.append(duty)
    return temperatures, duties


@pytest.mark.parametrize("device", TARGETS)
@settings(max_examples=40, deadline=None)
@given(plant=plants, seed=st.integers(0, 1000))
def test_the_target_is_held_within_three_degrees_without_reaching_the_hard_stop(device, plant, seed):
    target, hard_stop = TARGETS[device]
    assume(plant.room_celsius + plant.rise_celsius > target + 1)  # a computer that could get too hot
    temperatures, _ = run(plant, 3000, target, seed)
    assert max(temperatures) < hard_stop
    assert all(abs(celsius - target) <= 3 for celsius in temperatures[len(temperatures) * 2 // 3 :])


@settings(max_examples=40, deadline=None)
@given(plant=plants, warmer=st.floats(0, 12), seed=st.integers(0, 1000))
def test_a_hot_day_that_comes_suddenly_is_no_danger(plant, warmer, seed):
    target, hard_stop = TARGETS["cpu"]
    assume(plant.room_celsius + warmer + plant.rise_celsius > target + 1)
    assume(plant.room_celsius + warmer + plant.rise_celsius * MIN_DUTY < target - 1)
    temperatures, _ = run(plant, 6000, target, seed, warmer=warmer)
    assert max(temperatures) < hard_stop
    assert all(abs(celsius - target) <= 3 for celsius in temperatures[-300:])


@settings(max_examples=40, deadline=None)
@given(plant=plants, seed=st.integers(0, 1000))
def test_a_cool_computer_is_not_slowed_down(plant, seed):
    assume(plant.room_celsius + plant.rise_celsius < 80 - 7)
    _, duties = run(plant, 2000, 80.0, seed)
    assert statistics.fmean(duties) > 0.98


def test_a_known_day():
    """70 degrees above a room of 32 at full duty, with a minute's time constant: 68.6 % of the time hold 80 degrees."""
    temperatures, duties = run(Plant(70.0, 60.0, 32.0), 3600, 80.0)
    assert statistics.fmean(duties[-600:]) == pytest.approx(48 / 70, abs=0.01)
    assert statistics.pstdev(duties[-600:]) < 0.04
    assert max(temperatures) < 84


@settings(max_examples=6, deadline=None)
@given(plant=plants, seed=st.integers(0, 1000))
def test_with_the_whole_policy_the_hard_stop_is_never_needed(plant, seed):
    assume(plant.room_celsius + plant.rise_celsius > 81)
    simulation, memory, duty = Simulation(plant, seed), GovernorMemory(), 0.0
    chosen = Settings(cpu_share_percent=100)
    held = []
    for _ in range(1200):
        said = simulation.walk(duty, READ_SECONDS)
        reading = Machine(cores_logical=4, temperature_celsius=said, idle_seconds=1e4, read_at=simulation.now)
        decision, memory = decide(reading, chosen, Inputs(), simulation.now, memory)
        duty = decision.duty
        held.append(simulation.celsius)
        assert decision.computes
        assert (decision.level is RunLevel.REDUCED) == bool(decision.reasons)
    assert all(abs(celsius - 80) <= 3 for celsius in held[-200:])


def test_a_fan_that_stops_meets_the_hard_stop():
    """Far beyond what the least duty can hold: the controller cannot save it, the hard stop does."""
    simulation, memory, duty = Simulation(Plant(70.0, 60.0, 92.0, 0.0), 0), GovernorMemory(), 1.0
    levels = []
    for _ in range(300):
        said = simulation.walk(duty, READ_SECONDS)
        reading = Machine(cores_logical=4, temperature_celsius=said, idle_seconds=1e4, read_at=simulation.now)
        decision, memory = decide(reading, Settings(), Inputs(), simulation.now, memory)
        duty = decision.duty
        levels.append(decision.level)
        assert decision.level is RunLevel.STOPPED or said < HOT_CPU_CELSIUS
    assert levels[-1] is RunLevel.STOPPED


readings = st.lists(st.tuples(st.none() | st.floats(-50, 160) | st.just(math.nan), st.floats(-20, 60)), max_size=40)


@given(readings, st.floats(0.05, 1.0), st.floats(50, 90))
def test_whatever_is_read_the_ceiling_stays_between_its_bounds(read, upper, target):
    state, at = HeatState(), 1000.0
    for celsius, seconds in read:
        at += seconds
        state = control(state, celsius, target, upper, at)
        assert MIN_DUTY - 1e-9 <= state.ceiling <= upper + 1e-9
        assert math.isfinite(state.integral)


def test_one_reading_counts_once():
    first = control(HeatState(), 90.0, 80.0, 1.0, 100.0)
    assert control(first, 60.0, 80.0, 1.0, 100.0) == first


def test_a_silent_sensor_holds_the_ceiling_for_a_while():
    state = HeatState()
    for second in range(0, 300, 2):
        state = control(state, 90.0, 80.0, 1.0, 1000.0 + second)
    slowed = state.ceiling
    assert slowed < 0.7
    assert control(state, None, 80.0, 1.0, 1298 + SILENT_SECONDS - 1).ceiling == slowed
    assert control(state, None, 80.0, 1.0, 1298 + SILENT_SECONDS).ceiling == 1.0


def test_after_a_long_sleep_one_reading_does_not_move_it_far():
    state = control(HeatState(), 79.0, 80.0, 1.0, 0.0)
    after = control(state, 79.0, 80.0, 1.0, 1e6)
    assert after.integral - state.integral <= MAX_STEP_SECONDS / 100


def test_less_that_all_else_allows_is_where_it_begins_to_work():
    """No wind-up: with a fifth allowed, heat is answered from a fifth, not from all."""
    state = HeatState()
    for second in range(0, 600, 2):
        state = control(state, 60.0, 80.0, 0.2, float(second))
    assert state.ceiling == pytest.approx(0.2)
    for second in range(600, 640, 2):
        state = control(state, 84.0, 80.0, 0.2, float(second))
    assert state.ceiling < 0.12


@pytest.mark.parametrize("celsius", [math.nan, math.inf, -41.0, 151.0, None])
def test_what_is_no_temperature(celsius):
    assert plausible(celsius) is None
