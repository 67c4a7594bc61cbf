"""What holds of every sequence of readings, whatever is chosen."""

import math
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.contract import words
from engine.contract.presets import PRESETS
from engine.contract.snapshot import GpuReading, Machine, Settings
from engine.contract.week import ALL_DAY
from engine.governor.heat import plausible
from engine.governor.latch import MIN_LEAVE_SECONDS
from engine.governor.model import LEVELS
from engine.governor.policy import (
    Decision,
    GovernorMemory,
    Inputs,
    LocalTime,
    Override,
    RunLevel,
    SystemEvent,
    UserPause,
    decide,
)
from engine.governor.rules import hot_gpu_limit_celsius, hot_limit_celsius

NOW = 1_700_000_000.0
flags = st.none() | st.booleans()
celsius = st.none() | st.floats(30, 110) | st.sampled_from([math.nan, math.inf, -300.0, 95.0, 87.0, 70.0])
percents = st.none() | st.floats(0, 100) | st.just(math.nan)
sizes = st.none() | st.integers(0, 64_000_000_000)

gpu_readings = st.builds(
    GpuReading,
    name=st.just("card"),
    usable=st.booleans(),
    temperature_celsius=celsius,
    slowdown_celsius=celsius,
    foreign_load_percent=percents,
    memory_total_bytes=sizes,
    memory_used_bytes=sizes,
    throttled=flags,
)
machines = st.builds(
    Machine,
    cores_logical=st.none() | st.integers(1, 256),
    temperature_celsius=celsius,
    temperature_critical_celsius=celsius,
    thermal_state=st.sampled_from(["", "nominal", "fair", "serious", "critical"]),
    throttled=flags,
    on_battery=flags,
    idle_seconds=st.none() | st.floats(0, 1000) | st.floats(),
    session_locked=flags,
    full_screen=flags,
    exclusive_app_running=st.sampled_from(["", "", "game"]),
    foreign_cpu_percent=percents,
    energy_saver=flags,
    metered=flags,
    captive_portal=flags,
    disk_free_bytes=sizes,
    disk_used_bytes=sizes,
    memory_total_bytes=sizes,
    memory_used_bytes=sizes,
    gpus=st.lists(gpu_readings, max_size=2).map(tuple),
)
weeks = st.just(()) | st.tuples(*[st.integers(0, ALL_DAY)] * 7)
choices = st.builds(
    Settings,
    preset=st.sampled_from(PRESETS),
    cpu_share_percent=st.integers(5, 100),
    cpu_share_in_use_percent=st.integers(5, 100),
    pause_while_in_use=st.booleans(),
    gpu_while_in_use=st.booleans(),
    away_after_seconds=st.integers(60, 600),
    pause_on_battery=st.booleans(),
    pause_on_energy_saver=st.booleans(),
    pause_full_screen=st.booleans(),
    exclusive_apps=st.sampled_from([(), ("game",)]),
    foreign_cpu_percent=st.integers(0, 100),
    data_cap_bytes=st.none() | st.integers(10**8, 10**11),
    pause_on_metered=st.booleans(),
    compute_schedule=weeks,
    network_schedule=weeks,
    start_delay_seconds=st.integers(0, 600),
)
local_times = st.builds(LocalTime, st.integers(0, 6), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
inputs = st.builds(
    Inputs,
    pause=st.none() | st.builds(UserPause, st.none() | st.floats(NOW - 1e4, NOW + 1e4)),
    override=st.none() | st.builds(Override, st.floats(NOW - 1e4, NOW + 1e5)),
    data_used_bytes=st.none() | st.integers(0, 10**11),
    local_time=st.none() | local_times,
    started_at=st.none() | st.floats(NOW - 1000, NOW + 1000),
    memory_used_bytes=sizes,
    device=st.sampled_from(["", "cpu", "gpu"]),
    system=st.sampled_from([SystemEvent.NONE, SystemEvent.NONE, SystemEvent.SLEEP, SystemEvent.END]),
    measuring=st.booleans(),
)
steps = st.lists(st.tuples(machines, st.floats(0.05, 90)), min_size=1, max_size=12)
anything = st.lists(st.tuples(machines, inputs, choices, st.floats(-200, 200)), min_size=1, max_size=8)


def walk(sequence) -> list[tuple[float, Machine, Inputs, Settings, Decision]]:
    """Decisions over time, with all that they followed from."""
    memory, now, found = GovernorMemory(), NOW, []
    for reading, given_, chosen, seconds in sequence:
        now += seconds
        decision, memory = decide(reading, chosen, given_, now, memory)
        found.append((now, reading, given_, chosen, decision))
    return found


@given(anything)
def test_no_sequence_violates_a_hard_rule(sequence):
    for _now, reading, given_, chosen, decision in walk(sequence):
        heat = plausible(reading.temperature_celsius)
        forbidden = (
            (heat is not None and heat >= hot_limit_celsius(reading)),
            reading.thermal_state in ("serious", "critical"),
            bool(reading.on_battery) and chosen.pause_on_battery,
            bool(reading.metered) and chosen.pause_on_metered,
            reading.disk_free_bytes is not None and reading.disk_free_bytes < chosen.disk_free_bytes,
            reading.disk_used_bytes is not None and reading.disk_used_bytes >= chosen.disk_limit_bytes,
            None not in (given_.data_used_bytes, chosen.data_cap_bytes)
            and given_.data_used_bytes >= chosen.data_cap_bytes,
        )
        if any(forbidden):
            assert decision.level is RunLevel.STOPPED
        for place, gpu in enumerate(reading.gpus):
            heat = plausible(gpu.temperature_celsius)
            if heat is not None and heat >= hot_gpu_limit_celsius(gpu):
                assert f"gpu:{place}" not in decision.devices


@given(anything)
def test_every_stopped_or_lessened_moment_has_its_reasons(sequence):
    for now, reading, given_, _chosen, decision in walk(sequence):
        assert bool(decision.reasons) == (decision.level is not RunLevel.FULL)
        assert len({reason.code for reason in decision.reasons}) == len(decision.reasons)
        assert all(words.reason_sentence(reason) for reason in decision.reasons)
        assert decision.resumes_at is None or (decision.resumes_at > now - 1e-6 and not decision.computes)
        if decision.computes:
            assert 0 < decision.duty <= 1
            assert 1 <= decision.threads <= (reading.cores_logical or 1)
            assert "cpu" in decision.devices
            assert given_.device != "gpu" or len(decision.devices) > 1 or not any(gpu.usable for gpu in reading.gpus)
        else:
            assert (decision.duty, decision.threads, decision.gpu_duty, decision.devices) == (0.0, 0, 0.0, ())
        assert bool(decision.overridden) <= (decision.override_until is not None)


@given(steps, choices, inputs)
def test_levels_never_flap_faster_than_the_hysteresis(sequence, chosen, given_):
    """Nobody presses anything meanwhile: no level comes back within MIN_LEAVE_SECONDS of a fall."""
    given_ = Inputs(
        data_used_bytes=given_.data_used_bytes,
        local_time=given_.local_time,
        memory_used_bytes=given_.memory_used_bytes,
        device="cpu",
    )
    walked = walk([(reading, given_, chosen, seconds) for reading, seconds in sequence])
    ranks = [(now, LEVELS.index(decision.level)) for now, *_, decision in walked]
    fell_at = -math.inf
    for (_, before), (now, after) in pairwise(ranks):
        if after < before:
            fell_at = now
        if after > before:
            assert now - fell_at >= MIN_LEAVE_SECONDS - 1e-6


@given(anything)
def test_a_decision_follows_from_what_is_given_alone(sequence):
    assert walk(sequence) == walk(sequence)


@given(anything)
def test_an_override_never_lets_less_be_done(sequence):
    """What it sets aside can only be in the way."""
    with_, without = walk(sequence), walk([(r, without_override(i), s, t) for r, i, s, t in sequence])
    for (*_, one), (*_, other) in zip(with_, without, strict=True):
        assert LEVELS.index(one.level) >= min(LEVELS.index(other.level), LEVELS.index(RunLevel.REDUCED))


def without_override(given_: Inputs) -> Inputs:
    return Inputs(**{**{name: getattr(given_, name) for name in Inputs.__dataclass_fields__}, "override": None})


@settings(max_examples=30)
@given(anything)
def test_all_that_is_past_is_forgotten(sequence):
    """However it went: an hour in which nothing is wrong, and it works, with a memory as small as a new one."""
    memory, now = GovernorMemory(), NOW
    for reading, given_, chosen, seconds in sequence:
        now += seconds
        _, memory = decide(reading, chosen, given_, now, memory)
    calm = Machine(cores_logical=4, idle_seconds=1e5, temperature_celsius=40.0, foreign_cpu_percent=0.0)
    for _ in range(40):
        now += 100.0
        decision, memory = decide(calm, Settings(), Inputs(), now, memory)
    assert decision.level is RunLevel.FULL
    assert memory.latches == {}
