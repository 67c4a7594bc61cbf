"""Dialogs of this window: a heading, text, and two buttons, as high as their text needs."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.widgets.text import Text

AROUND = 24


class Sheet(QDialog):
    """Belongs to the window and covers nothing else. Put content into `body`, then call `finish`."""

    def __init__(self, title: str, width: int, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowModality(Qt.WindowModality.WindowModal)
        self.setWindowTitle(title)
        self.setAccessibleName(title)
        self.setFixedWidth(width)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(AROUND, AROUND, AROUND, AROUND)
        self._column.setSpacing(12)
        self._column.addWidget(Text(title, "heading", wrap=True))
        self.body = QVBoxLayout()
        self.body.setSpacing(12)
        self._column.addLayout(self.body)

    def finish(self, other: QPushButton, main: QPushButton) -> None:
        """Add the two buttons, the main one at the end."""
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(other)
        row.addWidget(main)
        main.setDefault(True)
        self._column.addSpacing(4)
        self._column.addLayout(row)
        self.fit()

    def fit(self) -> None:
        """Take the height that the wrapped text needs at this width."""
        self._column.activate()
        self.setFixedHeight(self._column.totalHeightForWidth(self.width()))
