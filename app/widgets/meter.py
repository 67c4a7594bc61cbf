"""A thin bar that shows a share of a whole."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.desktop.theme import Theme

HEIGHT = 6


class Meter(QWidget):
    """A share from 0 to 1, or an empty track when it is unknown; the number itself stands beside it as text."""

    def __init__(self, theme: Theme, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._name = name
        self._share: float | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(HEIGHT)
        theme.changed.connect(self.update)
        self.show_share(None)

    def show_share(self, share: float | None) -> None:
        """Show a share; values outside 0 to 1 are shown as full or empty."""
        self._share = None if share is None else min(max(share, 0.0), 1.0)
        spoken = f"{round(100 * self._share)} %" if self._share is not None else "–"  # noqa: RUF001
        self.setAccessibleName(f"{self._name}: {spoken}")
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(80, HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        radius = HEIGHT / 2
        track = QRectF(0, 0, self.width(), HEIGHT)
        painter.setBrush(QColor(self._theme.roles.hairline))
        painter.drawRoundedRect(track, radius, radius)
        if self._share:
            painter.setBrush(QColor(self._theme.roles.learning))
            filled = QRectF(0, 0, max(HEIGHT, track.width() * self._share), HEIGHT)
            painter.drawRoundedRect(filled, radius, radius)
        painter.end()
