"""The rail on the left: an icon and a word for each page."""

from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from app.desktop import icons
from app.desktop.theme import Theme
from app.language import say

RAIL_WIDTH: Final = 112
ICON_PIXELS: Final = 24
MAX_BADGE: Final = 9


@dataclass(frozen=True, slots=True)
class Place:
    """An entry of the rail."""

    name: str  # also the icon's name
    word: str


def places() -> tuple[Place, ...]:
    """All pages in order."""
    return (
        Place("home", say("pages", "Home")),
        Place("projects", say("pages", "Projects")),
        Place("leaderboard", say("pages", "Leaderboard")),
        Place("machine", say("pages", "Machine")),
        Place("settings", say("pages", "Settings")),
    )


class RailButton(QToolButton):
    """One entry; a badge counts what needs the user there."""

    def __init__(self, theme: Theme, place: Place, number: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._place = place
        self._badge = 0
        self.setText(place.word)
        self.setAccessibleName(place.word)
        self.setCheckable(True)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
        self.setIconSize(QSize(ICON_PIXELS, ICON_PIXELS))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setShortcut(f"Ctrl+{number}")
        self.setToolTip(f"{place.word} (Ctrl+{number})")
        self.toggled.connect(self._dress)
        theme.changed.connect(self._dress)
        self._dress()

    @property
    def badge(self) -> int:
        """The number on the badge; 0 is none."""
        return self._badge

    def show_badge(self, number: int) -> None:
        """Change the number."""
        self._badge = number
        text = say("rail", "%n things need you", None, number) if number else ""
        self.setAccessibleDescription(text)
        self.update()

    def _dress(self, *_: object) -> None:
        colour = self._theme.roles.text if self.isChecked() else self._theme.roles.muted
        self.setIcon(icons.icon(self._place.name, colour))

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._badge:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        side = 16.0
        area = QRectF(self.width() / 2 + 6, 5, side, side)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._theme.roles.problem))
        painter.drawEllipse(area)
        painter.setFont(self._theme.font(11, bold=True))
        painter.setPen(QColor(self._theme.roles.surface))
        number = str(self._badge) if self._badge <= MAX_BADGE else f"{MAX_BADGE}+"
        painter.drawText(area, int(Qt.AlignmentFlag.AlignCenter), number)
        painter.end()


class Rail(QFrame):
    """The column of entries.

    Signals:
        chosen: a page's name.
    """

    chosen = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("rail")
        self.setAccessibleName(say("rail", "Pages"))
        self.setFixedWidth(max(RAIL_WIDTH, theme.pixels(RAIL_WIDTH)))
        self.buttons: dict[str, RailButton] = {}
        column = QVBoxLayout(self)
        column.setContentsMargins(8, 20, 8, 16)
        column.setSpacing(6)
        for number, place in enumerate(places(), start=1):
            button = RailButton(theme, place, number)
            button.clicked.connect(lambda _checked=False, name=place.name: self.chosen.emit(name))
            self.buttons[place.name] = button
            column.addWidget(button)
        column.addStretch(1)

    def show_chosen(self, name: str) -> None:
        """Mark the entry of the page that is shown."""
        for place, button in self.buttons.items():  # no exclusive group: that would take all but one from the Tab key
            button.setChecked(place == name)
