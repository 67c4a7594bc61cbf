"""Settings that are one of a few values."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QActionGroup
from PySide6.QtWidgets import QMenu, QWidget

from app.context import Context
from app.pages.setting_rows import SettingRow
from app.widgets.buttons import MenuButton
from engine.contract.snapshot import EngineState


class ChoiceRow(SettingRow):
    """A button that shows the value and opens the others; a value that is none of them is shown all the same."""

    def __init__(
        self,
        context: Context,
        name: str,
        title: str,
        values: Sequence[int],
        text: Callable[[int], str],
        effect: Callable[[EngineState], str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(context, name, title, parent)
        self._text = text
        self._effect = effect
        menu = QMenu()
        self._group = QActionGroup(menu)
        self.actions_of: dict[int, QAction] = {}
        for value in values:
            action = menu.addAction(text(value))
            action.setCheckable(True)
            action.triggered.connect(lambda _checked=False, v=value: self._choose(v))
            self._group.addAction(action)
            self.actions_of[value] = action
        self.button = MenuButton(context.theme, title, menu)
        self.controls.addWidget(self.button, 0, Qt.AlignmentFlag.AlignLeft)

    def show_state(self, state: EngineState) -> None:
        if not self.pending:
            self._show(int(getattr(state.settings, self.name)))
        self.effect.show_text(self._effect(state))
        self.button.setAccessibleDescription(self.effect.text())

    def _choose(self, value: int) -> None:
        self._show(value)
        self.send(value)

    def _show(self, value: int) -> None:
        text = self._text(value)
        self.button.setText(text)
        self.button.setAccessibleName(f"{self.label}: {text}")
        self._group.setExclusive(False)
        for own, action in self.actions_of.items():
            action.setChecked(own == value)
        self._group.setExclusive(True)
        self.button.updateGeometry()
