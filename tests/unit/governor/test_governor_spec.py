"""The specification's table of rules is the code's."""

import re
from pathlib import Path

from engine.contract.reasons import ReasonCode
from engine.governor import heat, latch, policy, presence, rules
from engine.governor.model import LEVELS

SPEC = (Path(__file__).parents[3] / "docs" / "specs" / "governor.md").read_text("utf-8")
TAKES = {rules.Scope.ALL: ("all",), rules.Scope.COMPUTE: ("computing",), rules.Scope.GPU: ("the card", "all cards")}
FORCE = {rules.Force.HARD: "hard", rules.Force.OWN: "no", rules.Force.SOFT: "yes"}


def test_every_rule_is_in_the_table_in_order_with_its_times():
    section = SPEC.split("\n## Rules\n")[1]
    rows = re.findall(
        r"^\| `([a-z_]+)` \| .* \| ([a-z ]+) \| ([a-z]+) \| (\d+) \| (\d+) \| (\d+) \|$", section, re.MULTILINE
    )
    table = [(rule.code, rule.scope, rule.force, rule.timing) for rule in rules.RULES]
    table += [(rule.code, rules.Scope.GPU, rule.force, rule.timing) for rule in rules.GPU_RULES]
    assert [row[0] for row in rows] == [code.value for code, *_ in table]
    for row, (_code, scope, force, timing) in zip(rows, table, strict=True):
        assert row[1] in TAKES[scope]
        assert row[2] == FORCE[force]
        assert tuple(map(float, row[3:])) == (timing.enter_seconds, timing.leave_seconds, timing.silent_seconds)


def test_rules_stand_in_the_order_of_what_they_take():
    assert [rule.scope for rule in rules.RULES] == sorted(rule.scope for rule in rules.RULES)


def test_every_level_is_in_the_table():
    levels = SPEC.split("\n## Levels\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `([a-z_]+)` \|", levels, re.MULTILINE)) == {level.value for level in LEVELS}


def test_hard_rules_are_those_that_no_mode_overrides():
    assert set(rules.hard_codes()) == {
        ReasonCode.TOO_HOT,
        ReasonCode.GPU_TOO_HOT,
        ReasonCode.ON_BATTERY,
        ReasonCode.DISK_RESERVE,
        ReasonCode.DISK_LIMIT,
        ReasonCode.DATA_CAP,
        ReasonCode.METERED,
        ReasonCode.MEMORY_LOW,
    }


def test_the_numbers_are_those_of_the_code():
    for sentence in (
        f"processor at {rules.HOT_CPU_CELSIUS:.0f} °C, or {rules.BELOW_CRITICAL_CELSIUS:.0f} below",
        f"the card at {rules.HOT_GPU_CELSIUS:.0f} °C, or {rules.BELOW_SLOWDOWN_CELSIUS:.0f} below",
        f"until {rules.COOL_CELSIUS:.0f} °C",
        f"until {100 * rules.DISK_LIMIT_MARGIN:.0f} % of that",
        f"or {rules.RETRY_MEMORY_SECONDS / 60:.0f} min",
        f"at most {rules.MAX_OVERRIDE_SECONDS / 3600:.0f} h",
        f"within {latch.MIN_LEAVE_SECONDS:.0f} s of a fall",
        f"locked for {presence.LOCKED_SECONDS:.0f} s",
        f"more than {policy.STALE_SECONDS:.0f} s past",
        f"gain {heat.GAIN_PER_CELSIUS} per degree on an error bounded to {heat.BAND_CELSIUS:.0f} degrees",
        f"integral time {heat.INTEGRAL_SECONDS:.0f} s, temperature filtered with {heat.FILTER_SECONDS:.0f} s",
        f"output {100 * heat.MIN_DUTY:.0f} % to",
        f"of at most {heat.MAX_STEP_SECONDS:.0f} s",
        f"stays for {heat.SILENT_SECONDS:.0f} s",
        "outside \N{MINUS SIGN}40 to 150 °C",
    ):
        assert sentence in " ".join(SPEC.split()), sentence
    assert heat.PLAUSIBLE_CELSIUS == (-40.0, 150.0)
