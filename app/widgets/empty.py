"""What stands where data will be."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.desktop.theme import Theme
from app.widgets.icon_label import IconLabel
from app.widgets.text import Text


class EmptyState(QWidget):
    """An icon and a sentence that says when there will be something to see."""

    def __init__(self, theme: Theme, icon: str, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text = Text(text, "muted", wrap=True)
        self._text.setAlignment(Qt.AlignmentFlag.AlignCenter)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 16, 24, 16)
        layout.addStretch(1)
        layout.addWidget(IconLabel(theme, icon, "outline", 36), 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addSpacing(8)
        layout.addWidget(self._text)
        layout.addStretch(1)
        self.show_text(text)

    @property
    def text(self) -> str:
        """The sentence shown."""
        return self._text.text()

    def show_text(self, text: str) -> None:
        """Change the sentence."""
        self._text.setText(text)
        self.setAccessibleName(text)
