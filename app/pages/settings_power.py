"""Settings, "Power": battery, energy saver, keeping awake, what it costs."""

from typing import Final

from PySide6.QtCore import QLocale

from app.context import Context
from app.format import decimal, one_line
from app.language import say
from app.pages.setting_amounts import OptionalAmountRow, Unit
from app.pages.setting_rows import Rows, SwitchRow
from app.words import setting_label
from engine.contract.settings import MAX_PRICE_PER_KWH
from engine.contract.snapshot import EngineState, Machine

GRANTED: Final = "granted"
SUGGESTED_PRICE: Final = 0.3


def power_rows(context: Context, battery: SwitchRow) -> list[Rows]:
    """All rows of the section; `battery` is the first."""
    price = say("settings", "Reckon with a price of electricity of")
    unit = Unit(say("settings", "per kWh"), 1, 0, MAX_PRICE_PER_KWH, whole=False)
    return [
        battery,
        SwitchRow(context, "pause_on_energy_saver", setting_label("pause_on_energy_saver"), energy_saver_effect),
        SwitchRow(context, "keep_awake", setting_label("keep_awake"), awake_effect),
        OptionalAmountRow(context, "electricity_price_per_kwh", price, unit, price_effect, suggested=SUGGESTED_PRICE),
    ]


def battery_effect(state: EngineState) -> str:
    """What the switch does here and now."""
    if state.machine.on_battery is None:
        return say("settings", "No battery was found on this computer.")
    return say("settings", "On battery now.") if state.machine.on_battery else say("settings", "Plugged in now.")


def energy_saver_effect(state: EngineState) -> str:
    """What the switch does here and now."""
    saver = state.machine.energy_saver
    if saver is None:
        return say("settings", "Has no effect here: this system does not tell whether it saves energy.")
    return say("settings", "Energy saver is on now.") if saver else say("settings", "Energy saver is off now.")


def awake_effect(state: EngineState) -> str:
    """Whether the system grants it."""
    if not state.settings.keep_awake:
        return say("settings", "This computer goes to sleep as its own settings say.")
    answer = state.governor.keep_awake
    if answer == GRANTED:
        return say("settings", "Granted: it stays awake while it trains. The screen may still turn off.")
    if answer:
        return say("settings", "Not granted: {why}.").format(why=one_line(answer, 120).rstrip("."))
    return say("settings", "Asked for only while it trains.")


def energy_text(machine: Machine, price_per_kwh: float | None) -> str:
    """Today's energy, and what it costs when that is known; empty when it cannot be read."""
    energy = machine.energy_kilowatt_hours_today
    if energy is None:
        return ""
    shown = decimal(energy, 2 if energy < 10 else 1)
    if price_per_kwh is None:
        return say("settings", "about {energy} kWh").format(energy=shown)
    return say("settings", "about {energy} kWh, {cost}").format(energy=shown, cost=money(energy * price_per_kwh))


def money(amount: float) -> str:
    """An amount in the currency of the user's locale."""
    return QLocale().toCurrencyString(amount)


def price_effect(state: EngineState) -> str:
    """What today cost."""
    text = energy_text(state.machine, state.settings.electricity_price_per_kwh)
    if not text:
        return say("settings", "The energy that this computer takes cannot be read here.")
    return say("settings", "Today {energy}.").format(energy=text)
