"""Machine: what the last 24 hours were used for, and why not for more."""

from typing import Final

import msgspec
from PySide6.QtCore import QDateTime, QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from app.context import Context
from app.language import say
from app.link import operations
from app.link.operation import Failure
from app.widgets.card import Card
from app.widgets.day_view import DAY_SECONDS, LEAST_SECONDS, DayView, Stretch, Warmth, clipped, hours_text, summary
from app.widgets.facts import Facts
from app.widgets.history import DayHistory
from app.widgets.text import Text
from app.words import cause_text, failure_sentence
from engine.contract.snapshot import PeriodInfo, ReadingInfo
from engine.contract.why import Spent, spent

EVERY_MILLISECONDS: Final = 60_000
SHOWN_CAUSES: Final = 5


class HistoryCard(Card):
    """Asks for the records when it comes into sight, and every minute while it is."""

    def __init__(self, context: Context, parent: QWidget | None = None) -> None:
        super().__init__(say("history", "Last 24 hours"), parent=parent)
        self._context = context
        self._periods: list[PeriodInfo] = []
        self._readings: list[ReadingInfo] = []
        self.summary = Text(role="strong", wrap=True)
        self.history = DayHistory(context.theme)
        self.key = Text(
            say("history", "The higher the bar, the more was used. A flat line is a time without training."),
            "label",
            wrap=True,
        )
        self.causes_title = Text(say("history", "Without training"), "strong")
        self.causes = Facts()
        self.error = Text(role="error", wrap=True)
        self.error.hide()
        for part in (self.summary, self.history, self.key, self.causes_title, self.causes, self.error):
            self.body.addWidget(part)
        self._timer = QTimer(self, interval=EVERY_MILLISECONDS)
        self._timer.timeout.connect(self.ask)
        context.link.status_changed.connect(self.ask)
        self._show()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._timer.start()
        self.ask()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._timer.stop()

    def ask(self, *_: object) -> None:
        """Ask for the records anew."""
        if not (self.isVisible() and self._context.link.connected):
            return
        to_at = now()
        for operation, taken in (
            (operations.periods(self._context.link, to_at - DAY_SECONDS, to_at), self._take_periods),
            (operations.readings(self._context.link, to_at - DAY_SECONDS, to_at), self._take_readings),
        ):
            operation.succeeded.connect(taken)
            operation.failed.connect(self._failed)

    def _take_periods(self, result: object) -> None:
        try:
            self._periods = msgspec.convert(result, list[PeriodInfo])
        except msgspec.ValidationError:
            self._periods = []
        self.error.show_text("")
        self._show()

    def _take_readings(self, result: object) -> None:
        try:
            self._readings = msgspec.convert(result, list[ReadingInfo])
        except msgspec.ValidationError:
            self._readings = []
        self._show()

    def _failed(self, failure: Failure) -> None:
        if self.isVisible() and self._context.link.connected:
            self.error.show_text(failure_sentence(failure))

    def _show(self) -> None:
        to_at = now()
        periods = until(self._periods, to_at)
        sums = spent(periods, to_at - DAY_SECONDS, to_at)
        view = day_view(periods, self._readings, sums, to_at)
        self.history.show_view(view)
        self.history.setVisible(bool(view.stretches))
        self.key.setVisible(bool(view.stretches))
        self.summary.show_text(summary(view))
        longest = [item for item in sums.by_reason if item[1] >= LEAST_SECONDS]
        found = [(cause_text(reason), hours_text(seconds)) for reason, seconds in longest[:SHOWN_CAUSES]]
        if sums.unknown_seconds >= LEAST_SECONDS and view.stretches:
            found.append((say("history", "Potluck was not running."), hours_text(sums.unknown_seconds)))
        self.causes.show_facts(found)
        self.causes_title.setVisible(bool(found))


def now() -> float:
    """Seconds since the epoch."""
    return QDateTime.currentMSecsSinceEpoch() / 1000


def until(periods: list[PeriodInfo], to_at: float) -> list[PeriodInfo]:
    """What still goes on goes on until that moment."""
    return [msgspec.structs.replace(period, to_at=to_at) if period.open else period for period in periods]


def day_view(periods: list[PeriodInfo], readings: list[ReadingInfo], sums: Spent, to_at: float) -> DayView:
    """The records of the 24 hours before a moment."""
    from_at = to_at - DAY_SECONDS
    stretches = [
        Stretch(period.level, tuple(map(cause_text, period.reasons)), period.from_at, period.to_at)
        for period in periods
    ]
    warmths = [
        Warmth(reading.at, reading.temperature_celsius)
        for reading in readings
        if reading.temperature_celsius is not None and from_at <= reading.at <= to_at
    ]
    warmths.sort(key=lambda warmth: warmth.at)
    return DayView(from_at, to_at, clipped(stretches, from_at, to_at), tuple(warmths), sums.worked_seconds)
