"""Settings that are a typed amount with a unit, some of which can be off."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QLocale, QSignalBlocker, Qt
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QWidget

from app.context import Context
from app.language import say
from app.pages.setting_rows import SettingRow
from app.widgets.buttons import SWITCH_INDENT, Switch
from app.widgets.text import Text
from engine.contract.snapshot import EngineState

FIELD_WIDTH: Final = 100
SHOWN_DIGITS: Final = 3
GIGABYTE: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Unit:
    """How an amount is typed. `least` and `most` are in the unit; `size` is the unit in the setting's own."""

    text: str
    size: float
    least: float
    most: float
    whole: bool = True  # the setting itself is a whole number

    def value(self, amount: float) -> int | float:
        """The setting's value of a typed amount."""
        return round(amount * self.size) if self.whole else amount * self.size


class AmountRow(SettingRow):
    """An amount that always holds."""

    def __init__(
        self,
        context: Context,
        name: str,
        title: str,
        unit: Unit,
        effect: Callable[[EngineState], str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(context, name, title, parent)
        self._unit = unit
        self._effect = effect
        self._shown = ""
        self.field = QLineEdit()
        self.field.setAccessibleName(say("settings", "{name} in {unit}").format(name=title, unit=unit.text))
        self.field.setMaxLength(12)
        self.field.setFixedWidth(FIELD_WIDTH)
        self.field.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.field.editingFinished.connect(self._finish)
        self.row = QHBoxLayout()
        self.row.addWidget(self.field)
        self.row.addWidget(Text(unit.text))
        self.row.addStretch(1)
        self.controls.addLayout(self.row)

    def show_state(self, state: EngineState) -> None:
        value = getattr(state.settings, self.name)
        if not self.pending and not self.field.isModified() and value is not None:
            self._show_amount(float(value))
        self.effect.show_text(self._effect(state))
        self.field.setAccessibleDescription(self.effect.text())

    def _show_amount(self, value: float) -> None:
        self._shown = QLocale().toString(value / self._unit.size, "g", SHOWN_DIGITS)
        self.field.setText(self._shown)

    def _finish(self) -> None:
        if self.field.text().strip() != self._shown:
            self._send_amount()
        else:
            self.field.setModified(False)

    def _send_amount(self) -> None:
        amount, is_number = QLocale().toDouble(self.field.text().strip())
        unit = self._unit
        if not is_number or not unit.least <= amount <= unit.most:
            text = say("settings", "Enter a number from {least} to {most}.")
            self.error.show_text(text.format(least=_plain(unit.least), most=_plain(unit.most)))
            return
        self._shown = self.field.text().strip()
        self.field.setModified(False)
        self.send(self._unit.value(amount))


class OptionalAmountRow(AmountRow):
    """An amount, or none; `suggested` (in the setting's own unit) is what switching it on begins with."""

    def __init__(
        self,
        context: Context,
        name: str,
        title: str,
        unit: Unit,
        effect: Callable[[EngineState], str],
        parent: QWidget | None = None,
        *,
        suggested: float,
    ) -> None:
        super().__init__(context, name, title, unit, effect, parent)
        self._suggested = suggested
        self.title.hide()
        self.title.setText("")
        self.switch = Switch(context.theme, title)
        self.row.insertWidget(0, self.switch)
        self.effect.setIndent(SWITCH_INDENT)
        self.error.setIndent(SWITCH_INDENT)
        self.switch.toggled.connect(self._toggled)

    def show_state(self, state: EngineState) -> None:
        value = getattr(state.settings, self.name)
        if not self.pending:
            with QSignalBlocker(self.switch):
                self.switch.setChecked(value is not None)
            self.field.setEnabled(value is not None)
            if value is None and not self.field.isModified():
                self._show_amount(self._suggested)
        super().show_state(state)
        self.switch.setAccessibleDescription(self.effect.text())

    def _toggled(self, on: bool) -> None:
        self.field.setEnabled(on)
        if on:
            self._send_amount()
        else:
            self.send(None)


def _plain(amount: float) -> str:
    return QLocale().toString(float(amount), "g", 6)
