"""Labels. All of them show plain text, since much of it comes from other computers."""

import re
from typing import Final

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

_LONG_WORD: Final = re.compile(r"\S{31,}")
_PIECE: Final = re.compile(r"\S{1,10}")
_BREAK: Final = "\u200b"  # zero width space

PASSING_MILLISECONDS: Final = 15_000
"""How long a passing text is shown."""


def set_role(widget: QWidget, role: str, name: str = "role") -> None:
    """Give a widget a role of the stylesheet, also after it was shown."""
    if widget.property(name) != role:
        widget.setProperty(name, role)
        widget.style().unpolish(widget)
        widget.style().polish(widget)


def breakable(text: str) -> str:
    """`text` with places to break in words that no line holds: ids, addresses, and what others make up."""
    return _LONG_WORD.sub(lambda word: _BREAK.join(_PIECE.findall(word.group())), text)


class Text(QLabel):
    """Plain text in one of the stylesheet's roles; wraps, and can be selected where asked."""

    def __init__(self, text: str = "", role: str = "", *, wrap: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(wrap)
        self.setText(text)
        if role:
            self.setProperty("role", role)
        if wrap:
            self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)

    def selectable(self) -> "Text":
        """Let the user copy it with the pointer."""
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        return self

    def show_text(self, text: str) -> None:
        """Show `text`, and nothing at all when it is empty."""
        self.setText(text)
        self.setVisible(bool(text))

    def setText(self, text: str) -> None:
        shown = breakable(text) if self.wordWrap() else text
        if shown != self.text():
            super().setText(shown)


class PassingText(Text):
    """Says what came of an action, and goes by itself: it is no longer true of anything after a while."""

    def __init__(self, text: str = "", role: str = "", *, wrap: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(text, role, wrap=wrap, parent=parent)
        self.timer = QTimer(self, singleShot=True, interval=PASSING_MILLISECONDS)
        self.timer.timeout.connect(self.clear_text)

    def show_text(self, text: str) -> None:
        super().show_text(text)
        if text:
            self.timer.start()
        else:
            self.timer.stop()

    def clear_text(self, *_: object) -> None:
        """Take it away."""
        self.show_text("")
