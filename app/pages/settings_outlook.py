"""What the settings that hold would have meant yesterday, and why they could never work, if so."""

from typing import Final

import msgspec
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget

from app.context import Context
from app.language import say
from app.link import operations
from app.widgets.card import Card
from app.widgets.day_view import hours_text
from app.widgets.text import Text
from engine.contract.settings import check_settings
from engine.contract.snapshot import EngineState, SettingsPreview

ASK_MILLISECONDS: Final = 400
"""Several changes in a row are one question."""
LEAST_KNOWN_SECONDS: Final = 3600.0
NEARLY_ALL_SECONDS: Final = 23 * 3600.0


class Outlook(Card):
    """Asks the engine anew after every change, while it is to be seen."""

    def __init__(self, context: Context, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self._context = context
        self._wanted = True
        self._asked_for: object = None
        self.yesterday = Text(role="strong", wrap=True)
        self.recorded = Text(role="muted", wrap=True)
        self.impossible = Text(role="error", wrap=True)
        for label in (self.yesterday, self.recorded, self.impossible):
            label.hide()
            self.body.addWidget(label)
        self._timer = QTimer(self, interval=ASK_MILLISECONDS, singleShot=True)
        self._timer.timeout.connect(self._ask)
        mirror = context.mirror
        for signal in (mirror.settings_changed, mirror.machine_changed, context.link.status_changed):
            signal.connect(self.refresh)
        self._arrange()

    def set_wanted(self, wanted: bool) -> None:
        """Make room for what a search finds."""
        self._wanted = wanted
        self._arrange()

    def ask_again(self) -> None:
        """The page is shown anew: records may have come since."""
        self._asked_for = None
        self.refresh()

    def refresh(self, *_: object) -> None:
        """Show what can be said here, and ask for the rest when the settings differ from those last asked about."""
        state = self._context.mirror.state
        self.impossible.show_text(impossible_text(state) if state is not None else "")
        self._arrange()
        if state is not None and self._context.link.connected and state.settings != self._asked_for:
            self._timer.start()

    def _ask(self) -> None:
        state = self._context.mirror.state
        page = self.parentWidget()
        if state is None or page is None or not page.isVisible():
            return
        self._asked_for = state.settings
        operation = operations.preview_settings(self._context.link)
        operation.succeeded.connect(self._answered)
        operation.failed.connect(lambda _failure: self._show(None))

    def _answered(self, result: object) -> None:
        try:
            self._show(msgspec.convert(result, SettingsPreview))
        except msgspec.ValidationError:
            self._show(None)

    def _show(self, preview: SettingsPreview | None) -> None:
        self.yesterday.show_text(yesterday_text(preview) if preview is not None else "")
        self.recorded.show_text(recorded_text(preview) if preview is not None else "")
        self.setAccessibleName(f"{self.yesterday.text()} {self.recorded.text()}".strip())
        self._arrange()

    def _arrange(self) -> None:
        labels = (self.yesterday, self.recorded, self.impossible)
        self.setVisible(self._wanted and any(label.text() for label in labels))


def impossible_text(state: EngineState) -> str:
    """Why these settings can never be satisfied on this computer; empty when they can."""
    joined = next((card for card in state.projects if card.joined), None)
    needed = joined.memory_needed_bytes if joined is not None else None
    return " ".join(check_settings(state.settings, state.machine, needed))


def yesterday_text(preview: SettingsPreview) -> str:
    """What would have been done yesterday."""
    if preview.known_seconds < LEAST_KNOWN_SECONDS:
        return say("settings", "There is no record of yesterday to try these settings on.")
    text = say("settings", "With these settings this computer would have trained for about {time} yesterday.")
    return text.format(time=hours_text(preview.worked_seconds))


def recorded_text(preview: SettingsPreview) -> str:
    """What of yesterday is not known; empty when nearly all is, or nothing."""
    if not LEAST_KNOWN_SECONDS <= preview.known_seconds < NEARLY_ALL_SECONDS:
        return ""
    text = say("settings", "Reckoned from the {time} for which Potluck ran.")
    return text.format(time=hours_text(preview.known_seconds))
