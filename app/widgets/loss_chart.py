"""The learning curve's place on the page: an empty state, then the plot once pyqtgraph was loaded in the background."""

import importlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QSize, Qt, QThread, QTimer, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QStackedWidget, QWidget

from app.desktop.theme import Theme
from app.language import say
from app.widgets.empty import EmptyState
from app.widgets.text import Text
from engine.contract.snapshot import CurvePoint

if TYPE_CHECKING:
    from app.widgets.loss_plot import LossPlot

log = logging.getLogger(__name__)

LEAST_HEIGHT = 240


class _Loader(QThread):
    """Imports the plotting library beside the event loop: half a second that nobody should wait for."""

    def run(self) -> None:
        importlib.import_module("app.widgets.loss_plot")


class PlotLoader(QObject):
    """Loads the plot's module once.

    Signals:
        ready: `app.widgets.loss_plot` can be imported at no cost.
    """

    ready = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._thread: _Loader | None = None
        self.loaded = False

    def start(self) -> None:
        """Begin, unless begun."""
        if self._thread is None:
            self._thread = _Loader(self)
            self._thread.finished.connect(self._finished)
            self._thread.start(QThread.Priority.LowPriority)

    def wait(self) -> None:
        """At the window's end: a thread that imports must not outlive the application."""
        if self._thread is not None:
            self._thread.wait()

    def _finished(self) -> None:
        self.loaded = True
        self.ready.emit()


class LossChart(QStackedWidget):
    """Empty state or plot."""

    def __init__(self, theme: Theme, loader: PlotLoader, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._loader = loader
        self._points: Sequence[CurvePoint] = ()
        self.plot: LossPlot | None = None
        self.empty = EmptyState(theme, "curve")
        self.addWidget(self.empty)
        self.setMinimumHeight(LEAST_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        loader.ready.connect(self._draw)

    def sizeHint(self) -> QSize:
        return QSize(600, LEAST_HEIGHT)

    def show_points(self, points: Sequence[CurvePoint], empty_text: str) -> None:
        """Draw these, or say when there will be some."""
        self._points = points
        self.empty.show_text(empty_text if not points else say("curve", "Drawing the curve."))
        self._draw()

    def _draw(self) -> None:
        if not self._points:
            self.setCurrentWidget(self.empty)
            return
        if not self._loader.loaded:
            return
        if self.plot is None:
            from app.widgets.loss_plot import LossPlot

            self.plot = LossPlot(self._theme)
            self.addWidget(self.plot)
        self.plot.show_points(self._points)
        self.setCurrentWidget(self.plot)


class _Sign(QWidget):
    """One sign of the chart's key."""

    def __init__(self, theme: Theme, kind: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._kind = kind
        self.setFixedSize(22, 14)
        theme.changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        roles = self._theme.roles
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        middle = self.height() / 2
        if self._kind == "held_out":
            painter.setPen(QPen(QColor(roles.text), 1.5))
            painter.setBrush(QColor(roles.surface))
            offsets = ((0, -5), (4, 0), (0, 5), (-4, 0))
            centre = self.rect().toRectF().center()
            painter.drawPolygon(QPolygonF([centre + type(centre)(x, y) for x, y in offsets]))
        else:
            painter.setPen(QPen(QColor(roles.learning), 2))
            painter.drawLine(1, round(middle), 21, round(middle))
            if self._kind == "mine":
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(QColor(roles.learning))
                painter.drawEllipse(self.rect().toRectF().center(), 4, 4)
        painter.end()


class ChartKey(QWidget):
    """What line, diamond and dot mean."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        for kind, text in (
            ("training", say("curve", "training")),
            ("held_out", say("curve", "held-out text")),
            ("mine", say("curve", "rounds with your work")),
        ):
            row.addWidget(_Sign(theme, kind))
            row.addWidget(Text(text, "label"))
            row.addSpacing(10)
        row.addStretch(1)


def load_after_paint(loader: PlotLoader, host: QObject) -> None:
    """Start loading once the event loop is idle, that is, after the first paint."""
    QTimer.singleShot(0, host, loader.start)
