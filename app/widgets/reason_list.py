"""Why it is as it is: every reason on its own line; those beyond the second are disclosed on request."""

from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.language import say
from app.widgets.buttons import push_button
from app.widgets.text import Text

SHOWN: Final = 2


class ReasonList(QWidget):
    """Sentences below one another. There is nothing to see while there are none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._sentences: tuple[str, ...] = ()
        self._lines: list[Text] = []
        self.more = push_button("")
        self.more.setCheckable(True)
        self.more.setProperty("kind", "plain")
        self.more.toggled.connect(self._arrange)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(2)
        self._column.addWidget(self.more, 0, Qt.AlignmentFlag.AlignLeft)
        self._arrange()
        self.hide()

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of them, shown or not."""
        return self._sentences

    @property
    def shown(self) -> list[str]:
        """Those that are to be seen."""
        return [line.text() for line in self._lines if not line.isHidden()]

    def show_reasons(self, sentences: tuple[str, ...]) -> None:
        """Show these, the most pressing first."""
        if sentences == self._sentences:
            return
        self._sentences = sentences
        while len(self._lines) < len(sentences):
            line = Text(role="muted", wrap=True)
            self._lines.append(line)
            self._column.insertWidget(len(self._lines) - 1, line)
        for line, sentence in zip(self._lines, sentences, strict=False):
            line.setText(sentence)
        if len(sentences) <= SHOWN:
            self.more.setChecked(False)
        self._arrange()
        self.setVisible(bool(sentences))

    def _arrange(self, *_: object) -> None:
        opened = self.more.isChecked()
        hidden = max(len(self._sentences) - SHOWN, 0)
        for index, line in enumerate(self._lines):
            line.setVisible(index < len(self._sentences) and (opened or index < SHOWN))
        closed_text = say("header", "%n more reasons", None, hidden)
        self.more.setText(say("header", "Fewer reasons") if opened else closed_text)
        self.more.setAccessibleName(self.more.text())
        self.more.setVisible(hidden > 0)
