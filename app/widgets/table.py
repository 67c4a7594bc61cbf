"""Tables as this window shows them."""

from collections.abc import Sequence

from PySide6.QtCore import QAbstractItemModel, Qt
from PySide6.QtGui import QBrush, QFont, QFontMetrics, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from app.models.table import AnyIndex

ROW_HEIGHT = 36
ROOM = 24
MEASURED_ROWS = 60
LEAST_STRETCHED = 150


class _RowGround(QStyledItemDelegate):
    """Paints the ground that the model gives a row; the stylesheet alone would leave it out."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        ground = index.data(Qt.ItemDataRole.BackgroundRole)
        if isinstance(ground, QBrush):
            painter.fillRect(option.rect, ground)
        super().paint(painter, option, index)


class Table(QTableView):
    """Whole rows are selected; the keyboard moves through rows and Tab leaves the table.

    One column stretches; where it would get narrower than `least`, the columns of `give_way` hide, the first one first.
    """

    def __init__(
        self,
        model: QAbstractItemModel,
        name: str,
        *,
        stretch_column: int,
        give_way: Sequence[int] = (),
        least: int = LEAST_STRETCHED,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setModel(model)
        self.setItemDelegate(_RowGround(self))
        self.setAccessibleName(name)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setCornerButtonEnabled(False)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.verticalHeader().setDefaultSectionSize(max(ROW_HEIGHT, self.fontMetrics().height() + 16))
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionsClickable(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header.setSectionResizeMode(stretch_column, QHeaderView.ResizeMode.Stretch)
        self._stretch_column = stretch_column
        self._give_way = list(give_way)
        self._least = least
        self._widths = [0] * model.columnCount()
        model.modelReset.connect(self.fit)
        model.dataChanged.connect(self.fit)
        self.fit()
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)

    def fit(self, *_: object) -> None:
        """Give each column but the stretching one the width of its heading and its first rows."""
        model = self.model()
        header = QFontMetrics(self.horizontalHeader().font())
        for column in range(model.columnCount()):
            if column == self._stretch_column:
                continue
            width = header.horizontalAdvance(str(model.headerData(column, Qt.Orientation.Horizontal)))
            for row in range(min(model.rowCount(), MEASURED_ROWS)):
                index = model.index(row, column)
                font = model.data(index, Qt.ItemDataRole.FontRole)
                metrics = QFontMetrics(font) if isinstance(font, QFont) else self.fontMetrics()
                width = max(width, metrics.horizontalAdvance(str(model.data(index) or "")))
            self._widths[column] = width + ROOM
            self.setColumnWidth(column, width + ROOM)
        self._make_room()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._make_room()

    def _make_room(self) -> None:
        left = self.viewport().width() - sum(self._widths)
        for column in self._give_way:
            hide = left < self._least
            self.setColumnHidden(column, hide)
            left += self._widths[column] if hide else 0
