"""An icon that follows the theme."""

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.desktop import icons
from app.desktop.theme import Theme


class IconLabel(QWidget):
    """Paints one icon in one colour role; what it means is said in its accessible name."""

    def __init__(self, theme: Theme, name: str, role: str, size: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._name = name
        self._role = role
        self.setFixedSize(QSize(size, size))
        theme.changed.connect(self.update)

    @property
    def icon_name(self) -> str:
        """Which icon is shown."""
        return self._name

    def show_icon(self, name: str, role: str) -> None:
        """Change icon and colour."""
        if (name, role) != (self._name, self._role):
            self._name, self._role = name, role
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        colour = getattr(self._theme.roles, self._role)
        icons.paint(painter, self._name, colour, QRectF(self.rect()))
        painter.end()
