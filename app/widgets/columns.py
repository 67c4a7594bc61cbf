"""Cards side by side where there is room, below one another where there is not."""

from collections.abc import Sequence

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QWidget

GAP = 16


class Columns(QWidget):
    """Lays `children` out in one row from `threshold` pixels of width on, else in as many rows as `narrow` says."""

    def __init__(
        self,
        children: Sequence[QWidget],
        *,
        threshold: int,
        stretches: Sequence[int] = (),
        narrow: int = 1,
        gap: int = GAP,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._children = list(children)
        self._threshold = threshold
        self._stretches = list(stretches) or [1] * len(self._children)
        self._narrow = narrow
        self._columns = 0
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(gap)
        for child in self._children:
            child.setParent(self)
        self._arrange(len(self._children))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange(len(self._children) if event.size().width() >= self._threshold else self._narrow)

    def _arrange(self, columns: int) -> None:
        if columns == self._columns:
            return
        self._columns = columns
        for child in self._children:
            self._grid.removeWidget(child)
        for index, child in enumerate(self._children):
            self._grid.addWidget(child, index // columns, index % columns)
        for column in range(len(self._children)):
            wide = columns == len(self._children)
            stretch = self._stretches[column] if wide else 1
            self._grid.setColumnStretch(column, stretch if column < columns else 0)
