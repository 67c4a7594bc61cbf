"""A number with what it counts, and a line of detail."""

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.widgets.text import Text


class Figure(QWidget):
    """Label above, figure, detail below. Read aloud as one sentence."""

    def __init__(self, label: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._label = label
        self._value = Text(role="figure")
        self._detail = Text(role="label", wrap=True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(Text(label, "label"))
        layout.addWidget(self._value)
        layout.addWidget(self._detail)
        layout.addStretch(1)
        self.show_value("–")  # noqa: RUF001

    @property
    def text(self) -> str:
        """The figure as shown."""
        return self._value.text()

    @property
    def detail(self) -> str:
        """The detail as shown."""
        return self._detail.text()

    def show_value(self, value: str, detail: str = "") -> None:
        """Show a figure and its detail."""
        if self._value.text() != value:
            self._value.setText(value)
        if self._detail.text() != detail:
            self._detail.setText(detail)
        self.setAccessibleName(f"{self._label}: {value}. {detail}".strip())
