"""The three presets as cards to choose from: one group of radio buttons to the keyboard and to screen readers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QPoint, QRect, QRectF, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QRadioButton, QSizePolicy, QVBoxLayout, QWidget

from app.desktop.theme import Theme
from app.widgets.columns import Columns

INSIDE: Final = 14
DOT: Final = 18
GAP: Final = 6
RADIUS: Final = 10.0
NARROW: Final = 560
_WRAP: Final = int(Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)


@dataclass(frozen=True, slots=True)
class Choice:
    """A preset as the user sees it."""

    name: str  # the setting's value
    title: str
    text: str


class PresetCard(QRadioButton):
    """A radio button with a sentence below its title."""

    def __init__(self, theme: Theme, choice: Choice, parent: QWidget | None = None) -> None:
        super().__init__(choice.title, parent)
        self._theme = theme
        self.choice = choice
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName(choice.title)
        self.show_text(choice.text)
        theme.changed.connect(self.update)

    @property
    def sentence(self) -> str:
        """The sentence below the title."""
        return self._text

    def show_text(self, text: str) -> None:
        """Change the sentence."""
        self._text = text
        self.setAccessibleDescription(text)
        self.updateGeometry()
        self.update()

    def hitButton(self, position: QPoint) -> bool:
        return self.rect().contains(position)

    def sizeHint(self) -> QSize:
        return QSize(240, self.heightForWidth(240))

    def minimumSizeHint(self) -> QSize:
        return QSize(150, self.heightForWidth(150))

    def heightForWidth(self, width: int) -> int:
        title = QFontMetrics(self._theme.font(14, bold=True)).height()
        text = self._text_box(width).height()
        return 2 * INSIDE + max(title, DOT) + GAP + text

    def hasHeightForWidth(self) -> bool:
        return True

    def _text_box(self, width: int) -> QRect:
        room = QRect(0, 0, max(width - 2 * INSIDE, 60), 10_000)
        return QFontMetrics(self._theme.font(13)).boundingRect(room, _WRAP, self._text)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.setMinimumHeight(self.heightForWidth(event.size().width()))

    def paintEvent(self, event: QPaintEvent) -> None:
        roles = self._theme.roles
        on, usable = self.isChecked(), self.isEnabled()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        edge = QRectF(self.rect()).adjusted(1, 1, -1, -1)
        strong = (roles.action if on else roles.outline) if usable else roles.hairline
        painter.setPen(QPen(QColor(strong), 2 if on else 1))
        painter.setBrush(QColor(roles.raised if on or (self.underMouse() and usable) else roles.surface))
        painter.drawRoundedRect(edge, RADIUS, RADIUS)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(roles.text), 2))
            painter.drawRoundedRect(edge.adjusted(3, 3, -3, -3), RADIUS - 3, RADIUS - 3)
        self._draw_dot(painter, strong)
        painter.setPen(QColor(roles.text if usable else roles.muted))
        painter.setFont(self._theme.font(14, bold=True))
        height = max(QFontMetrics(painter.font()).height(), DOT)
        title = QRect(INSIDE + DOT + 8, INSIDE, self.width() - 2 * INSIDE - DOT - 8, height)
        painter.drawText(title, int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft), self.text())
        painter.setPen(QColor(roles.muted))
        painter.setFont(self._theme.font(13))
        top = INSIDE + height + GAP
        painter.drawText(QRect(INSIDE, top, self.width() - 2 * INSIDE, self.height() - top), _WRAP, self._text)
        painter.end()

    def _draw_dot(self, painter: QPainter, strong: str) -> None:
        painter.setPen(QPen(QColor(strong), 1.5))
        painter.setBrush(QColor(self._theme.roles.surface))
        area = QRectF(INSIDE, INSIDE, DOT, DOT).adjusted(1, 1, -1, -1)
        painter.drawEllipse(area)
        if self.isChecked():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(strong))
            painter.drawEllipse(area.adjusted(4, 4, -4, -4))


class PresetPicker(QWidget):
    """One of several presets, or none of them.

    Signals:
        chosen: the preset's name, when the user chose it.
    """

    chosen = Signal(object)

    def __init__(self, theme: Theme, name: str, choices: Sequence[Choice], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.cards = {choice.name: PresetCard(theme, choice) for choice in choices}
        self._group = QButtonGroup(self)
        for card in self.cards.values():
            self._group.addButton(card)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(Columns(list(self.cards.values()), threshold=NARROW, gap=12))
        self._group.buttonClicked.connect(self._clicked)

    @property
    def preset(self) -> str:
        """The chosen preset's name; empty when none is."""
        return next((name for name, card in self.cards.items() if card.isChecked()), "")

    def show_preset(self, name: str) -> None:
        """Mark this one; a name that is no card's marks none."""
        if name == self.preset:
            return
        with QSignalBlocker(self._group):
            self._group.setExclusive(False)
            for own, card in self.cards.items():
                card.setChecked(own == name)
            self._group.setExclusive(True)
        self._let_tab_in()

    def _let_tab_in(self) -> None:
        """Tab enters at the chosen card, as in any group of radio buttons; at each of them when none is chosen."""
        for own, card in self.cards.items():
            enters = self.preset in ("", own)
            card.setFocusPolicy(Qt.FocusPolicy.StrongFocus if enters else Qt.FocusPolicy.ClickFocus)

    def _clicked(self, button: QRadioButton) -> None:
        self._let_tab_in()
        if isinstance(button, PresetCard):
            self.chosen.emit(button.choice.name)
