"""Buttons beyond Qt's own: one with a menu, and an on-off switch."""

from PySide6.QtCore import QEvent, QPoint, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QCheckBox, QMenu, QPushButton, QStyle, QStyleOptionButton, QStylePainter, QWidget

from app.desktop import icons
from app.desktop.theme import Theme

_TRACK = QSize(36, 20)
_FOCUS_ROOM = 3
_CHEVRON = 18
_SIDE = 17
SWITCH_INDENT = _FOCUS_ROOM + _TRACK.width() + 10
"""Where a switch's text begins."""


def push_button(text: str, *, action: bool = False, name: str = "") -> QPushButton:
    """A button; with `action`, the page's one filled button."""
    button = QPushButton(text)
    button.setAccessibleName(name or text)
    button.setCursor(Qt.CursorShape.PointingHandCursor)
    if action:
        button.setProperty("kind", "action")
    return button


class MenuButton(QPushButton):
    """A button that opens a menu, with a chevron that says so."""

    def __init__(self, theme: Theme, text: str, menu: QMenu, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self._theme = theme
        self.setAccessibleName(text)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        menu.setParent(self, menu.windowFlags())
        self.setMenu(menu)
        theme.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        hint = super().sizeHint()
        return QSize(hint.width() + _CHEVRON + 4, hint.height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        option = QStyleOptionButton()
        self.initStyleOption(option)
        option.text = ""
        painter = QStylePainter(self)
        painter.drawControl(QStyle.ControlElement.CE_PushButton, option)
        roles = self._theme.roles
        colour = roles.action if self.property("kind") == "outlined" else roles.text
        if not self.isEnabled():
            colour = roles.outline
        painter.setPen(QColor(colour))
        painter.setFont(self.font())
        words = self.rect().adjusted(_SIDE, 0, -_CHEVRON, 0)
        painter.drawText(words, int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft), self.text())
        area = QRectF(self.width() - _CHEVRON - 11, (self.height() - _CHEVRON) / 2, _CHEVRON, _CHEVRON)
        icons.paint(painter, "chevron", colour, area)
        painter.end()


class Switch(QCheckBox):
    """An on-off switch: a check box to the keyboard and to screen readers, drawn as a track with a knob."""

    def __init__(self, theme: Theme, text: str, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self._theme = theme
        self.setAccessibleName(text)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        theme.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        width = _TRACK.width() + 2 * _FOCUS_ROOM + 10 + self.fontMetrics().horizontalAdvance(self.text())
        return QSize(width + 4, max(_TRACK.height() + 2 * _FOCUS_ROOM, self.fontMetrics().height()) + 4)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def hitButton(self, position: QPoint) -> bool:
        return self.rect().contains(position)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        roles = self._theme.roles
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        top = (self.height() - _TRACK.height()) / 2
        track = QRectF(_FOCUS_ROOM, top, _TRACK.width(), _TRACK.height())
        radius = track.height() / 2
        on, usable = self.isChecked(), self.isEnabled()
        strong = roles.action if on else roles.outline
        painter.setPen(QPen(QColor(strong if usable else roles.hairline), 1.5))
        painter.setBrush(QColor(strong) if on and usable else QColor(roles.surface))
        painter.drawRoundedRect(track.adjusted(0.75, 0.75, -0.75, -0.75), radius, radius)
        knob = track.height() - 8
        left = track.right() - knob - 4 if on else track.left() + 4
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(roles.on_action if on and usable else roles.muted))
        painter.drawEllipse(QRectF(left, top + 4, knob, knob))
        if self.hasFocus():
            painter.setPen(QPen(QColor(roles.text), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(track.adjusted(-2, -2, 2, 2), radius + 2, radius + 2)
        painter.setPen(QColor(roles.text if usable else roles.muted))
        text_area = QRectF(track.right() + 10, 0, self.width(), self.height())
        painter.drawText(text_area, int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft), self.text())
        painter.end()
