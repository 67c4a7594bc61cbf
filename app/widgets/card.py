"""A card: surface, hairline, heading."""

from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.widgets.text import Text

INSIDE: int = 16
GAP: int = 8


class Card(QFrame):
    """A titled frame. Put content into `body`; `aside` is the row to the right of the heading."""

    def __init__(self, title: str = "", *, role: str = "card", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", role)
        self.body = QVBoxLayout(self)
        self.body.setContentsMargins(INSIDE, INSIDE, INSIDE, INSIDE)
        self.body.setSpacing(GAP)
        self.heading = Text(title, "heading", wrap=True, parent=self)
        self.heading.setVisible(bool(title))
        self.aside = QHBoxLayout()
        self.aside.setSpacing(GAP)
        if title:
            self.setAccessibleName(title)
            row = QHBoxLayout()
            row.addWidget(self.heading, 1)
            row.addLayout(self.aside)
            self.body.addLayout(row)


def line() -> QFrame:
    """A hairline across."""
    result = QFrame()
    result.setProperty("role", "line")
    result.setFixedHeight(1)
    return result
