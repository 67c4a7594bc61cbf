import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.reasons import ReasonCode
from engine.contract.snapshot import Machine, Settings
from engine.governor.policy import (
    COOL_CELSIUS,
    HOT_CELSIUS,
    IN_USE_SECONDS,
    SILENT_SENSOR_SECONDS,
    Decision,
    GovernorMemory,
    RunLevel,
    UserPause,
    decide,
    share_of,
)

NOW = 1_700_000_000.0
IDLE = Machine(cores_logical=4, idle_seconds=3600.0, on_battery=False, temperature_celsius=50.0)


def settle(
    machine: Machine, settings: Settings | None = None, pause: UserPause | None = None, now: float = NOW
) -> Decision:
    return decide(machine, settings or Settings(), pause, now, GovernorMemory())[0]


def codes(decision: Decision) -> list[ReasonCode]:
    return [reason.code for reason in decision.reasons]


def with_(**changes: object) -> Machine:
    return Machine(**{"cores_logical": 4, "idle_seconds": 3600.0, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("percent", "cores", "threads", "duty"),
    [
        (50, 4, 2, 1.0),
        (10, 4, 1, 0.4),
        (100, 4, 4, 1.0),
        (60, 4, 3, 0.8),
        (5, 2, 1, 0.1),
        (7, 100, 7, 1.0),
        (50, 1, 1, 0.5),
        (50, None, 1, 0.5),
        (0, 4, 1, 0.2),
        (400, 4, 4, 1.0),
    ],
)
def test_share_becomes_the_fewest_threads(percent: float, cores: int | None, threads: int, duty: float) -> None:
    got_threads, got_duty = share_of(percent, cores)
    assert got_threads == threads
    assert got_duty == pytest.approx(duty)


@given(st.floats(5, 100), st.integers(1, 512))
def test_share_is_kept_with_the_fewest_threads(percent: float, cores: int) -> None:
    threads, duty = share_of(percent, cores)
    allowed = percent / 100 * cores
    assert threads * duty == pytest.approx(allowed, rel=1e-6)
    assert 0 < duty <= 1
    assert 1 <= threads <= cores
    assert threads == 1 or threads - 1 < allowed


def test_all_is_well() -> None:
    assert settle(IDLE) == Decision(RunLevel.REDUCED, 1.0, 2)
    assert settle(IDLE, Settings(cpu_share_percent=100)) == Decision(RunLevel.FULL, 1.0, 4)


def test_nothing_readable_still_works() -> None:
    assert settle(Machine()) == Decision(RunLevel.REDUCED, 0.5, 1)


def test_pause_until_resumed() -> None:
    decision = settle(IDLE, pause=UserPause())
    assert (decision.level, decision.duty, decision.threads) == (RunLevel.STOPPED, 0.0, 0)
    assert codes(decision) == [ReasonCode.USER_PAUSED]
    assert decision.resumes_at is None


def test_timed_pause_ends_by_itself() -> None:
    pause = UserPause(until=NOW + 3600)
    before = settle(IDLE, pause=pause, now=NOW + 3599.9)
    assert codes(before) == [ReasonCode.USER_PAUSED]
    assert before.resumes_at == NOW + 3600
    assert settle(IDLE, pause=pause, now=NOW + 3600).level is RunLevel.REDUCED


@pytest.mark.parametrize(
    ("on_battery", "pauses", "stopped"),
    [(True, True, True), (True, False, False), (False, True, False), (None, True, False)],
)
def test_battery(on_battery: bool | None, pauses: bool, stopped: bool) -> None:
    decision = settle(with_(on_battery=on_battery), Settings(pause_on_battery=pauses))
    assert codes(decision) == ([ReasonCode.ON_BATTERY] if stopped else [])
    assert decision.resumes_at is None


@pytest.mark.parametrize(
    ("idle", "pauses", "stopped"),
    [
        (0.0, True, True),
        (IN_USE_SECONDS - 0.1, True, True),
        (IN_USE_SECONDS, True, False),
        (0.0, False, False),
        (None, True, False),
        (-1.0, True, False),
        (math.nan, True, False),
    ],
)
def test_in_use(idle: float | None, pauses: bool, stopped: bool) -> None:
    decision = settle(with_(idle_seconds=idle), Settings(pause_while_in_use=pauses))
    assert codes(decision) == ([ReasonCode.USER_ACTIVE] if stopped else [])


def test_resumes_a_minute_after_the_last_key() -> None:
    assert settle(with_(idle_seconds=12.0)).resumes_at == NOW + IN_USE_SECONDS - 12.0


@pytest.mark.parametrize(("age", "resumes_in"), [(0.0, 48.0), (3.0, 45.0), (500.0, 0.0), (-500.0, 48.0)])
def test_the_moment_does_not_move_when_a_reading_is_used_again(age: float, resumes_in: float) -> None:
    assert settle(with_(idle_seconds=12.0, read_at=NOW - age)).resumes_at == NOW + resumes_in


def test_heat_stops_and_cooling_resumes_with_a_gap_between() -> None:
    memory, states = GovernorMemory(), []
    for minute, celsius in enumerate([94.9, HOT_CELSIUS, 90.0, COOL_CELSIUS, 84.9, 94.9, 96.0]):
        decision, memory = decide(with_(temperature_celsius=celsius), Settings(), None, NOW + 60 * minute, memory)
        states.append(decision.level is RunLevel.STOPPED)
    assert states == [False, True, True, True, False, False, True]


def test_heat_is_named_with_its_numbers() -> None:
    decision = settle(with_(temperature_celsius=96.4))
    assert decision.reasons[0].code is ReasonCode.TOO_HOT
    assert decision.reasons[0].params == {"celsius": 96, "limit_celsius": 85}
    assert decision.resumes_at is None


@pytest.mark.parametrize("celsius", [math.nan, math.inf, 500.0, -273.0])
def test_a_broken_sensor_is_not_heat(celsius: float) -> None:
    assert settle(with_(temperature_celsius=celsius)).level is RunLevel.REDUCED


def test_a_silent_sensor_does_not_cool_the_computer_at_once() -> None:
    _, memory = decide(with_(temperature_celsius=99.0), Settings(), None, NOW, GovernorMemory())
    just_before = NOW + SILENT_SENSOR_SECONDS - 0.1
    decision, memory = decide(Machine(), Settings(), None, just_before, memory)
    assert codes(decision) == [ReasonCode.TOO_HOT]
    assert decision.reasons[0].params == {"limit_celsius": 85}
    decision, memory = decide(Machine(), Settings(), None, NOW + SILENT_SENSOR_SECONDS, memory)
    assert decision.level is RunLevel.REDUCED
    assert not memory.hot


def test_a_clock_that_is_set_back_does_not_stop_the_work_for_ever() -> None:
    _, memory = decide(with_(temperature_celsius=99.0), Settings(), None, NOW, GovernorMemory())
    earlier = NOW - 86_400
    decision, memory = decide(Machine(), Settings(), None, earlier, memory)
    assert codes(decision) == [ReasonCode.TOO_HOT]
    decision, _ = decide(Machine(), Settings(), None, earlier + SILENT_SENSOR_SECONDS, memory)
    assert decision.level is RunLevel.REDUCED


def test_several_reasons_come_most_pressing_first() -> None:
    machine = with_(temperature_celsius=99.0, on_battery=True, idle_seconds=0.0)
    decision = settle(machine, pause=UserPause(NOW + 10))
    assert codes(decision) == [
        ReasonCode.TOO_HOT,
        ReasonCode.USER_PAUSED,
        ReasonCode.ON_BATTERY,
        ReasonCode.USER_ACTIVE,
    ]
    assert decision.resumes_at is None


def test_it_resumes_when_the_last_known_cause_ends() -> None:
    decision = settle(with_(idle_seconds=0.0), pause=UserPause(NOW + 10))
    assert decision.resumes_at == NOW + IN_USE_SECONDS


machines = st.builds(
    Machine,
    cores_logical=st.none() | st.integers(1, 256),
    temperature_celsius=st.none() | st.floats(),
    on_battery=st.none() | st.booleans(),
    idle_seconds=st.none() | st.floats(),
)
settings_ = st.builds(
    Settings,
    cpu_share_percent=st.integers(5, 100),
    pause_while_in_use=st.booleans(),
    pause_on_battery=st.booleans(),
)
pauses = st.none() | st.builds(UserPause, st.none() | st.floats(NOW - 1e6, NOW + 1e6))
memories = st.builds(GovernorMemory, st.booleans(), st.floats(NOW - 1e6, NOW + 1e6))


@given(machines, settings_, pauses, memories)
def test_a_decision_always_agrees_with_itself(
    machine: Machine, settings: Settings, pause: UserPause | None, memory: GovernorMemory
) -> None:
    decision, after = decide(machine, settings, pause, NOW, memory)
    if decision.level is RunLevel.STOPPED:
        assert (decision.duty, decision.threads) == (0.0, 0)
        assert decision.reasons
    else:
        assert decision.reasons == ()
        assert decision.resumes_at is None
        assert 0 < decision.duty <= 1
        assert 1 <= decision.threads <= (machine.cores_logical or 1)
    assert decision.resumes_at is None or decision.resumes_at >= NOW
    assert (ReasonCode.TOO_HOT in codes(decision)) == after.hot
    assert decide(machine, settings, pause, NOW, memory) == (decision, after)


@given(machines, settings_, memories)
def test_no_setting_overrides_heat(machine: Machine, settings: Settings, memory: GovernorMemory) -> None:
    hot = Machine(cores_logical=machine.cores_logical, temperature_celsius=HOT_CELSIUS)
    assert decide(hot, settings, None, NOW, memory)[0].level is RunLevel.STOPPED


@given(machines, settings_, pauses, st.lists(st.floats(0, 120), min_size=1, max_size=20))
def test_heat_never_flutters(
    machine: Machine, settings: Settings, pause: UserPause | None, temperatures: list[float]
) -> None:
    """Between the two limits nothing changes, whatever came before."""
    memory = GovernorMemory()
    for step, celsius in enumerate(temperatures):
        before = memory.hot
        reading = Machine(cores_logical=machine.cores_logical, temperature_celsius=celsius)
        _, memory = decide(reading, settings, pause, NOW + step, memory)
        if COOL_CELSIUS <= celsius < HOT_CELSIUS:
            assert memory.hot == before
        else:
            assert memory.hot == (celsius >= HOT_CELSIUS)
