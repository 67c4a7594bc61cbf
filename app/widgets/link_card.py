"""Where a `potluck://` link is entered by hand, for a system that does not hand links over."""

from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QWidget

from app.language import say
from app.widgets.buttons import push_button
from app.widgets.card import Card

MAX_ENTERED_CHARS: Final = 4096


class LinkCard(Card):
    """A field and a button.

    Signals:
        given: the text, without the spaces around it; not checked.
    """

    given = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(say("projects", "Have a link?"), parent=parent)
        self.field = QLineEdit(maxLength=MAX_ENTERED_CHARS)
        self.field.setPlaceholderText("potluck://")
        self.field.setAccessibleName(say("projects", "Link to a project"))
        self.button = push_button(say("projects", "Open link"))
        self.button.setEnabled(False)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self.field, 1)
        row.addWidget(self.button)
        self.body.addLayout(row)
        self.field.textChanged.connect(lambda text: self.button.setEnabled(bool(text.strip())))
        self.field.returnPressed.connect(self._give)
        self.button.clicked.connect(self._give)

    def _give(self) -> None:
        text = self.field.text().strip()
        if text:
            self.given.emit(text)
