import math
from collections.abc import Iterable

import pytest

from engine.contract.reasons import ReasonCode as Code
from engine.contract.snapshot import GpuReading, Machine, Settings
from engine.contract.week import hours
from engine.governor.policy import (
    FIRST_DECISION,
    Decision,
    GovernorMemory,
    Inputs,
    LocalTime,
    Override,
    Profile,
    RunLevel,
    SystemEvent,
    UserPause,
    decide,
)

NOW = 1_700_000_000.0
GB = 1_000_000_000
AWAY = {
    "cores_logical": 4,
    "idle_seconds": 3600.0,
    "on_battery": False,
    "temperature_celsius": 50.0,
    "energy_saver": False,
    "metered": False,
    "captive_portal": False,
    "disk_free_bytes": 50 * 10**9,
}
GPU = GpuReading(name="card", usable=True, temperature_celsius=50.0, foreign_load_percent=0.0)


def machine(**changes: object) -> Machine:
    return Machine(**{**AWAY, **changes})  # type: ignore[arg-type]


def card(**changes: object) -> Machine:
    values = {"name": "card", "usable": True, "temperature_celsius": 50.0, "foreign_load_percent": 0.0, **changes}
    return machine(gpus=(GpuReading(**values),))  # type: ignore[arg-type]


class Run:
    """A computer over time, decided upon every second or at the times that a test names."""

    def __init__(self, settings: Settings | None = None, **inputs: object) -> None:
        self.settings = settings or Settings()
        self.inputs = Inputs(**inputs)  # type: ignore[arg-type]
        self.memory = GovernorMemory()

    def at(self, second: float, reading: Machine | None = None, **inputs: object) -> Decision:
        given = Inputs(**inputs) if inputs else self.inputs  # type: ignore[arg-type]
        reading = machine() if reading is None else reading
        decision, self.memory = decide(reading, self.settings, given, NOW + second, self.memory)
        return decision

    def seconds_until_work(self, first: float, reading: Machine | None = None, limit: int = 1000) -> int:
        """How many seconds after `first` it computes, decided upon each second."""
        for second in range(limit):
            if self.at(first + second, reading).computes:
                return second
        raise AssertionError("it never works")


def once(reading: Machine, settings: Settings | None = None, **inputs: object) -> Decision:
    return Run(settings, **inputs).at(0, reading)


def codes(decision: Decision) -> list[Code]:
    return [reason.code for reason in decision.reasons]


def params(decision: Decision) -> Iterable[object]:
    return decision.reasons[0].params


# What is allowed when nothing stands in the way


def test_all_is_well():
    decision = once(machine())
    assert decision == Decision(RunLevel.FULL, 1.0, 2, devices=("cpu",))
    assert decision.computes
    assert decision.connects


def test_nothing_readable_still_works():
    assert once(Machine()) == Decision(RunLevel.FULL, 0.5, 1, devices=("cpu",))


def test_before_the_first_reading_there_is_a_reason():
    assert not FIRST_DECISION.computes
    assert FIRST_DECISION.reasons


def test_less_while_in_use_when_it_does_not_pause():
    settings = Settings(pause_while_in_use=False)
    decision = once(machine(idle_seconds=5.0), settings)
    assert (decision.level, decision.threads, decision.duty) == (RunLevel.REDUCED, 1, 1.0)
    assert decision.profile is Profile.IN_USE
    assert codes(decision) == [Code.LESS_IN_USE]
    assert decision.reasons[0].params == {"percent": 25}
    same = Settings(pause_while_in_use=False, cpu_share_in_use_percent=50)
    assert once(machine(idle_seconds=5.0), same).level is RunLevel.FULL


def test_a_preset_takes_half_of_a_processor_whose_heat_cannot_be_read():
    run = Run(Settings(preset="full_when_away", cpu_share_percent=100))
    unread = machine(temperature_celsius=None)
    assert run.at(0, unread).threads == 4
    decision = run.at(60, unread)
    assert codes(decision) == [Code.HEAT_UNREADABLE]
    assert (decision.level, decision.threads) == (RunLevel.REDUCED, 2)
    own = Run(Settings(preset="custom", cpu_share_percent=100))
    own.at(0, unread)
    assert own.at(60, unread).threads == 4


def test_memory_that_may_be_taken():
    sized = {"memory_total_bytes": 16 * GB, "memory_used_bytes": 4 * GB}
    assert once(machine(**sized)).memory_limit_bytes == 9_600_000_000
    assert once(machine(idle_seconds=1.0, **sized)).memory_limit_bytes == 4 * GB
    assert once(machine()).memory_limit_bytes is None


# One rule after the other: what is read, what is chosen, what follows

OFFICE = LocalTime(weekday=2, hour=10, minute=30)
NIGHT = (hours(22, 7),) * 7

STOPS = [
    ({"on_battery": True}, {}, {}, Code.ON_BATTERY, RunLevel.STOPPED),
    ({"energy_saver": True}, {}, {}, Code.ENERGY_SAVER, RunLevel.STOPPED),
    ({"metered": True}, {}, {}, Code.METERED, RunLevel.STOPPED),
    ({"captive_portal": True}, {}, {}, Code.CAPTIVE_PORTAL, RunLevel.STOPPED),
    ({"disk_free_bytes": 9 * GB}, {}, {}, Code.DISK_RESERVE, RunLevel.STOPPED),
    ({"disk_used_bytes": 20 * GB}, {}, {}, Code.DISK_LIMIT, RunLevel.STOPPED),
    ({"temperature_celsius": 95.0}, {}, {}, Code.TOO_HOT, RunLevel.STOPPED),
    ({"temperature_celsius": None, "thermal_state": "serious"}, {}, {}, Code.TOO_HOT, RunLevel.STOPPED),
    ({"exclusive_app_running": "game"}, {"exclusive_apps": ("game",)}, {}, Code.EXCLUSIVE_APP, RunLevel.STOPPED),
    ({}, {}, {"data_used_bytes": 50 * GB}, Code.DATA_CAP, RunLevel.STOPPED),
    ({}, {}, {"pause": UserPause()}, Code.USER_PAUSED, RunLevel.STOPPED),
    ({}, {}, {"system": SystemEvent.SLEEP}, Code.SYSTEM_SLEEPS, RunLevel.STOPPED),
    ({}, {}, {"system": SystemEvent.END}, Code.SYSTEM_ENDS, RunLevel.STOPPED),
    ({}, {"network_schedule": NIGHT}, {"local_time": OFFICE}, Code.NETWORK_SCHEDULE, RunLevel.STOPPED),
    ({}, {"compute_schedule": NIGHT}, {"local_time": OFFICE}, Code.COMPUTE_SCHEDULE, RunLevel.NETWORK_ONLY),
    ({"idle_seconds": 299.0}, {}, {}, Code.USER_ACTIVE, RunLevel.NETWORK_ONLY),
    ({}, {"start_delay_seconds": 120}, {"started_at": NOW}, Code.START_DELAY, RunLevel.NETWORK_ONLY),
    ({}, {}, {"measuring": True}, Code.MEASURING, RunLevel.NETWORK_ONLY),
]
IDS = [str(row[3].value) for row in STOPS]


@pytest.mark.parametrize(("read", "chosen", "inputs", "code", "level"), STOPS, ids=IDS)
def test_each_cause_stops_at_once(read, chosen, inputs, code, level):
    decision = once(machine(**read), Settings(**chosen), **inputs)
    assert codes(decision) == [code]
    assert decision.level is level
    assert (decision.duty, decision.threads, decision.gpu_duty, decision.devices) == (0.0, 0, 0.0, ())


@pytest.mark.parametrize(
    ("read", "chosen", "inputs"),
    [
        ({"on_battery": True}, {"pause_on_battery": False}, {}),
        ({"energy_saver": True}, {"pause_on_energy_saver": False}, {}),
        ({"metered": True}, {"pause_on_metered": False}, {}),
        ({"disk_free_bytes": 10 * GB}, {}, {}),
        ({"disk_used_bytes": 20 * GB - 1}, {}, {}),
        ({"temperature_celsius": 94.9}, {}, {}),
        ({"temperature_celsius": None, "thermal_state": "nominal"}, {}, {}),
        ({"exclusive_app_running": "game"}, {}, {}),
        ({"foreign_cpu_percent": 100.0}, {"foreign_cpu_percent": 0}, {}),
        ({"idle_seconds": 300.0}, {}, {}),
        ({"idle_seconds": 1.0}, {"away_after_seconds": 60, "pause_while_in_use": False}, {}),
        ({}, {}, {"data_used_bytes": 50 * GB - 1}),
        ({}, {"data_cap_bytes": None}, {"data_used_bytes": 900 * GB}),
        ({}, {}, {"pause": UserPause(NOW)}),
        ({}, {"compute_schedule": NIGHT}, {"local_time": LocalTime(2, 22, 0)}),
        ({}, {"compute_schedule": NIGHT}, {"local_time": LocalTime(2, 6, 59)}),
        ({}, {"compute_schedule": NIGHT}, {}),
        ({}, {"start_delay_seconds": 120}, {"started_at": NOW - 120}),
        ({"full_screen": True}, {}, {}),
    ],
)
def test_what_is_allowed_or_just_within_its_limit_works(read, chosen, inputs):
    assert once(machine(**read), Settings(**chosen), **inputs).computes


@pytest.mark.parametrize(
    "silent",
    [
        "on_battery",
        "energy_saver",
        "metered",
        "captive_portal",
        "full_screen",
        "session_locked",
        "idle_seconds",
        "foreign_cpu_percent",
        "disk_free_bytes",
        "disk_used_bytes",
        "temperature_celsius",
        "memory_used_bytes",
    ],
)
def test_what_cannot_be_read_stops_nothing(silent):
    decision = once(machine(**{silent: None}))
    assert decision.computes
    assert decision.reasons == ()


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_nonsense_counts_as_not_read(value):
    reading = machine(idle_seconds=value, foreign_cpu_percent=value, temperature_celsius=value * 1000)
    assert once(reading).level is RunLevel.FULL


# When it comes back


@pytest.mark.parametrize(
    ("cause", "chosen", "after"),
    [
        ({"on_battery": True}, {}, 60),
        ({"energy_saver": True}, {}, 60),
        ({"metered": True}, {}, 30),
        ({"captive_portal": True}, {}, 30),
        ({"exclusive_app_running": "game"}, {"exclusive_apps": ("game",)}, 30),
        ({"disk_free_bytes": 9 * GB}, {}, 60),
        ({"temperature_celsius": 95.0}, {}, 120),
        ({"idle_seconds": 0.0}, {}, 300),
        ({"idle_seconds": 0.0}, {"away_after_seconds": 60}, 60),
    ],
)
def test_it_resumes_a_while_after_the_cause_has_gone(cause, chosen, after):
    run = Run(Settings(**chosen))
    run.at(0, machine(**cause))
    assert run.seconds_until_work(0) == after


def test_a_rule_that_is_switched_off_holds_no_longer():
    run = Run()
    run.at(0, machine(on_battery=True, metered=True, energy_saver=True))
    run.settings = Settings(pause_on_battery=False, pause_on_metered=False, pause_on_energy_saver=False)
    assert run.at(1, machine(on_battery=True, metered=True, energy_saver=True)).computes


def test_the_moment_of_resuming_is_known_once_the_cause_has_gone():
    run = Run()
    assert run.at(0, machine(on_battery=True)).resumes_at is None
    assert run.at(10, machine()).resumes_at == NOW + 60
    assert codes(run.at(59, machine())) == [Code.ON_BATTERY]


def test_a_silent_sensor_does_not_end_what_stood_in_the_way():
    for cause, silent in [
        ({"on_battery": True}, {"on_battery": None}),
        ({"temperature_celsius": 99.0}, {"temperature_celsius": None}),
        ({"metered": True}, {"metered": None}),
    ]:
        run = Run()
        run.at(0, machine(**cause))
        assert run.at(299, machine(**silent)).level is RunLevel.STOPPED
        assert run.at(299, machine(**silent)).resumes_at is None
        assert run.at(300, machine(**silent)).computes


def test_a_clock_that_is_set_back_stops_nothing_for_ever():
    run = Run(Settings(start_delay_seconds=60), started_at=NOW)
    run.at(0, machine(temperature_celsius=99.0, idle_seconds=0.0, on_battery=True))
    assert not run.at(-86_400, machine()).computes
    assert run.seconds_until_work(-86_400) == 300
    assert not run.at(30).computes  # set right again: the delay is not over
    assert run.at(60).computes


def test_heat_needs_to_fall_far_before_it_is_over():
    run = Run()
    run.at(0, machine(temperature_celsius=95.0))
    warm = run.at(1000, machine(temperature_celsius=71.0))
    assert codes(warm) == [Code.TOO_HOT]
    assert warm.reasons[0].params == {"celsius": 71, "limit_celsius": 70}
    assert not run.at(1001, machine(temperature_celsius=70.0)).computes
    assert run.seconds_until_work(1001, machine(temperature_celsius=70.0)) == 119


@pytest.mark.parametrize(("critical", "limit"), [(None, 95.0), (105.0, 95.0), (95.0, 90.0), (20.0, 75.0)])
def test_the_hot_limit_knows_what_the_processor_calls_critical(critical, limit):
    reading = {"temperature_critical_celsius": critical}
    assert once(machine(temperature_celsius=limit - 0.1, **reading)).computes
    assert not once(machine(temperature_celsius=limit, **reading)).computes


def test_an_old_temperature_says_nothing_of_now():
    assert once(machine(temperature_celsius=99.0, read_at=NOW - 31)).computes
    assert not once(machine(temperature_celsius=99.0, read_at=NOW - 30)).computes


# The user


def test_a_timed_pause_ends_by_itself():
    run = Run(pause=UserPause(NOW + 3600))
    assert run.at(0).resumes_at == NOW + 3600
    assert codes(run.at(3599.9)) == [Code.USER_PAUSED]
    assert run.at(3600).computes


def test_the_moment_does_not_move_when_a_reading_is_used_again():
    for age in (0.0, 3.0):
        decision = once(machine(idle_seconds=12.0, read_at=NOW - age))
        assert decision.resumes_at == NOW + 288 - age
    assert once(machine(idle_seconds=12.0, read_at=NOW + 500)).resumes_at == NOW + 288
    assert once(machine(idle_seconds=1.0, read_at=NOW - 400, idle_read_at=NOW)).resumes_at == NOW + 299


def test_a_user_does_not_leave_because_the_sensor_jumps_or_falls_silent():
    run = Run()
    run.at(0, machine(idle_seconds=0.0))
    assert not run.at(1, machine(idle_seconds=1e6)).computes
    assert not run.at(299, machine(idle_seconds=None)).computes
    assert run.at(300, machine(idle_seconds=None)).computes


def test_a_locked_session_is_nobodys_and_unlocking_is_a_use():
    run = Run()
    run.at(0, machine(idle_seconds=0.0))
    locked = run.at(5, machine(idle_seconds=5.0, session_locked=True))
    assert locked.resumes_at == NOW + 15
    assert run.at(15, machine(idle_seconds=0.0, session_locked=True)).computes
    assert codes(run.at(16, machine(idle_seconds=1e4, session_locked=False))) == [Code.USER_ACTIVE]


def test_schedules_say_when_they_resume():
    local = LocalTime(weekday=2, hour=10, minute=30, second=20)
    settings = Settings(compute_schedule=NIGHT)
    assert once(machine(), settings, local_time=local).resumes_at == NOW + 12 * 3600 - 1820
    weekend = Settings(compute_schedule=(0,) * 5 + (1, 0))
    assert once(machine(), weekend, local_time=local).resumes_at == NOW + 2 * 86_400 + 14 * 3600 - 1820


def test_the_data_limit_says_when_days_have_passed():
    decision = once(machine(), data_used_bytes=60 * GB, data_frees_at=NOW + 7)
    assert decision.resumes_at == NOW + 7
    assert decision.reasons[0].params == {"used_gigabytes": 60.0, "limit_gigabytes": 50.0, "days": 30}


# Other programs


def test_other_programs_use_counts_after_ten_seconds_and_until_half_a_minute_after():
    run, busy = Run(), machine(foreign_cpu_percent=61.0)
    assert run.at(0, busy).computes
    assert run.at(9.9, busy).computes
    decision = run.at(10, busy)
    assert codes(decision) == [Code.FOREIGN_CPU]
    assert decision.level is RunLevel.NETWORK_ONLY
    assert decision.reasons[0].params == {"percent": 61}
    assert run.seconds_until_work(10, machine(foreign_cpu_percent=60.0)) == 30


def test_a_short_burst_of_another_program_stops_nothing():
    run = Run()
    for second in range(0, 100, 2):
        assert run.at(second, machine(foreign_cpu_percent=90.0 if second % 10 < 8 else 5.0)).computes


def test_memory_that_others_need_is_given_back_and_not_taken_again_at_once():
    def read(used: int) -> Machine:
        return machine(memory_total_bytes=16 * GB, memory_used_bytes=used)

    run = Run(Settings(memory_free_bytes=2 * GB), memory_used_bytes=3 * GB)
    assert run.at(0, read(15 * GB)).computes
    decision = run.at(4, read(15 * GB))
    assert codes(decision) == [Code.MEMORY_LOW]
    assert decision.reasons[0].params == {"free_gigabytes": 1.0, "limit_gigabytes": 2.0}
    run.inputs = Inputs(memory_used_bytes=1 * GB)  # the worker has ended, and that alone is no room
    decision = run.at(200, read(13 * GB))
    assert decision.reasons[0].params == {"free_gigabytes": 3.0, "limit_gigabytes": 4.0}
    assert run.seconds_until_work(300, read(12 * GB)) <= 60


def test_more_memory_than_is_allowed_while_in_use_waits_until_away():
    settings = Settings(pause_while_in_use=False)
    used = {"memory_total_bytes": 16 * GB, "memory_used_bytes": 8 * GB}
    run = Run(settings, memory_used_bytes=5 * GB)
    run.at(0, machine(idle_seconds=0.0, **used))
    decision = run.at(4, machine(idle_seconds=0.0, **used))
    assert codes(decision)[0] is Code.MEMORY_SHARE
    run.inputs = Inputs(memory_used_bytes=GB)  # released, and it would be taken again
    assert Code.MEMORY_SHARE in codes(run.at(100, machine(idle_seconds=0.0, **used)))
    assert run.seconds_until_work(101, machine(**used)) == 299 + 59


# Graphics cards


def test_a_card_is_used_while_away():
    decision = once(card())
    assert (decision.level, decision.devices, decision.gpu_duty) == (RunLevel.FULL, ("cpu", "gpu:0"), 1.0)
    assert decision.watch_gpus


@pytest.mark.parametrize(
    ("reading", "code"),
    [
        (card(temperature_celsius=87.0), Code.GPU_TOO_HOT),
        (card(temperature_celsius=80.0, slowdown_celsius=83.0), Code.GPU_TOO_HOT),
        (machine(gpus=(GPU,), full_screen=True), Code.GPU_FULL_SCREEN),
    ],
)
def test_what_takes_the_card_away_leaves_the_processor(reading, code):
    decision = once(reading)
    assert codes(decision) == [code]
    assert (decision.level, decision.devices, decision.gpu_duty) == (RunLevel.REDUCED, ("cpu",), 0.0)


def test_work_that_is_bound_to_the_card_stops_with_it():
    decision = once(machine(gpus=(GPU,), full_screen=True), device="gpu")
    assert decision.level is RunLevel.NETWORK_ONLY
    assert codes(decision) == [Code.GPU_FULL_SCREEN]
    assert once(machine(gpus=(GPU,), full_screen=True), device="cpu").level is RunLevel.FULL


def test_a_second_card_goes_on_when_the_first_is_hot():
    hot = GpuReading(name="hot", usable=True, temperature_celsius=90.0)
    unusable = GpuReading(name="old")
    decision = once(machine(gpus=(unusable, hot, GPU)), device="gpu")
    assert decision.devices == ("cpu", "gpu:2")
    assert codes(decision) == [Code.GPU_TOO_HOT]


def test_the_card_is_left_to_the_user():
    settings = Settings(pause_while_in_use=False)
    decision = once(machine(gpus=(GPU,), idle_seconds=1.0), settings)
    assert codes(decision) == [Code.GPU_IN_USE, Code.LESS_IN_USE]
    assert decision.devices == ("cpu",)
    allowed = Settings(pause_while_in_use=False, gpu_while_in_use=True)
    decision = once(machine(gpus=(GPU,), idle_seconds=1.0), allowed)
    assert (decision.devices, decision.gpu_duty) == (("cpu", "gpu:0"), 0.25)


def test_other_programs_get_the_card_after_five_seconds():
    run, busy = Run(), card(foreign_load_percent=16.0)
    run.at(0, busy)
    assert run.at(4.9, busy).devices == ("cpu", "gpu:0")
    decision = run.at(5, busy)
    assert codes(decision) == [Code.GPU_FOREIGN_LOAD]
    assert decision.watch_gpus  # only so can be seen that they are done
    assert run.at(34, card()).devices == ("cpu",)
    assert run.at(35, card()).devices == ("cpu", "gpu:0")


def test_a_card_that_others_fill_is_left():
    def filled(used: int, own: int | None) -> Machine:
        return card(memory_total_bytes=8 * GB, memory_used_bytes=used, own_memory_bytes=own)

    run = Run()
    run.at(0, filled(7 * GB, 0))
    assert codes(run.at(4, filled(7 * GB, 0))) == [Code.GPU_MEMORY_LOW]
    own = Run()
    own.at(0, filled(7 * GB, 6 * GB))
    assert own.at(4, filled(7 * GB, 6 * GB)).level is RunLevel.FULL
    untold = Run()
    untold.at(0, filled(7 * GB, None))
    assert untold.at(4, filled(7 * GB, None)).level is RunLevel.FULL


@pytest.mark.parametrize(
    "reading",
    [
        machine(gpus=(GPU,), on_battery=True),
        machine(gpus=(GPU,), idle_seconds=0.0),
        machine(gpus=(GPU,), full_screen=True),
        machine(gpus=(GpuReading(name="old"),)),
        machine(),
    ],
)
def test_no_card_is_watched_while_it_may_not_be_used_anyhow(reading):
    assert not once(reading).watch_gpus


def test_old_values_of_a_card_say_nothing():
    assert once(card(temperature_celsius=95.0, read_at=NOW - 31)).level is RunLevel.FULL


# Override


def test_an_override_sets_the_soft_rules_aside_and_says_so():
    settings = Settings(compute_schedule=NIGHT)
    inputs = {"override": Override(NOW + 600), "local_time": OFFICE}
    reading = machine(idle_seconds=0.0, energy_saver=True, gpus=(GPU,), full_screen=True)
    decision = once(reading, settings, **inputs)
    assert (decision.level, decision.reasons) == (RunLevel.FULL, ())
    assert decision.devices == ("cpu", "gpu:0")
    assert decision.override_until == NOW + 600
    assert [reason.code for reason in decision.overridden] == [
        Code.ENERGY_SAVER,
        Code.USER_ACTIVE,
        Code.COMPUTE_SCHEDULE,
        Code.GPU_FULL_SCREEN,
        Code.GPU_IN_USE,
    ]


HARD = [row for row in STOPS if row[3] in {Code.ON_BATTERY, Code.METERED, Code.DISK_RESERVE, Code.DISK_LIMIT}]
HARD += [row for row in STOPS if row[3] in {Code.TOO_HOT, Code.DATA_CAP, Code.USER_PAUSED, Code.SYSTEM_SLEEPS}]


@pytest.mark.parametrize(("read", "chosen", "inputs", "code", "level"), HARD)
def test_an_override_yields_to_the_hard_rules(read, chosen, inputs, code, level):
    decision = once(machine(**read), Settings(**chosen), override=Override(NOW + 600), **inputs)
    assert (decision.level, codes(decision), decision.overridden) == (level, [code], ())


def test_an_override_ends_by_itself():
    run = Run(override=Override(NOW + 600))
    assert run.at(599, machine(idle_seconds=0.0)).computes
    decision = run.at(600, machine(idle_seconds=0.0))
    assert codes(decision) == [Code.USER_ACTIVE]
    assert decision.override_until is None


def test_an_override_from_before_the_clock_was_set_back_is_over():
    decision = once(machine(idle_seconds=0.0), override=Override(NOW + 2 * 86_400))
    assert not decision.computes


# Several at once


def test_all_reasons_are_told_the_most_pressing_first():
    reading = machine(temperature_celsius=99.0, on_battery=True, idle_seconds=0.0, gpus=(GPU,), full_screen=True)
    decision = once(reading, pause=UserPause(NOW + 10))
    assert codes(decision) == [
        Code.TOO_HOT,
        Code.USER_PAUSED,
        Code.ON_BATTERY,
        Code.USER_ACTIVE,
        Code.GPU_FULL_SCREEN,
        Code.GPU_IN_USE,
    ]
    assert decision.resumes_at is None


def test_it_resumes_when_the_last_known_cause_ends():
    assert once(machine(idle_seconds=0.0), pause=UserPause(NOW + 10)).resumes_at == NOW + 300
    assert once(machine(idle_seconds=0.0), pause=UserPause(NOW + 900)).resumes_at == NOW + 900
    assert once(machine(idle_seconds=0.0), pause=UserPause()).resumes_at is None


# Heat, held rather than stopped for


def test_a_warm_computer_works_less_and_says_why():
    run = Run(Settings(cpu_share_percent=100))
    for second in range(0, 240, 2):
        decision = run.at(second, machine(temperature_celsius=88.0))
    assert decision.level is RunLevel.REDUCED
    assert decision.duty < 0.7
    assert codes(decision) == [Code.LESS_FOR_HEAT]
    assert decision.reasons[0].params == {"target_celsius": 80}


def test_a_processor_that_is_slowed_down_gets_half():
    for slow in ({"throttled": True}, {"thermal_state": "fair", "temperature_celsius": None}):
        decision = once(machine(**slow))
        assert (decision.duty, codes(decision)) == (0.5, [Code.LESS_FOR_HEAT])


def test_a_hot_card_limits_work_on_it_alone():
    run = Run(device="gpu")
    for second in range(0, 240, 2):
        decision = run.at(second, card(temperature_celsius=82.0))
    assert decision.gpu_duty < 0.8
    assert decision.duty == 1.0
    assert decision.reasons[0].params == {"target_celsius": 75}
