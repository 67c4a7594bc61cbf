"""The hours of a week as a grid: a table to the keyboard and to screen readers, painted as one with the pointer."""

from typing import Final

from PySide6.QtCore import QEvent, QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFocusEvent, QKeyEvent, QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QSizePolicy,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from app.desktop.theme import Theme
from app.language import say
from app.models.table import AnyIndex
from app.models.week import WeekModel, describe
from engine.contract.week import DAYS, HOURS, Week

ROW_HEIGHT: Final = 26
LEAST_COLUMN: Final = 14
MOST_WIDTH: Final = 800
DAY_WIDTH: Final = 52
GAP: Final = 1.5
RADIUS: Final = 3.0

Cell = tuple[int, int]


class _Cells(QStyledItemDelegate):
    """Allowed hours are filled, the others a small dot on an empty ground: shape as well as colour."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self._view = parent

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        roles = self._theme.roles
        usable = self._view.isEnabled()
        allowed = index.data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
        area = QRectF(option.rect).adjusted(GAP, GAP, -GAP, -GAP)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor((roles.learning if usable else roles.outline) if allowed else roles.raised))
        painter.drawRoundedRect(area, RADIUS, RADIUS)
        if not allowed:
            painter.setBrush(QColor(roles.outline))
            painter.drawEllipse(area.center(), 1.5, 1.5)
        if isinstance(self._view, WeekGrid) and self._view.hasFocus():
            self._mark(painter, area, index)
        painter.restore()

    def _mark(self, painter: QPainter, area: QRectF, index: AnyIndex) -> None:
        assert isinstance(self._view, WeekGrid)
        model = self._view.selectionModel()
        here = self._view.currentIndex() == index
        several = len(model.selectedIndexes()) > 1 and model.isSelected(index)
        if here or several:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(self._theme.roles.text), 2 if here else 1))
            painter.drawRoundedRect(area, RADIUS, RADIUS)


class WeekGrid(QTableView):
    """Arrows move, Shift selects, Space switches what is selected; Shift+Space a day, Ctrl+Space an hour of all days.

    Signals:
        changed: the seven masks, after the user switched hours.
    """

    changed = Signal(object)

    def __init__(self, theme: Theme, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = name
        self._from: Cell | None = None  # where the pointer began to paint
        self._before: Week = ()
        self._allow = True
        self.week = WeekModel(self)
        self.setModel(self.week)
        self.setItemDelegate(_Cells(theme, self))
        self.setObjectName("week")
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setCornerButtonEnabled(False)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ContiguousSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMaximumWidth(MOST_WIDTH)
        self.setMouseTracking(True)
        self._set_up_headers()
        self.setCurrentIndex(self.week.index(0, 0))
        self.week.dataChanged.connect(self._tell)
        theme.changed.connect(self.viewport().update)
        self._tell()

    def _set_up_headers(self) -> None:
        hours, days = self.horizontalHeader(), self.verticalHeader()
        for header in (hours, days):
            header.setMinimumSectionSize(LEAST_COLUMN)
            header.setHighlightSections(False)
            header.setSectionsClickable(True)
        hours.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        hours.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        hours.setToolTip(say("week", "Click an hour to switch it on all days."))
        days.setToolTip(say("week", "Click a day to switch all of it."))
        days.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        days.setDefaultSectionSize(ROW_HEIGHT)
        days.setFixedWidth(DAY_WIDTH)
        hours.sectionClicked.connect(lambda hour: self._switch_line([(day, hour) for day in range(DAYS)]))
        days.sectionClicked.connect(lambda day: self._switch_line([(day, hour) for hour in range(HOURS)]))

    def show_schedule(self, schedule: tuple[int, ...]) -> None:
        """Show a setting, unless the pointer is painting."""
        if self._from is None:
            self.week.show(schedule)

    def sizeHint(self) -> QSize:
        return QSize(MOST_WIDTH, self._height())

    def minimumSizeHint(self) -> QSize:
        return QSize(DAY_WIDTH + HOURS * LEAST_COLUMN, self._height())

    def _height(self) -> int:
        return self.horizontalHeader().sizeHint().height() + DAYS * ROW_HEIGHT + 2 * self.frameWidth()

    def _tell(self, *_: object) -> None:
        self.setAccessibleName(f"{self._name}. {describe(self.week.masks)}")

    # Changing

    def _switch(self, cells: list[Cell]) -> None:
        """Allow all of `cells`, or forbid them when all are allowed already."""
        before = self.week.masks
        self.week.put(cells, not all(self.week.allowed(day, hour) for day, hour in cells))
        if self.week.masks != before:
            self.changed.emit(self.week.masks)

    def _switch_line(self, cells: list[Cell]) -> None:
        """A heading was clicked; Qt has selected what it heads."""
        self.setCurrentIndex(self.week.index(*cells[0]))
        self._switch(cells)

    def _selected(self) -> list[Cell]:
        chosen = self.selectionModel().selectedIndexes() or [self.currentIndex()]
        return [(index.row(), index.column()) for index in chosen if index.isValid()]

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() not in (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter):
            super().keyPressEvent(event)
            return
        here = self.currentIndex()
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self._switch([(here.row(), hour) for hour in range(HOURS)])
        elif event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._switch([(day, here.column()) for day in range(DAYS)])
        else:
            self._switch(self._selected())

    def _cell_at(self, position: QPoint) -> Cell | None:
        index = self.indexAt(position)
        return (index.row(), index.column()) if index.isValid() else None

    def mousePressEvent(self, event: QMouseEvent) -> None:
        cell = self._cell_at(event.position().toPoint())
        if event.button() is not Qt.MouseButton.LeftButton or cell is None:
            return
        self._from, self._before = cell, self.week.masks
        self._allow = not self.week.allowed(*cell)
        self.setCurrentIndex(self.week.index(*cell))
        self._paint_to(cell)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._from is None:
            return
        area = self.viewport().rect().adjusted(0, 0, -1, -1)
        position = event.position().toPoint()
        inside = QPoint(
            min(max(position.x(), area.left()), area.right()), min(max(position.y(), area.top()), area.bottom())
        )
        cell = self._cell_at(inside)
        if cell is not None:
            self._paint_to(cell)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._from is None:
            return
        self._from = None
        if self.week.masks != self._before:
            self.changed.emit(self.week.masks)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.mousePressEvent(event)

    def _paint_to(self, cell: Cell) -> None:
        """Paint the rectangle from where the pointer began; what it leaves again is as it was."""
        assert self._from is not None
        days, hours = (sorted(pair) for pair in zip(self._from, cell, strict=True))
        cells = [(day, hour) for day in range(days[0], days[1] + 1) for hour in range(hours[0], hours[1] + 1)]
        self.week.show(self._before)
        self.week.put(cells, self._allow)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.viewport().update()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() is QEvent.Type.EnabledChange:
            self.viewport().update()
