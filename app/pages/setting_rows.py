"""One setting a row: its control, its effect in words, its error."""

from collections.abc import Callable
from typing import Final, TypeAlias

from PySide6.QtCore import QLocale, QSignalBlocker, Qt
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLineEdit, QVBoxLayout, QWidget

from app.context import Context
from app.format import megabits, significant, size, whole
from app.language import say
from app.link import operations
from app.link.operation import Failure
from app.widgets.buttons import SWITCH_INDENT, Switch, push_button
from app.widgets.text import Text
from app.words import failure_sentence, refusal_sentence, setting_label
from engine.contract.errors import ControlError
from engine.contract.settings import (
    MAX_UPLOAD_LIMIT_BYTES_PER_SECOND,
    SettingValue,
    changed,
)
from engine.contract.snapshot import EngineState, Settings

BYTES_PER_MEGABIT: Final = 125_000
SUGGESTED_UPLOAD_BYTES_PER_SECOND: Final = 1_250_000
FIELD_WIDTH: Final = 420
LEAST_MEGABITS: Final = 0.07
"""The smallest limit, rounded up to what can be typed."""
MOST_MEGABITS: Final = MAX_UPLOAD_LIMIT_BYTES_PER_SECOND / BYTES_PER_MEGABIT


class SettingRow(QWidget):
    """Base: sends a change when the user makes it, shows the engine's value when it comes."""

    def __init__(self, context: Context, name: str, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.name = name
        self.label = title
        self.pending = False
        self._context = context
        self._queued: tuple[SettingValue] | None = None
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        self.title = Text(title, "strong")
        self.controls: QBoxLayout = QVBoxLayout()
        self.effect = Text(role="muted", wrap=True)
        self.error = Text(role="error", wrap=True)
        self.error.hide()
        column.addWidget(self.title)
        column.addLayout(self.controls)
        column.addWidget(self.effect)
        column.addWidget(self.error)
        column.addStretch(1)

    def show_state(self, state: EngineState) -> None:
        """Show the setting that holds and its present effect."""
        raise NotImplementedError

    @property
    def words(self) -> str:
        """What a search goes through."""
        return f"{self.label} {self.effect.text()}".casefold()

    def send(self, value: SettingValue) -> bool:
        """Ask the engine for `value`; of several in a row only the newest is sent. False: it cannot be a setting."""
        state = self._context.mirror.state
        try:
            changed(state.settings if state is not None else Settings(), {self.name: value})
        except ControlError as error:
            self.error.show_text(refusal_sentence(error))
            return False
        self.error.show_text("")
        if self.pending:
            self._queued = (value,)
            return True
        self.pending = True
        operation = operations.change_setting(self._context.link, self.name, value)
        operation.succeeded.connect(self._succeeded)
        operation.failed.connect(self._failed)
        return True

    def _succeeded(self, _result: object) -> None:
        self._settle()

    def _failed(self, failure: Failure) -> None:
        self.error.show_text(failure_sentence(failure))
        self._settle()

    def _settle(self) -> None:
        self.pending = False
        queued, self._queued = self._queued, None
        if queued is not None:
            self.send(queued[0])
        elif self._context.mirror.state is not None:
            self.show_state(self._context.mirror.state)


Rows: TypeAlias = SettingRow | tuple[SettingRow, SettingRow]
"""A row of its own, or two that belong together."""


class SwitchRow(SettingRow):
    """On or off."""

    def __init__(
        self,
        context: Context,
        name: str,
        title: str,
        effect: Callable[[EngineState], str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(context, name, title, parent)
        self.title.hide()
        self.title.setText("")
        self._effect = effect
        self.switch = Switch(context.theme, title)
        self.controls.addWidget(self.switch, 0, Qt.AlignmentFlag.AlignLeft)
        self.effect.setIndent(SWITCH_INDENT)
        self.error.setIndent(SWITCH_INDENT)
        self.switch.toggled.connect(lambda on: self.send(bool(on)))

    def show_state(self, state: EngineState) -> None:
        if not self.pending:
            with QSignalBlocker(self.switch):
                self.switch.setChecked(bool(getattr(state.settings, self.name)))
        self.effect.show_text(self._effect(state))
        self.switch.setAccessibleDescription(self.effect.text())


class RateRow(SettingRow):
    """No limit, or a rate in Mbit/s."""

    def __init__(
        self,
        context: Context,
        name: str,
        switch: str,
        field: str,
        effect: Callable[[int | None], str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(context, name, setting_label(name), parent)
        self._effect = effect
        self.title.hide()
        self.title.setText("")
        self.switch = Switch(context.theme, switch)
        self.field = QLineEdit()
        self.field.setAccessibleName(field)
        self.field.setMaxLength(12)
        self.field.setFixedWidth(100)
        self.field.setAlignment(Qt.AlignmentFlag.AlignRight)
        row = QHBoxLayout()
        row.addWidget(self.switch)
        row.addWidget(self.field)
        row.addWidget(Text("Mbit/s"))
        row.addStretch(1)
        self.controls.addLayout(row)
        self.effect.setIndent(SWITCH_INDENT)
        self.error.setIndent(SWITCH_INDENT)
        self.switch.toggled.connect(self._toggled)
        self.field.editingFinished.connect(self._finish)
        self._shown = ""

    def show_state(self, state: EngineState) -> None:
        limit: int | None = getattr(state.settings, self.name)
        if not self.pending:
            with QSignalBlocker(self.switch):
                self.switch.setChecked(limit is not None)
            self.field.setEnabled(limit is not None)
            if not self.field.isModified():
                self._show_rate(limit if limit is not None else SUGGESTED_UPLOAD_BYTES_PER_SECOND)
        self.effect.show_text(self._effect(limit))
        self.switch.setAccessibleDescription(self.effect.text())

    def _show_rate(self, bytes_per_second: int) -> None:
        self._shown = significant(bytes_per_second / BYTES_PER_MEGABIT)
        self.field.setText(self._shown)

    def _toggled(self, on: bool) -> None:
        self.field.setEnabled(on)
        if on:
            self._send_rate()
        else:
            self.send(None)

    def _finish(self) -> None:
        if self.switch.isChecked() and self.field.text().strip() != self._shown:
            self._send_rate()

    def _send_rate(self) -> None:
        rate, is_number = QLocale().toDouble(self.field.text().strip())
        if not is_number or not LEAST_MEGABITS <= rate <= MOST_MEGABITS:
            text = say("settings", "Enter a number of megabits per second from {least} to {most}.")
            self.error.show_text(text.format(least=significant(LEAST_MEGABITS, 2), most=whole(round(MOST_MEGABITS))))
            return
        self._shown = self.field.text().strip()
        self.field.setModified(False)
        self.send(round(rate * BYTES_PER_MEGABIT))


class LineRow(SettingRow):
    """A line of text, sent with Enter, with Save, or on leaving the field."""

    def __init__(
        self, context: Context, name: str, title: str, limit: int, note: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(context, name, title, parent)
        self.field = QLineEdit()
        self.field.setMaxLength(limit)
        self.field.setMaximumWidth(FIELD_WIDTH)
        self.field.setAccessibleName(title)
        self.field.setAccessibleDescription(note)
        self.save = push_button(say("settings", "Save"), name=say("settings", "Save: {name}").format(name=title))
        self.save.setEnabled(False)
        row = QHBoxLayout()
        row.addWidget(self.field, 1)
        row.addWidget(self.save)
        row.addStretch(1)
        self.controls.addLayout(row)
        self.effect.show_text(note)
        self._known = ""
        self.field.textEdited.connect(self._edited)
        self.field.editingFinished.connect(self._finish)
        self.save.clicked.connect(self._finish)

    def show_state(self, state: EngineState) -> None:
        value = str(getattr(state.settings, self.name))
        untouched = self.field.text().strip() == self._known
        if not self.pending and (untouched or value != self._known):
            self.field.setText(value)
            self.save.setEnabled(False)
        if not self.pending:
            self._known = value

    def _edited(self, text: str) -> None:
        self.error.show_text("")
        self.save.setEnabled(text.strip() != self._known)

    def _finish(self) -> None:
        text = self.field.text().strip()
        if text != self._known and not self.pending:
            self.save.setEnabled(False)
            self.send(text)

    def _failed(self, failure: Failure) -> None:
        super()._failed(failure)
        self.save.setEnabled(self.field.text().strip() != self._known)


def download_effect(limit_bytes_per_second: int | None) -> str:
    """What the limit means."""
    if limit_bytes_per_second is None:
        return say("settings", "Others send as fast as both lines allow.")
    text = say("settings", "At most {rate} over all connections, about {size} each second.")
    return text.format(rate=megabits(limit_bytes_per_second), size=size(limit_bytes_per_second))


def upload_effect(limit_bytes_per_second: int | None) -> str:
    """What the limit means."""
    if limit_bytes_per_second is None:
        return say("settings", "Potluck uses what your line has free.")
    text = say("settings", "At most {rate} over all connections, about {size} each second.")
    return text.format(rate=megabits(limit_bytes_per_second), size=size(limit_bytes_per_second))
