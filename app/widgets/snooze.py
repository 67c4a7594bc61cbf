"""How long a pause lasts: the entries of the Pause menu, in the window and in the tray."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QDateTime, QLocale, QTime
from PySide6.QtWidgets import QMenu

from app.language import say

MORNING_HOUR: Final = 8
NIGHT_ENDS_HOUR: Final = 4
"""Somebody who pauses before this hour means the morning that comes, not the one after."""


@dataclass(frozen=True, slots=True)
class Snooze:
    """An entry: what it says, and the seconds it means; None is until resumed."""

    text: str
    seconds: float | None


def morning_after(now: QDateTime) -> QDateTime:
    """The morning until which a pause "until tomorrow" lasts."""
    days = 0 if now.time().hour() < NIGHT_ENDS_HOUR else 1
    return QDateTime(now.date().addDays(days), QTime(MORNING_HOUR, 0))


def snoozes(now: QDateTime) -> list[Snooze]:
    """The entries as they are at a moment."""
    morning = morning_after(now)
    time = QLocale().toString(morning.time(), QLocale.FormatType.ShortFormat)
    tomorrow, today = say("pause", "Until tomorrow {time}"), say("pause", "Until {time}")
    text = (today if morning.date() == now.date() else tomorrow).format(time=time)
    return [
        Snooze(say("pause", "30 minutes"), 1800.0),
        Snooze(say("pause", "1 hour"), 3600.0),
        Snooze(text, float(now.secsTo(morning))),
        Snooze(say("pause", "Until I resume"), None),
    ]


def fill_pause_menu(menu: QMenu, pause: Callable[[float | None], object]) -> None:
    """Give `menu` the entries; times of day are reckoned anew whenever it opens, and when one is chosen."""
    for index in range(len(snoozes(QDateTime.currentDateTime()))):
        action = menu.addAction("")
        action.triggered.connect(lambda _on=False, i=index: pause(snoozes(QDateTime.currentDateTime())[i].seconds))

    def name() -> None:
        for action, snooze in zip(menu.actions(), snoozes(QDateTime.currentDateTime()), strict=True):
            action.setText(snooze.text)

    name()
    menu.aboutToShow.connect(name)
