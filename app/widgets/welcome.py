"""What a newcomer sees before a project is joined."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.desktop import icons
from app.desktop.theme import Theme
from app.language import say
from app.widgets.card import Card
from app.widgets.icon_label import IconLabel
from app.widgets.text import Text

COLUMN_WIDTH = 560


class Welcome(Card):
    """One sentence of purpose, three facts."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self.setAccessibleName(say("welcome", "Welcome"))
        inner = QWidget()
        inner.setMaximumWidth(COLUMN_WIDTH)
        column = QVBoxLayout(inner)
        column.setSpacing(16)
        column.addWidget(IconLabel(theme, icons.MARK_WHOLE, "learning", 72), 0, Qt.AlignmentFlag.AlignHCenter)
        title = Text(
            say("welcome", "Everyone brings a little compute; everyone shares the model."), "heading", wrap=True
        )
        title.setAlignment(Qt.AlignmentFlag.AlignCenter)
        column.addWidget(title)
        column.addSpacing(8)
        for icon, text in (
            ("projects", say("welcome", "Choose a project. Nothing runs on this computer before you join one.")),
            (
                "machine",
                say("welcome", "It trains within your limits, stops when you say so, and steps aside for your work."),
            ),
            (
                "leaderboard",
                say("welcome", "Work that others accepted counts as verified tokens. No account is needed."),
            ),
        ):
            row = QHBoxLayout()
            row.setSpacing(16)
            row.addWidget(IconLabel(theme, icon, "muted", 24), 0, Qt.AlignmentFlag.AlignTop)
            row.addWidget(Text(text, wrap=True), 1)
            column.addLayout(row)
        self.body.addStretch(1)
        middle = QHBoxLayout()
        middle.addStretch(1)
        middle.addWidget(inner, 1000)
        middle.addStretch(1)
        self.body.addLayout(middle)
        self.body.addStretch(1)
