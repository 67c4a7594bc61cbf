"""Settings, "When": presence, hours, programs that come first."""

from typing import Final

from app.context import Context
from app.format import duration, one_line
from app.language import say
from app.pages.setting_apps import AppsRow
from app.pages.setting_choices import ChoiceRow
from app.pages.setting_rows import Rows, SwitchRow
from app.pages.setting_schedule import ScheduleRow
from app.words import setting_label
from engine.contract.snapshot import EngineState

AWAY: Final = "away_after_seconds"
AWAY_SECONDS: Final = (60, 120, 180, 300, 600, 900, 1800, 3600)
DELAY: Final = "start_delay_seconds"
DELAY_SECONDS: Final = (0, 60, 120, 300, 600, 1800)


def when_rows(context: Context, in_use: SwitchRow) -> list[Rows]:
    """All rows of the section; `in_use` is the first."""
    away = ChoiceRow(context, AWAY, setting_label(AWAY), AWAY_SECONDS, duration, away_after_effect)
    delay = ChoiceRow(context, DELAY, setting_label(DELAY), DELAY_SECONDS, delay_text, delay_effect)
    return [
        in_use,
        (away, delay),
        ScheduleRow(context, "compute_schedule", setting_label("compute_schedule")),
        SwitchRow(context, "pause_full_screen", setting_label("pause_full_screen"), full_screen_effect),
        AppsRow(context),
    ]


def in_use_effect(state: EngineState) -> str:
    """What the switch does here and now."""
    idle = state.machine.idle_seconds
    if idle is None:
        return say("settings", "Has no effect here: this system does not tell when you are away.")
    if not state.settings.pause_while_in_use:
        return say("settings", "Trains while you work, within the smaller share for that time.")
    return say("settings", "Stops when you touch the keyboard or mouse, goes on when you are away.")


def away_after_effect(state: EngineState) -> str:
    """Who tells, and what they say now."""
    idle = state.machine.idle_seconds
    if idle is None:
        return say("settings", "Has no effect here: this system does not tell when you are away.")
    source = one_line(state.machine.idle_source, 60)
    away = idle >= state.settings.away_after_seconds
    here = say("settings", "You count as here now.")
    gone = say("settings", "You count as away now: no key or mouse for {time}.").format(time=duration(idle))
    from_source = say("settings", "Told by {source}.").format(source=source) if source else ""
    return f"{gone if away else here} {from_source}".strip()


def full_screen_effect(state: EngineState) -> str:
    """What the switch does here and now."""
    full = state.machine.full_screen
    if full is None:
        return say("settings", "Has no effect here: this system does not tell what fills the screen.")
    if full:
        return say("settings", "A program fills the screen now.")
    return say("settings", "For films, games and presentations. Nothing fills the screen now.")


def delay_text(seconds: int) -> str:
    """A delay in words."""
    return duration(seconds) if seconds else say("settings", "Do not wait")


def delay_effect(state: EngineState) -> str:
    """What the delay is for."""
    if not state.settings.start_delay_seconds:
        return say("settings", "Training begins as soon as Potluck runs.")
    return say("settings", "Leaves the computer alone while it starts up.")
