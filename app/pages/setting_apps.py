"""The programs beside which Potluck does not train."""

from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from app.context import Context
from app.format import one_line
from app.language import say
from app.link.operation import Failure
from app.pages.setting_rows import FIELD_WIDTH, SettingRow
from app.widgets.buttons import push_button
from app.widgets.text import Text
from engine.contract.settings import MAX_EXCLUSIVE_APP_CHARS
from engine.contract.snapshot import EngineState

SHOWN_CHARS: Final = 60


class AppsRow(SettingRow):
    """A list that grows by a field and shrinks by a button at each name."""

    def __init__(self, context: Context, parent: QWidget | None = None) -> None:
        super().__init__(context, "exclusive_apps", say("settings", "Pause while these programs run"), parent)
        self.field = QLineEdit()
        self.field.setMaxLength(MAX_EXCLUSIVE_APP_CHARS)
        self.field.setMaximumWidth(FIELD_WIDTH)
        self.field.setPlaceholderText(say("settings", "Name of a program, such as blender"))
        self.field.setAccessibleName(say("settings", "Name of a program to add"))
        self.add = push_button(say("settings", "Add"), name=say("settings", "Add program"))
        self.add.setEnabled(False)
        self.removes: dict[str, QPushButton] = {}
        self._apps: tuple[str, ...] = ()
        self._list = QVBoxLayout()
        self._list.setSpacing(4)
        row = QHBoxLayout()
        row.addWidget(self.field, 1)
        row.addWidget(self.add)
        row.addStretch(1)
        self.controls.addLayout(self._list)
        self.controls.addLayout(row)
        self.field.textChanged.connect(lambda text: self.add.setEnabled(bool(text.strip())))
        self.field.returnPressed.connect(self._add)
        self.add.clicked.connect(self._add)

    @property
    def apps(self) -> tuple[str, ...]:
        """The names shown."""
        return self._apps

    def show_state(self, state: EngineState) -> None:
        if not self.pending and state.settings.exclusive_apps != self._apps:
            self._show(state.settings.exclusive_apps)
        self.effect.show_text(apps_effect(state))
        self.field.setAccessibleDescription(self.effect.text())

    def _add(self) -> None:
        name = self.field.text().strip()
        if not name:
            return
        if name in self._apps or self._change((*self._apps, name)):
            self.field.clear()

    def _remove(self, name: str) -> None:
        had_focus = self.removes[name].hasFocus()
        self._change(tuple(app for app in self._apps if app != name))
        if had_focus:
            self.field.setFocus(Qt.FocusReason.OtherFocusReason)

    def _change(self, apps: tuple[str, ...]) -> bool:
        if not self.send(list(apps)):
            return False
        self._show(apps)
        return True

    def _failed(self, failure: Failure) -> None:
        super()._failed(failure)
        if not self.pending and self._context.mirror.state is not None:
            self._show(self._context.mirror.state.settings.exclusive_apps)

    def _show(self, apps: tuple[str, ...]) -> None:
        self._apps = apps
        self.removes = {}
        while (item := self._list.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        for app in apps:
            self._list.addWidget(self._line(app))

    def _line(self, app: str) -> QWidget:
        holder = QWidget()
        row = QHBoxLayout(holder)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(Text(one_line(app, SHOWN_CHARS)))
        remove = push_button(say("settings", "Remove"), name=say("settings", "Remove: {name}").format(name=app))
        remove.setProperty("kind", "plain")
        remove.clicked.connect(lambda: self._remove(app))
        self.removes[app] = remove
        row.addWidget(remove)
        row.addStretch(1)
        return holder


def apps_effect(state: EngineState) -> str:
    """What the list does here and now."""
    running = one_line(state.machine.exclusive_app_running, SHOWN_CHARS)
    if running:
        return say("settings", "{name} runs now.").format(name=running)
    if state.settings.exclusive_apps:
        return say("settings", "None of them runs now.")
    return say("settings", "For games and other programs that want the whole computer. Nothing is listed.")
