"""Words and rules of the window about what limits the work."""

import pytest
from msgspec.structs import replace

from app.pages.machine import power_text
from app.pages.machine_history import day_view, until
from app.pages.machine_measure import measure_text, result_facts
from app.pages.machine_more import draw_text, guest_facts, network_text, others_text, slowed_text, warmth_text
from app.pages.settings_heat import hard_stop_text
from app.pages.settings_how_much import foreign_cpu_effect, gpu_effect, in_use_share_effect, memory_effect, preset_text
from app.pages.settings_network import data_effect, metered_effect
from app.pages.settings_outlook import impossible_text, recorded_text, yesterday_text
from app.pages.settings_power import awake_effect, energy_saver_effect, price_effect
from app.pages.settings_when import away_after_effect, full_screen_effect
from app.widgets.day_view import DAY_SECONDS, DayView, Stretch, clipped, describe, summary
from app.widgets.override_banner import HARMLESS, YIELDING, may_work_anyway, set_aside_text
from app.words import active_reasons, reason_lines, tray_tip
from engine.contract.presets import PRESET_VALUES, apply_preset
from engine.contract.reasons import Reason, ReasonCode, RunState
from engine.contract.snapshot import (
    EngineState,
    GovernorState,
    GpuReading,
    Machine,
    Measurement,
    Settings,
    SettingsPreview,
    Status,
)
from engine.contract.why import spent, why_sentences
from engine.governor import rules
from tests.helpers import toy_states

CARD = GpuReading(name="A card", usable=True)


def state(settings: Settings | None = None, **machine: object) -> EngineState:
    return replace(toy_states.training(), settings=settings or Settings(), machine=toy_states.machine(**machine))


# Reasons


def test_one_reason_reads_as_before_and_several_stand_below_one_another() -> None:
    head, lines = reason_lines(toy_states.on_battery())
    assert (str(head), lines) == ("Paused. You are on battery. Resumes when plugged in.", ())
    head, lines = reason_lines(toy_states.held_back())
    assert head.head == "Paused."
    assert head.detail == "Resumes when all of this has passed."
    assert lines[0] == "blender is running. Resumes when it has ended."
    assert len(lines) == 4


def test_a_known_end_of_several_reasons_is_told() -> None:
    reasons = (Reason(code=ReasonCode.USER_PAUSED), Reason(code=ReasonCode.COMPUTE_SCHEDULE))
    paused = Status(state=RunState.PAUSED, reasons=reasons, resumes_at=toy_states.NOW)
    head, _ = reason_lines(replace(toy_states.training(), status=paused))
    assert head.detail.startswith("Resumes at ")


def test_the_governors_reasons_join_the_statuss_own_once_and_only_where_they_matter() -> None:
    held = toy_states.held_back()
    assert [reason.code for reason in active_reasons(held)] == [reason.code for reason in held.governor.reasons]
    gone = replace(held, session=None, status=Status(state=RunState.IDLE))
    assert active_reasons(gone) == ()
    joining = replace(held, status=Status(state=RunState.CONNECTING))
    assert active_reasons(joining) == ()


@pytest.mark.parametrize("name", toy_states.ALL_STATES)
def test_the_tray_says_what_the_command_line_says_first(name: str) -> None:
    shown = toy_states.ALL_STATES[name]()
    if shown.status.resumes_at is None:
        assert tray_tip(shown) == why_sentences(shown.status, shown.session, shown.governor)[0]
    assert tray_tip(shown)


# Overrides


def test_work_anyway_is_offered_for_exactly_the_rules_that_yield() -> None:
    soft = {rule.code for rule in rules.RULES if rule.force is rules.Force.SOFT}
    assert soft == YIELDING
    hard = {rule.code for rule in rules.RULES if rule.force is not rules.Force.SOFT}
    assert hard & HARMLESS == {ReasonCode.USER_PAUSED}
    assert {rule.code for rule in rules.GPU_RULES} <= HARMLESS


def test_work_anyway_is_not_offered_where_it_would_change_nothing() -> None:
    held = toy_states.held_back()
    assert may_work_anyway(held, connected=True)
    assert not may_work_anyway(held, connected=False)
    assert not may_work_anyway(None, connected=True)
    assert not may_work_anyway(toy_states.training(), connected=True)
    assert not may_work_anyway(toy_states.on_battery(), connected=True)
    both = (*held.governor.reasons, Reason(code=ReasonCode.ON_BATTERY))
    assert not may_work_anyway(replace(held, governor=replace(held.governor, reasons=both)), connected=True)
    running = replace(held.governor, override_until=toy_states.NOW + 60)
    assert not may_work_anyway(replace(held, governor=running), connected=True)


def test_the_banner_names_what_is_set_aside() -> None:
    assert "You are using this computer." in set_aside_text(toy_states.overriding().governor)
    assert set_aside_text(GovernorState()).startswith("None of your limits")


# Effects


@pytest.mark.parametrize("name", PRESET_VALUES)
def test_a_presets_card_says_its_own_numbers(name: str) -> None:
    text = preset_text(apply_preset(Settings(), name))
    values = PRESET_VALUES[name]
    for value in (values["cpu_share_percent"], values["heat_target_cpu_celsius"], values["away_after_seconds"] // 60):
        assert str(value) in text


def test_a_limit_without_effect_says_so() -> None:
    nothing = "Has no effect"
    assert in_use_share_effect(25, state()).startswith(nothing)
    assert in_use_share_effect(25, state(Settings(pause_while_in_use=False))).startswith("about 3 of 12 cores")
    assert gpu_effect(state()).startswith(nothing)
    assert gpu_effect(state(gpus=(CARD,))).startswith(nothing)
    assert "yours" in gpu_effect(state(Settings(pause_while_in_use=False), gpus=(CARD,)))
    assert foreign_cpu_effect(60, state(foreign_cpu_percent=None)).startswith(nothing)
    assert full_screen_effect(state(full_screen=None)).startswith(nothing)
    assert metered_effect(state(metered=None)).startswith(nothing)
    assert energy_saver_effect(state(energy_saver=None)).startswith(nothing)
    assert away_after_effect(state(idle_seconds=None)).startswith(nothing)


def test_effects_tell_what_is_so_now() -> None:
    assert "Training waits" in foreign_cpu_effect(60, state(foreign_cpu_percent=71.0))
    assert "Training waits" not in foreign_cpu_effect(60, state(foreign_cpu_percent=12.0))
    assert memory_effect(25, state()) == "At most 4.0 GB of 16.0 GB."
    assert away_after_effect(state(idle_seconds=2.0)).startswith("You count as here now.")
    assert away_after_effect(state(idle_seconds=320.0)).startswith("You count as away now: no key or mouse for 5 min.")
    capped = replace(state(), governor=GovernorState(data_used_bytes=20_000_000_000))
    assert data_effect(capped).startswith("20.0 GB of it were sent and received in 30 days, 40")
    granted = replace(state(Settings(keep_awake=True)), governor=GovernorState(keep_awake="granted"))
    assert awake_effect(granted).startswith("Granted")
    refused = replace(granted, governor=GovernorState(keep_awake="the desktop does not answer."))
    assert awake_effect(refused) == "Not granted: the desktop does not answer."
    assert "0.13" in price_effect(state(Settings(electricity_price_per_kwh=0.31)))
    assert price_effect(state()) == "Today about 0.42 kWh."
    assert "cannot be read" in price_effect(state(energy_kilowatt_hours_today=None))


@pytest.mark.parametrize("critical", [None, 60.0, 84.0, 97.0, 105.0])
@pytest.mark.parametrize("slowdown", [None, 70.0, 88.0, 101.0])
def test_the_hard_stop_shown_is_the_governors_own(critical: float | None, slowdown: float | None) -> None:
    card = replace(CARD, slowdown_celsius=slowdown)
    machine = Machine(temperature_critical_celsius=critical, gpus=(card,))
    cpu, gpu = rules.hot_limit_celsius(machine), rules.hot_gpu_limit_celsius(card)
    assert hard_stop_text(machine) == f"Processor at {cpu:.0f} °C, graphics card at {gpu:.0f} °C."


# Outlook


def test_yesterday_is_told_only_from_records() -> None:
    day = toy_states.preview()
    assert yesterday_text(day) == "With these settings this computer would have trained for about 6.5 h yesterday."
    assert recorded_text(day) == ""
    half = replace(day, known_seconds=10 * 3600.0, worked_seconds=1800.0)
    assert yesterday_text(half).endswith("about 30 min yesterday.")
    assert "10.0 h" in recorded_text(half)
    assert yesterday_text(SettingsPreview()).startswith("There is no record of yesterday")


def test_what_can_never_work_on_this_computer_is_told() -> None:
    assert impossible_text(state()) == ""
    assert "16 GB of memory" in impossible_text(state(Settings(memory_free_bytes=20_000_000_000)))
    small = state(memory_total_bytes=1_000_000_000)
    assert "The project needs" in impossible_text(replace(small, settings=Settings(memory_free_bytes=600_000_000)))


# History


def view() -> DayView:
    periods = until(list(toy_states.periods()), toy_states.NOW)
    sums = spent(periods, toy_states.NOW - DAY_SECONDS, toy_states.NOW)
    return day_view(periods, list(toy_states.readings()), sums, toy_states.NOW)


def test_a_moment_of_the_day_tells_level_reasons_and_temperature() -> None:
    day = view()
    text = describe(day, toy_states.NOW - DAY_SECONDS + 7 * 3600)
    assert "Paused" in text
    assert "You are using this computer." in text
    assert "°C at" in text
    gap = describe(day, toy_states.NOW - DAY_SECONDS + 12.5 * 3600)
    assert gap.endswith("Potluck was not running.")
    assert summary(day) == "Trained for about 14.3 h in the last 24 hours."


def test_what_goes_on_lasts_until_now_and_what_is_older_is_cut() -> None:
    stretches = [Stretch("full", (), 0.0, 50.0), Stretch("stopped", (), 50.0, 120.0), Stretch("full", (), 130.0, 140.0)]
    assert [(s.from_at, s.to_at) for s in clipped(stretches, 20.0, 100.0)] == [(20.0, 50.0), (50.0, 100.0)]
    assert until(list(toy_states.periods()), toy_states.NOW + 5)[-1].to_at == toy_states.NOW + 5


# Machine


def test_machine_readings_that_are_unknown_stay_unknown() -> None:
    nothing = Machine()
    assert others_text(nothing)[0] == draw_text(nothing, None)[0] == slowed_text(nothing)[0] == "cannot read"
    assert network_text(nothing) == "cannot read"
    facts = dict(guest_facts(nothing, Settings(), GovernorState(profile="?")))
    assert set(facts.values()) == {"cannot read"}


def test_machine_readings_with_their_sources() -> None:
    machine = toy_states.machine()
    assert draw_text(machine, 0.31)[1].startswith("from RAPL, today about 0.42 kWh, ")
    assert slowed_text(machine) == ("No", "3.1 of 4.2 GHz, fan at 2,100 rpm")
    assert network_text(toy_states.machine(captive_portal=True)) == "asks you to sign in first"


def test_a_system_that_has_only_words_for_heat_is_quoted() -> None:
    assert warmth_text(Machine(thermal_state="serious")) == "Hot"
    assert warmth_text(Machine(thermal_state="serious", temperature_celsius=91.2)) == "91 °C"
    assert warmth_text(Machine(thermal_state="?")) == "cannot read"


def test_a_reading_that_is_unknown_quotes_why() -> None:
    blind = toy_states.machine(power_watts=None, power_source="this processor does not tell")
    assert draw_text(blind, None) == ("cannot read", "this processor does not tell, today about 0.42 kWh")
    assert power_text(toy_states.machine(battery_source="UPower"))[1].endswith("from UPower")
    none = toy_states.machine(on_battery=None, battery_percent=None, battery_source="no battery fitted")
    assert power_text(none) == ("No battery found", "no battery fitted")


def test_a_day_without_training_is_told_as_such() -> None:
    idle = DayView(0.0, DAY_SECONDS, (Stretch("stopped", (), 0.0, 100.0),), worked_seconds=3.0)
    assert summary(idle) == "Nothing was trained in the last 24 hours."


def test_a_measurement_in_words() -> None:
    assert "about a minute" in measure_text(Measurement())
    assert measure_text(Measurement(state="running")).startswith("Measuring.")
    assert measure_text(Measurement(state="failed", detail="no room.")) == "The measurement failed: no room. Try again."
    facts = dict(result_facts(toy_states.measured()))
    assert facts["Processor"] == "about 4,310 tokens/s, 15.5 million an hour, with 512 MB of memory"
    assert facts["AMD Radeon Graphics"] == "this PyTorch has no support for it"
    assert facts["Sending"] == "about 11.2 Mbit/s"
