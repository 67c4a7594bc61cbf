"""What the model writes now."""

from PySide6.QtGui import QColor, QFontMetrics, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QSizePolicy, QStackedWidget, QWidget

from app.desktop.theme import Theme
from app.format import clock, whole
from app.language import say
from app.widgets.card import Card
from app.widgets.empty import EmptyState
from app.widgets.text import Text
from engine.contract.snapshot import WrittenSample

MAX_SHOWN_CHARS = 4000
LINES = 9


def shown_text(text: str) -> str:
    """Model output fit for a text field: line breaks and tabs stay, other control characters become a sign."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text[:MAX_SHOWN_CHARS])


class WrittenCard(Card):
    """The newest sample in a fixed-width face. What the model was given is underlined; the rest it wrote."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(say("written", "What the model writes now"), parent=parent)
        self._theme = theme
        self._sample: WrittenSample | None = None
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setAccessibleName(say("written", "What the model writes now"))
        self.text.setTabChangesFocus(True)
        self.text.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.empty = EmptyState(theme, "pen")
        self._stack = QStackedWidget()
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self.text)
        self._note = Text(role="label", wrap=True)
        self.body.addWidget(self._stack, 1)
        self.body.addWidget(self._note)
        theme.changed.connect(self._dress)
        self._dress()

    def _dress(self) -> None:
        font = self._theme.font(13, mono=True)
        self.text.setFont(font)
        self.text.setMinimumHeight(QFontMetrics(font).lineSpacing() * LINES + 24)
        self._write()

    def show_sample(self, sample: WrittenSample | None, empty_text: str) -> None:
        """Show a sample, or say when there will be one."""
        self.empty.show_text(empty_text)
        if sample == self._sample and sample is not None:
            return
        self._sample = sample
        self._stack.setCurrentWidget(self.text if sample is not None else self.empty)
        if sample is None:
            self._note.show_text("")
            return
        note = say("written", "After round {step}, {time}. The underlined beginning was given.")
        self._note.show_text(note.format(step=whole(sample.global_step), time=clock(sample.at)))
        self._write()

    def _write(self) -> None:
        if self._sample is None:
            return
        given, own = QTextCharFormat(), QTextCharFormat()
        given.setForeground(QColor(self._theme.roles.muted))
        given.setFontUnderline(True)
        own.setForeground(QColor(self._theme.roles.text))
        self.text.clear()
        cursor = QTextCursor(self.text.document())
        cursor.insertText(shown_text(self._sample.prompt), given)
        cursor.insertText(shown_text(self._sample.text), own)
        self.text.moveCursor(QTextCursor.MoveOperation.Start)
