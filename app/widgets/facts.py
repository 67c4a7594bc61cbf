"""Names and values below one another."""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QWidget

from app.widgets.text import Text


class Facts(QWidget):
    """Names beside their values, or above them when `stacked`; labels are reused when only values change."""

    def __init__(self, *, stacked: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._stacked = stacked
        self._rows: list[tuple[Text, Text]] = []
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(24)
        self._grid.setVerticalSpacing(2 if stacked else 8)
        self._grid.setColumnStretch(0 if stacked else 1, 1)

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Names and values as shown."""
        return [(name.text(), value.text()) for name, value in self._rows if not name.isHidden()]

    def show_facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """Show these."""
        for index, (name, value) in enumerate(facts):
            if index == len(self._rows):
                self._add_row(index)
            for label, text in zip(self._rows[index], (name, value), strict=True):
                label.show_text(text)
                label.show()
            self._rows[index][1].setAccessibleName(f"{name}: {value}")
        for labels in self._rows[len(facts) :]:
            for label in labels:
                label.hide()
        self.setVisible(bool(facts))

    def _add_row(self, index: int) -> None:
        value = Text(wrap=True).selectable()
        if self._stacked:
            name = Text(role="strong", wrap=True)
            self._grid.addWidget(name, 2 * index, 0)
            self._grid.addWidget(value, 2 * index + 1, 0)
        else:
            name = Text(role="muted")
            self._grid.addWidget(name, index, 0, Qt.AlignmentFlag.AlignTop)
            self._grid.addWidget(value, index, 1)
        self._rows.append((name, value))
