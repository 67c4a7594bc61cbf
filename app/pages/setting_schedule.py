"""When computing or the network is allowed: a choice in words, and the hours themselves when they are asked for."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QMenu, QVBoxLayout, QWidget

from app.context import Context
from app.language import say
from app.models.week import describe, hours_a_week, shortest, whole
from app.pages.setting_rows import SettingRow
from app.widgets.buttons import MenuButton, push_button
from app.widgets.text import Text
from app.widgets.week_grid import WeekGrid
from engine.contract.snapshot import EngineState
from engine.contract.week import ALWAYS, NIGHTS, OUTSIDE_OFFICE_HOURS, WEEKENDS, Week


def usual_times() -> tuple[tuple[str, Week], ...]:
    """The choices that need no grid."""
    return (
        (say("week", "At any time"), ALWAYS),
        (say("week", "At night"), NIGHTS),
        (say("week", "Outside office hours"), OUTSIDE_OFFICE_HOURS),
        (say("week", "At weekends"), WEEKENDS),
    )


class ScheduleRow(SettingRow):
    """Sends masks; an hour that is allowed on all days is the empty setting."""

    def __init__(self, context: Context, name: str, title: str, parent: QWidget | None = None) -> None:
        super().__init__(context, name, title, parent)
        self._refused = False
        menu = QMenu()
        for text, masks in usual_times():
            menu.addAction(text).triggered.connect(lambda _checked=False, m=masks: self._choose(m))
        menu.addAction(say("week", "Choose hours")).triggered.connect(self.open_hours)
        self.button = MenuButton(context.theme, title, menu)
        self.more = push_button(
            say("week", "Choose hours"), name=say("week", "Choose hours: {name}").format(name=title)
        )
        self.more.setCheckable(True)
        self.more.setProperty("kind", "plain")
        self.more.toggled.connect(self._open)
        self._grid: WeekGrid | None = None
        self._week: Week = ALWAYS
        self._build()

    def _build(self) -> None:
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self.button)
        row.addWidget(self.more)
        row.addStretch(1)
        self.controls.addLayout(row)
        self.hours = QWidget()
        self._column = QVBoxLayout(self.hours)
        self._column.setContentsMargins(0, 4, 0, 0)
        self._column.setSpacing(4)
        self.hours.hide()
        self.controls.addWidget(self.hours)

    @property
    def grid(self) -> WeekGrid:
        """The hours, made when they are first asked for: few people ever open them."""
        if self._grid is None:
            hint = say(
                "week",
                "Click or drag to switch hours. With the keyboard: arrows to move, Space to switch, "
                "Shift+Space for the whole day, Ctrl+Space for that hour on all days.",
            )
            self._grid = WeekGrid(self._context.theme, self.label)
            self._grid.show_schedule(self._week)
            self._grid.changed.connect(self._choose)
            self._column.addWidget(self._grid)
            self._column.addWidget(Text(hint, "label", wrap=True))
        return self._grid

    def open_hours(self) -> None:
        """Show the grid and go there."""
        self.more.setChecked(True)
        self.grid.setFocus(Qt.FocusReason.OtherFocusReason)

    def _open(self, is_open: bool) -> None:
        if is_open:
            self.grid.show_schedule(self._week)
        self.hours.setVisible(is_open)
        self.more.setText(say("week", "Hide hours") if is_open else say("week", "Choose hours"))

    def show_state(self, state: EngineState) -> None:
        if not (self.pending or self._refused):
            self._show(whole(getattr(state.settings, self.name)))

    def _choose(self, masks: Week) -> None:
        """What cannot be a setting stays as it was drawn, with the reason beside it, until it can."""
        self._show(masks)
        self._refused = not self.send(list(shortest(masks)))

    def _show(self, masks: Week) -> None:
        self._week = masks
        if self._grid is not None:
            self._grid.show_schedule(masks)
        usual = next((text for text, known in usual_times() if known == masks), "")
        self.button.setText(usual or say("week", "Own hours"))
        self.button.setAccessibleName(f"{self.label}: {self.button.text()}")
        self.button.updateGeometry()
        total = say("week", "%n hours a week", None, hours_a_week(masks))
        text = describe(masks)
        self.effect.show_text(text if masks == ALWAYS else f"{text} {total}.")
        self.button.setAccessibleDescription(self.effect.text())
