"""Settings: each takes effect at once, shows its present effect in words, and its error beside it."""

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLineEdit, QWidget

from app.context import Context
from app.language import say
from app.pages.page import Page
from app.pages.setting_rows import LineRow, RateRow, Rows, SettingRow, SwitchRow, download_effect, upload_effect
from app.pages.settings_heat import heat_rows
from app.pages.settings_how_much import CpuRow, how_much_rows
from app.pages.settings_network import network_rows
from app.pages.settings_outlook import Outlook
from app.pages.settings_power import battery_effect, power_rows
from app.pages.settings_when import in_use_effect, when_rows
from app.widgets.card import Card, line
from app.widgets.columns import Columns
from app.widgets.text import Text
from app.words import setting_label
from engine.contract.settings import MAX_DISPLAY_NAME_CHARS, MAX_HUB_URL_CHARS

SEARCH_WIDTH: Final = 420
PAIR_WIDTH: Final = 640


class Section(Card):
    """A heading and its rows, those of them that a search leaves; a pair stands side by side where there is room."""

    def __init__(self, title: str, rows: Sequence[Rows], parent: QWidget | None = None) -> None:
        super().__init__(title, parent=parent)
        self.groups = [row if isinstance(row, tuple) else (row,) for row in rows]
        self.lines: list[QFrame] = []
        self.holders: list[QWidget] = []
        for index, group in enumerate(self.groups):
            rule = line()
            if index == 0:
                rule.hide()
            holder = Columns(group, threshold=PAIR_WIDTH, gap=24) if len(group) > 1 else group[0]
            self.lines.append(rule)
            self.holders.append(holder)
            self.body.addWidget(rule)
            self.body.addSpacing(4)
            self.body.addWidget(holder)

    @property
    def rows(self) -> list[SettingRow]:
        """All of them in order."""
        return [row for group in self.groups for row in group]

    def show_matches(self, wanted: list[str]) -> bool:
        """Show the rows that have all these words, or all rows when the heading has them; whether there are any."""
        title = self.heading.text().casefold()
        whole = all(word in title for word in wanted)
        first = True
        for group, holder, rule in zip(self.groups, self.holders, self.lines, strict=True):
            for row in group:
                row.setVisible(whole or all(word in f"{title} {row.words}" for word in wanted))
            found = any(not row.isHidden() for row in group)
            holder.setVisible(found)
            rule.setVisible(found and not first)
            first = first and not found
        self.setVisible(not first)
        return not first


class SettingsPage(Page):
    """How much, when, heat, network, power, name. Its many rows are made when it is first shown."""

    def __init__(self, context: Context, parent: QWidget | None = None) -> None:
        super().__init__(context, say("pages", "Settings"), parent=parent)
        self.sections: list[Section] = []
        self.rows: list[SettingRow] = []
        mirror = context.mirror
        for signal in (
            mirror.settings_changed,
            mirror.machine_changed,
            mirror.governor_changed,
            mirror.hub_changed,
            context.link.status_changed,
        ):
            signal.connect(self._soon)

    def fill(self) -> None:
        """Make the rows, unless they are there."""
        if self.sections:
            return
        context = self.context
        self.cpu = CpuRow(context)
        self.in_use = SwitchRow(context, "pause_while_in_use", setting_label("pause_while_in_use"), in_use_effect)
        self.battery = SwitchRow(context, "pause_on_battery", setting_label("pause_on_battery"), battery_effect)
        self.upload = RateRow(
            context,
            "upload_limit_bytes_per_second",
            say("settings", "Limit uploads to"),
            say("settings", "Upload limit in megabits per second"),
            upload_effect,
        )
        self.download = RateRow(
            context,
            "download_limit_bytes_per_second",
            say("settings", "Limit downloads to"),
            say("settings", "Download limit in megabits per second"),
            download_effect,
        )
        name_note = say("settings", "Shown on the leaderboard. Leave it empty to appear without a name.")
        self.name = LineRow(context, "display_name", say("settings", "Your name"), MAX_DISPLAY_NAME_CHARS, name_note)
        self.name.field.setPlaceholderText(say("settings", "No name"))
        hub_note = say("settings", "The server that lists projects and introduces computers to each other.")
        self.hub = LineRow(context, "hub_url", say("settings", "Hub address"), MAX_HUB_URL_CHARS, hub_note)
        self.hub.field.setPlaceholderText("https://")
        self.search = QLineEdit()
        self.nothing = Text(role="muted")
        self.outlook = Outlook(context)
        self.sections = [
            Section(say("settings", "How much"), how_much_rows(context, self.cpu)),
            Section(say("settings", "When"), when_rows(context, self.in_use)),
            Section(say("settings", "Heat and noise"), heat_rows(context)),
            Section(say("settings", "Network"), network_rows(context, (self.upload, self.download), self.hub)),
            Section(say("settings", "Power"), power_rows(context, self.battery)),
            Section(say("settings", "On the leaderboard"), [self.name]),
        ]
        self.rows = [row for section in self.sections for row in section.rows]
        self._arrange()
        self.refresh()

    def _arrange(self) -> None:
        self.search.setPlaceholderText(say("settings", "Search settings"))
        self.search.setAccessibleName(say("settings", "Search settings"))
        self.search.setClearButtonEnabled(True)
        self.search.setMaximumWidth(SEARCH_WIDTH)
        self.search.textChanged.connect(self._search)
        self.search.installEventFilter(self)
        find = QShortcut(QKeySequence(QKeySequence.StandardKey.Find), self)
        find.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        find.activated.connect(self.search.setFocus)
        self.nothing.hide()
        top = QHBoxLayout()
        top.addWidget(self.search, 1)
        top.addStretch(1)
        self.column.addLayout(top)
        self.column.addWidget(self.outlook)
        self.column.addWidget(self.nothing)
        for section in self.sections:
            self.column.addWidget(section)
        self.column.addStretch(1)

    def row(self, name: str) -> SettingRow:
        """The row of a setting."""
        return next(row for row in self.rows if row.name == name)

    def _soon(self, *_: object) -> None:
        if self.isVisible() and self.sections:
            self.refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self.sections:
            self.refresh()
            self.outlook.ask_again()

    def refresh(self) -> None:
        """Show the settings that hold, and their effects."""
        state = self.context.mirror.state
        usable = state is not None and self.context.link.connected
        for row in self.rows:
            row.setEnabled(usable)
            if state is not None:
                row.show_state(state)

    def _search(self, text: str) -> None:
        wanted = text.casefold().split()
        found = [section.show_matches(wanted) for section in self.sections]
        self.outlook.set_wanted(not wanted)
        self.nothing.show_text("" if any(found) else say("settings", "No setting has these words."))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        pressed = watched is self.search and event.type() is QEvent.Type.KeyPress
        if pressed and isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape and self.search.text():
            self.search.clear()
            return True
        return super().eventFilter(watched, event)
