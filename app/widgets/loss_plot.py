"""The drawn learning curve. Imports pyqtgraph, so it is itself imported after the first paint (`loss_chart`)."""

from collections.abc import Sequence
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QColor, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app.desktop.roles import Roles
from app.desktop.theme import Theme
from app.language import say
from app.widgets.curve import CurveView, describe, nearest, summary, view_of
from engine.contract.snapshot import CurvePoint

FEW_POINTS = 120
MARK_PIXELS = 7
SMALL_MARK_PIXELS = 5
KEY_STEPS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1, Qt.Key.Key_PageUp: -10, Qt.Key.Key_PageDown: 10}


class LossPlot(QWidget):
    """Training loss as a line, held-out loss as diamonds, own rounds as dots; the pointer or the arrow keys read it."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        pg.setConfigOptions(antialias=True, useOpenGL=False)
        self._theme = theme
        self._view = view_of(())
        self._chosen: int | None = None
        self.plot: Any = pg.PlotWidget()
        self.plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.plot)
        self._items()
        self.reading = QLabel(self)
        self.reading.setTextFormat(Qt.TextFormat.PlainText)
        self.reading.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.reading.hide()
        self.plot.scene().sigMouseMoved.connect(self._on_pointer)
        theme.changed.connect(self._dress)
        self._dress()

    def _items(self) -> None:
        item = self.plot.getPlotItem()
        item.setMenuEnabled(False)
        item.hideButtons()
        item.setContentsMargins(0, 4, 4, 8)  # the axis draws its label a little below itself
        item.setMouseEnabled(x=False, y=False)
        item.showGrid(x=False, y=True, alpha=0.25)
        self._line = pg.PlotDataItem()
        self._mine = pg.ScatterPlotItem(symbol="o")
        self._held_out = pg.ScatterPlotItem(symbol="d")
        self._cursor = pg.InfiniteLine(angle=90, movable=False)
        self._cursor.hide()
        for part in (self._cursor, self._line, self._held_out, self._mine):
            item.addItem(part, ignoreBounds=part is self._cursor)

    def _dress(self) -> None:
        roles = self._theme.roles
        self.plot.setBackground(roles.surface)
        item = self.plot.getPlotItem()
        for side in ("left", "bottom"):
            axis = item.getAxis(side)
            axis.setPen(pg.mkPen(roles.outline))
            axis.setTextPen(pg.mkPen(roles.muted))
            axis.setStyle(tickFont=self._theme.font(12), tickLength=-4, tickTextOffset=8, maxTickLevel=0)
            axis.enableAutoSIPrefix(False)
        label = {"color": roles.muted, "font-size": f"{self._theme.pixels(12)}px"}
        item.setLabel("left", say("curve", "Loss, nats per token"), **label)
        item.setLabel("bottom", say("curve", "Round"), **label)
        item.getAxis("left").setWidth(self._theme.pixels(64))
        item.getAxis("bottom").setHeight(self._theme.pixels(48))
        self._pens(roles)

    def _pens(self, roles: Roles) -> None:
        self._line.setPen(pg.mkPen(roles.learning, width=2))
        self._mine.setPen(pg.mkPen(roles.surface, width=1))
        self._mine.setBrush(pg.mkBrush(roles.learning))
        self._held_out.setPen(pg.mkPen(roles.text, width=1.5))
        self._held_out.setBrush(pg.mkBrush(roles.surface))
        self._cursor.setPen(pg.mkPen(QColor(roles.outline), style=Qt.PenStyle.DashLine))
        self.reading.setStyleSheet(
            f"background: {roles.raised}; color: {roles.text}; border: 1px solid {roles.outline};"
            f"border-radius: 6px; padding: 6px 8px; font-size: {self._theme.pixels(12)}px;"
        )
        self._focus_ring(self.hasFocus())

    def _focus_ring(self, on: bool) -> None:
        colour = self._theme.roles.action if on else self._theme.roles.surface
        self.plot.setStyleSheet(f"border: 2px solid {colour}; border-radius: 8px;")

    @property
    def view(self) -> CurveView:
        """What is drawn."""
        return self._view

    def show_points(self, points: Sequence[CurvePoint]) -> None:
        """Draw these."""
        self._view = view = view_of(points)
        self._line.setData(view.training.steps, view.training.losses)
        few = len(view.points) <= FEW_POINTS
        self._mine.setSize(MARK_PIXELS if few else SMALL_MARK_PIXELS)
        self._held_out.setSize(MARK_PIXELS + 3)
        self._mine.setData(view.mine.steps, view.mine.losses)
        self._held_out.setData(view.held_out.steps, view.held_out.losses)
        self._frame(view)
        self.setAccessibleName(summary(points))
        if self._chosen is not None:
            self._choose(min(self._chosen, len(view.points) - 1))

    def _frame(self, view: CurveView) -> None:
        losses = view.training.losses + view.held_out.losses
        if not losses:
            return
        steps = [p.global_step for p in view.points]
        low, high = min(losses), max(losses)
        room = max((high - low) * 0.08, 0.02)
        box = self.plot.getPlotItem().getViewBox()
        box.setYRange(low - room, high + room, padding=0)
        box.setXRange(steps[0] - 0.5, max(steps[-1], steps[0] + 5) + 0.5, padding=0.005)

    # Reading

    def _on_pointer(self, position: QPointF) -> None:
        box = self.plot.getPlotItem().getViewBox()
        if box.sceneBoundingRect().contains(position):
            self._choose(nearest(self._view.points, box.mapSceneToView(position).x()))
        elif not self.hasFocus():
            self._choose(None)

    def _choose(self, index: int | None) -> None:
        self._chosen = index if index is not None and 0 <= index < len(self._view.points) else None
        if self._chosen is None:
            self._cursor.hide()
            self.reading.hide()
            self.setAccessibleDescription("")
            return
        point = self._view.points[self._chosen]
        text = describe(point)
        self._cursor.setPos(point.global_step)
        self._cursor.show()
        self.reading.setText(text)
        self.setAccessibleDescription(text.replace("\n", ". "))
        self._place(point)

    def _place(self, point: CurvePoint) -> None:
        self.reading.adjustSize()
        box = self.plot.getPlotItem().getViewBox()
        x = box.mapViewToScene(QPointF(point.global_step, 0)).x()
        left = x + 12 if x + 12 + self.reading.width() < self.width() - 8 else x - 12 - self.reading.width()
        self.reading.move(round(max(left, 4)), 12)
        self.reading.show()
        self.reading.raise_()

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        if not self.hasFocus():
            self._choose(None)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._chosen is not None:
            self._choose(self._chosen)

    def focusInEvent(self, event: Any) -> None:
        super().focusInEvent(event)
        self._focus_ring(True)
        if event.reason() != Qt.FocusReason.MouseFocusReason and self._chosen is None:
            self._choose(len(self._view.points) - 1)

    def focusOutEvent(self, event: Any) -> None:
        super().focusOutEvent(event)
        self._focus_ring(False)
        self._choose(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        last = len(self._view.points) - 1
        present = self._chosen if self._chosen is not None else last
        key = Qt.Key(event.key())
        if key in KEY_STEPS:
            self._choose(min(max(present + KEY_STEPS[key], 0), last))
        elif key in (Qt.Key.Key_Home, Qt.Key.Key_End):
            self._choose(0 if key is Qt.Key.Key_Home else last)
        else:
            super().keyPressEvent(event)
