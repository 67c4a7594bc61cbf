"""Settings, "Network": rate, amount, hours, hub."""

from typing import Final

from app.context import Context
from app.format import percent, size
from app.language import say
from app.pages.setting_amounts import GIGABYTE, OptionalAmountRow, Unit
from app.pages.setting_choices import ChoiceRow
from app.pages.setting_rows import Rows, SettingRow, SwitchRow
from app.pages.setting_schedule import ScheduleRow
from app.words import setting_label, translate
from engine.contract.link_words import address_text, reachability_text
from engine.contract.settings import DATA_CAP_BOUNDS
from engine.contract.snapshot import EngineState

CAP_DAYS: Final = (1, 7, 14, 30, 90)
CAP_GIGABYTES: Final = Unit("GB", GIGABYTE, DATA_CAP_BOUNDS[0] / GIGABYTE, DATA_CAP_BOUNDS[1] / GIGABYTE)
SUGGESTED_CAP_BYTES: Final = 50 * GIGABYTE


def network_rows(context: Context, limits: tuple[SettingRow, SettingRow], hub: SettingRow) -> list[Rows]:
    """All rows of the section; `limits` and `hub` are some of them."""
    cap = OptionalAmountRow(
        context,
        "data_cap_bytes",
        say("settings", "Limit data to"),
        CAP_GIGABYTES,
        data_effect,
        suggested=SUGGESTED_CAP_BYTES,
    )
    days = ChoiceRow(context, "data_cap_days", setting_label("data_cap_days"), CAP_DAYS, days_text, days_effect)
    metered = SwitchRow(context, "pause_on_metered", setting_label("pause_on_metered"), metered_effect)
    hours = ScheduleRow(context, "network_schedule", setting_label("network_schedule"))
    hidden = SwitchRow(context, "relay_only", setting_label("relay_only"), address_effect)
    return [limits, (cap, days), metered, hours, hidden, hub]


def days_text(days: int) -> str:
    """A number of days."""
    return say("settings", "%n days", None, days)


def data_effect(state: EngineState) -> str:
    """How much of the limit is used."""
    cap, used = state.settings.data_cap_bytes, state.governor.data_used_bytes
    days = days_text(state.settings.data_cap_days)
    if used is None:
        return say("settings", "Counts what is sent and received over the internet.")
    if cap is None:
        return say("settings", "{used} were sent and received in {days}.").format(used=size(used), days=days)
    text = say("settings", "{used} of it were sent and received in {days}, {share}. Training stops at the limit.")
    return text.format(used=size(used), days=days, share=percent(100 * used / cap))


def days_effect(state: EngineState) -> str:
    """What the days mean."""
    if state.settings.data_cap_bytes is None:
        return say("settings", "Has no effect now: there is no data limit.")
    return say("settings", "What is older than that no longer counts.")


def address_effect(state: EngineState) -> str:
    """Who sees this computer's address and, while it is not hidden, what the router lets through."""
    hidden = state.settings.relay_only
    seen = address_text(state.session, relay_only=hidden, translate=translate)
    return seen if hidden else f"{seen} {reachability_text(state.session, translate)}"


def metered_effect(state: EngineState) -> str:
    """What the switch does here and now."""
    metered = state.machine.metered
    if metered is None:
        return say("settings", "Has no effect here: this system does not tell whether the network is metered.")
    if metered:
        return say("settings", "This network is metered.")
    return say("settings", "This network is not metered.")
