import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.errors import ControlError, ErrorCode
from engine.contract.impossible import ALWAYS_RUNNING, check_settings
from engine.contract.presets import CUSTOM, PRESET_FIELDS, PRESET_VALUES, PRESETS, apply_preset, preset_of
from engine.contract.settings import BOUNDS, MAX_EXCLUSIVE_APPS, changed, restored
from engine.contract.snapshot import Machine, Settings
from engine.contract.week import ALL_DAY, NIGHTS, WEEKENDS
from engine.contract.words import PRESET_LABELS

GB = 1_000_000_000
DAY_ONLY = (0b11111111 << 8,) * 7


def refusal(changes: dict[str, Any], settings: Settings | None = None) -> dict[str, Any]:
    with pytest.raises(ControlError) as refused:
        changed(settings or Settings(), changes)
    assert refused.value.code is ErrorCode.BAD_SETTING
    return dict(refused.value.params)


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_are_inclusive(name):
    low, high = BOUNDS[name]
    assert getattr(changed(Settings(), {name: low}), name) == low
    assert getattr(changed(Settings(), {name: high}), name) == high
    for wrong in (low - 1, high + 1):
        assert refusal({name: wrong}) == {"name": name, "detail": f"must be a whole number from {low} to {high}"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("preset", "fast"),
        ("preset", 3),
        ("compute_schedule", [0] * 6),
        ("compute_schedule", [ALL_DAY + 1] * 7),
        ("compute_schedule", [-1] * 7),
        ("network_schedule", ["monday"] * 7),
        ("exclusive_apps", [""]),
        ("exclusive_apps", ["a\nb"]),
        ("exclusive_apps", ["a" * 121]),
        ("exclusive_apps", ["a"] * (MAX_EXCLUSIVE_APPS + 1)),
        ("exclusive_apps", "game"),
        ("data_cap_bytes", 0),
        ("electricity_price_per_kwh", -0.1),
        ("electricity_price_per_kwh", math.nan),
        ("pause_on_metered", "yes"),
        ("heat_target_cpu_celsius", 80.5),
        ("warp_speed", 9),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(name, value):
    assert refusal({name: value})["name"] == name


def test_several_are_changed_together():
    result = changed(Settings(), {"exclusive_apps": ["game", "cad.exe"], "compute_schedule": list(NIGHTS)})
    assert (result.exclusive_apps, result.compute_schedule) == (("game", "cad.exe"), NIGHTS)
    assert result.preset == "balanced"
    assert changed(Settings(), {"data_cap_bytes": None, "electricity_price_per_kwh": 0.3}).data_cap_bytes is None


# Presets


def test_the_defaults_are_the_balanced_preset():
    assert apply_preset(Settings(), "balanced") == Settings()


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != CUSTOM])
def test_a_preset_sets_its_values_and_no_others(preset):
    before = Settings(display_name="Ada", pause_on_battery=False, exclusive_apps=("game",), preset=CUSTOM)
    after = changed(before, {"preset": preset})
    assert {name: getattr(after, name) for name in PRESET_FIELDS} == dict(PRESET_VALUES[preset])
    kept = msgspec.structs.replace(after, **{name: getattr(before, name) for name in (*PRESET_FIELDS, "preset")})
    assert kept == before
    assert preset_of(after) == preset


def test_presets_have_the_same_fields_and_truly_differ():
    assert {frozenset(values) for values in PRESET_VALUES.values()} == {PRESET_FIELDS}
    quiet, balanced, full = (PRESET_VALUES[name] for name in ("quiet", "balanced", "full_when_away"))
    assert quiet["cpu_share_percent"] < balanced["cpu_share_percent"] < full["cpu_share_percent"]
    assert quiet["heat_target_cpu_celsius"] < balanced["heat_target_cpu_celsius"]
    assert set(PRESET_LABELS) == set(PRESETS)
    with pytest.raises(ValueError, match="no preset"):
        apply_preset(Settings(), "loud")


def test_another_value_makes_it_custom_and_a_preset_takes_it_back():
    own = changed(Settings(), {"cpu_share_percent": 55})
    assert own.preset == CUSTOM
    assert changed(own, {"cpu_share_percent": 50}).preset == CUSTOM
    assert changed(own, {"preset": "balanced"}) == Settings()
    assert changed(own, {"preset": "quiet", "cpu_share_percent": 30}).preset == CUSTOM
    assert changed(Settings(), {"cpu_share_percent": 50}).preset == "balanced"
    assert changed(Settings(), {"pause_on_battery": False}).preset == "balanced"


# What can never be satisfied


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"compute_schedule": [0] * 7}, "No hour of the week is left for training"),
        ({"network_schedule": [0] * 7}, "No hour of the week is left for the network"),
        ({"compute_schedule": list(DAY_ONLY), "network_schedule": list(NIGHTS)}, "no hour in common"),
        ({"exclusive_apps": ["Explorer.EXE"]}, "Explorer.EXE always runs"),
        ({"exclusive_apps": ["game", " potluck"]}, "potluck always runs"),
    ],
)
def test_what_can_never_be_satisfied_is_refused_and_explained(changes, said):
    assert said in refusal(changes)["detail"]


def test_one_impossible_setting_does_not_lock_the_others():
    stuck = Settings(compute_schedule=(0,) * 7)
    assert changed(stuck, {"display_name": "Ada"}).display_name == "Ada"
    assert changed(stuck, {"compute_schedule": []}).compute_schedule == ()


def test_what_this_computer_rules_out():
    small = Machine(memory_total_bytes=4 * GB)
    assert check_settings(Settings(), small) == ()
    assert "not more than what is to stay free" in check_settings(Settings(memory_free_bytes=4 * GB), small)[0]
    assert check_settings(Settings(), small, memory_needed_bytes=2_500_000_000) == (
        "The project needs 2.5 GB of memory, and 1.9 GB are allowed.",
    )
    assert check_settings(Settings(), Machine(memory_total_bytes=64 * GB), memory_needed_bytes=20 * GB) == ()


def test_programs_that_always_run_are_written_to_be_compared():
    assert all(name == name.lower() and not name.endswith((".exe", ".app")) for name in ALWAYS_RUNNING)


# What was saved


def test_saved_settings_come_back_whatever_their_order():
    chosen = changed(Settings(), {"preset": "quiet", "exclusive_apps": ["game"], "compute_schedule": list(WEEKENDS)})
    saved = msgspec.json.decode(msgspec.json.encode(chosen))
    assert restored(saved) == chosen
    assert restored(dict(reversed(saved.items()))) == chosen


def test_saved_settings_that_are_impossible_together_lose_their_hours():
    saved = {"compute_schedule": list(DAY_ONLY), "network_schedule": list(NIGHTS), "display_name": "Ada"}
    assert restored(saved) == Settings(display_name="Ada")


values = st.none() | st.booleans() | st.integers(-5, 10**12) | st.text(max_size=5) | st.lists(st.integers(0, 9))
names = st.sampled_from([*Settings.__struct_fields__, "unknown"])


@given(st.dictionaries(names, values))
def test_nothing_that_was_saved_stops_the_start(saved):
    settings = restored(saved)
    assert check_settings(settings) == ()
    assert changed(settings, {}) == settings
