"""The last 24 hours: a strip whose height is the level, the temperature below it, the words for any moment."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QDateTime, QEvent, QPointF, QRectF, QSize, Qt, QTime
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.desktop.theme import Theme
from app.format import celsius
from app.widgets.day_view import DAY_SECONDS, HEIGHTS, SILENCE_SECONDS, DayView, describe, summary, time_of_day
from app.widgets.text import Text

STRIP_HEIGHT: Final = 56
WARMTH_HEIGHT: Final = 64
AXIS_HEIGHT: Final = 22
GAP: Final = 14
LEFT: Final = 44
RIGHT: Final = 8
BASE: Final = 3.0
HOURS_BETWEEN_TICKS: Final = 3
LEAST_WARMTH_SPAN: Final = 20.0
STEP_SECONDS: Final = 900.0
"""How far an arrow key goes where nothing was recorded."""


@dataclass(frozen=True, slots=True)
class _Areas:
    strip: QRectF
    warmth: QRectF


class DayHistory(QWidget):
    """Read with the pointer, or with the arrow keys from stretch to stretch."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._view = DayView(0.0, DAY_SECONDS)
        self._moment: float | None = None
        self.reading = Text(role="reading", parent=self)
        self.reading.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.reading.hide()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    @property
    def view(self) -> DayView:
        """What is shown."""
        return self._view

    @property
    def moment(self) -> float | None:
        """The moment that is read, seconds since the epoch."""
        return self._moment

    def show_view(self, view: DayView) -> None:
        """Show a day."""
        self._view = view
        self.setAccessibleName(summary(view))
        self.updateGeometry()
        if self._moment is not None:
            self._choose(min(max(self._moment, view.from_at), view.to_at))
        self.update()

    def sizeHint(self) -> QSize:
        warmth = WARMTH_HEIGHT + GAP if self._view.warmths else 0
        return QSize(600, STRIP_HEIGHT + warmth + AXIS_HEIGHT + 4)

    def minimumSizeHint(self) -> QSize:
        return QSize(240, self.sizeHint().height())

    # Where things are

    def _areas(self) -> _Areas:
        width = max(self.width() - LEFT - RIGHT, 1)
        strip = QRectF(LEFT, 2, width, STRIP_HEIGHT)
        return _Areas(strip, QRectF(LEFT, strip.bottom() + GAP, width, WARMTH_HEIGHT if self._view.warmths else 0))

    def _x(self, moment: float) -> float:
        area = self._areas().strip
        span = max(self._view.to_at - self._view.from_at, 1.0)
        return area.left() + area.width() * (moment - self._view.from_at) / span

    def _moment_at(self, x: float) -> float:
        area = self._areas().strip
        share = min(max((x - area.left()) / area.width(), 0.0), 1.0)
        return self._view.from_at + share * (self._view.to_at - self._view.from_at)

    def _ticks(self) -> Iterator[float]:
        """Full hours of local time, every third."""
        moment = QDateTime.fromSecsSinceEpoch(int(self._view.from_at))
        moment.setTime(QTime(moment.time().hour(), 0))
        for _ in range(26):
            moment = moment.addSecs(3600)
            at = float(moment.toSecsSinceEpoch())
            if at > self._view.to_at:
                return
            if moment.time().hour() % HOURS_BETWEEN_TICKS == 0 and at >= self._view.from_at:
                yield at

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        areas = self._areas()
        self._paint_strip(painter, areas.strip)
        if self._view.warmths:
            self._paint_warmth(painter, areas.warmth)
        self._paint_axis(painter, areas)
        if self._moment is not None:
            bottom = areas.warmth.bottom() if self._view.warmths else areas.strip.bottom()
            x = self._x(self._moment)
            painter.setPen(QPen(QColor(self._theme.roles.text), 1))
            painter.drawLine(QPointF(x, areas.strip.top()), QPointF(x, bottom))
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(self._theme.roles.action), 2))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 6, 6)
        painter.end()

    def _paint_strip(self, painter: QPainter, area: QRectF) -> None:
        roles = self._theme.roles
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(roles.raised))
        painter.drawRect(area)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        for stretch in self._view.stretches:
            left, right = self._x(stretch.from_at), self._x(stretch.to_at)
            height = max(HEIGHTS.get(stretch.level, 0.0) * area.height(), BASE)
            painter.setBrush(QColor(roles.learning if height > BASE else roles.waiting))
            painter.drawRect(QRectF(left, area.bottom() - height, max(right - left, 1.0), height))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)

    def _warmth_range(self) -> tuple[float, float]:
        values = [warmth.celsius for warmth in self._view.warmths]
        low, high = min(values), max(values)
        room = max(LEAST_WARMTH_SPAN - (high - low), 0.0) / 2
        return low - room, high + room

    def _paint_warmth(self, painter: QPainter, area: QRectF) -> None:
        low, high = self._warmth_range()
        roles = self._theme.roles

        def point(at: float, value: float) -> QPointF:
            return QPointF(self._x(at), area.bottom() - (value - low) / (high - low) * area.height())

        painter.setFont(self._theme.font(12))
        for value, y in ((high, area.top()), (low, area.bottom())):
            painter.setPen(QPen(QColor(roles.hairline), 1))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.setPen(QColor(roles.muted))
            box = QRectF(0, y - 9, LEFT - 6, 18)
            painter.drawText(box, int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter), celsius(value))
        painter.setPen(QPen(QColor(roles.text), 1.5))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        line: list[QPointF] = []
        before = self._view.from_at
        for warmth in self._view.warmths:
            if line and warmth.at - before > SILENCE_SECONDS:
                painter.drawPolyline(QPolygonF(line))
                line = []
            line.append(point(warmth.at, warmth.celsius))
            before = warmth.at
        painter.drawPolyline(QPolygonF(line))

    def _paint_axis(self, painter: QPainter, areas: _Areas) -> None:
        roles = self._theme.roles
        bottom = areas.warmth.bottom() if self._view.warmths else areas.strip.bottom()
        painter.setFont(self._theme.font(12))
        for at in self._ticks():
            x = self._x(at)
            painter.setPen(QPen(QColor(roles.outline), 1))
            painter.drawLine(QPointF(x, bottom + 2), QPointF(x, bottom + 5))
            box = QRectF(x - 24, bottom + 5, 48, AXIS_HEIGHT - 5)
            if box.right() <= self.width() and box.left() >= 0:
                painter.setPen(QColor(roles.muted))
                painter.drawText(box, int(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop), time_of_day(at))

    # Reading

    def _choose(self, moment: float | None) -> None:
        self._moment = moment
        if moment is None:
            self.reading.hide()
            self.setAccessibleDescription("")
        else:
            text = describe(self._view, moment)
            self.reading.setText(text)
            self.setAccessibleDescription(text.replace("\n", ". "))
            self._place(moment)
        self.update()

    def _place(self, moment: float) -> None:
        self.reading.adjustSize()
        x = round(self._x(moment))
        left = x + 12 if x + 12 + self.reading.width() < self.width() else x - 12 - self.reading.width()
        self.reading.move(max(left, 0), 4)
        self.reading.show()
        self.reading.raise_()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._moment is not None:
            self._place(self._moment)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._view.stretches:
            self._choose(self._moment_at(event.position().x()))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        if not self.hasFocus():
            self._choose(None)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if event.reason() is not Qt.FocusReason.MouseFocusReason and self._view.stretches:
            self._choose(self._view.to_at)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._choose(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        moves = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        key = Qt.Key(event.key())
        if not self._view.stretches:
            super().keyPressEvent(event)
        elif key in moves:
            self._choose(self._beside(self._moment if self._moment is not None else self._view.to_at, moves[key]))
        elif key in (Qt.Key.Key_Home, Qt.Key.Key_End):
            self._choose(self._view.from_at if key is Qt.Key.Key_Home else self._view.to_at)
        else:
            super().keyPressEvent(event)

    def _beside(self, moment: float, step: int) -> float:
        """The middle of the next stretch in that direction."""
        middles = [(stretch.from_at + stretch.to_at) / 2 for stretch in self._view.stretches]
        index = self._view.at(moment)
        here = middles[index] if index is not None else moment
        beyond = [middle for middle in middles if (middle - here) * step > 0]
        if not beyond:
            return self._view.from_at if step < 0 else self._view.to_at
        return min(beyond) if step > 0 else max(beyond)
