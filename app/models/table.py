"""A read-only table over a tuple of structs, updated in place where rows keep their identity."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

Row = TypeVar("Row")
AnyIndex = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True)  # no slots: `Column[Row](...)` sets an attribute
class Column(Generic[Row]):
    """A column: its heading, the text of a cell, and whether it holds numbers."""

    title: str
    text: Callable[[Row], str]
    numeric: bool = False
    tip: str = ""


class StructTable(QAbstractTableModel, Generic[Row]):
    """Rows are compared by `key`: same keys in the same order change in place, anything else resets the table."""

    def __init__(
        self, columns: Sequence[Column[Row]], key: Callable[[Row], object], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.columns = list(columns)
        self._key = key
        self._rows: tuple[Row, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows shown."""
        return self._rows

    def show_rows(self, rows: tuple[Row, ...]) -> None:
        """Show these rows."""
        old = self._rows
        if len(rows) == len(old) and all(map(self._same, rows, old)):
            self._rows = rows
            changed = [index for index, (new, before) in enumerate(zip(rows, old, strict=True)) if new != before]
            if changed:
                last = len(self.columns) - 1
                self.dataChanged.emit(self.index(changed[0], 0), self.index(changed[-1], last))
            return
        self.beginResetModel()
        self._rows = rows
        self.endResetModel()

    def _same(self, one: Row, other: Row) -> bool:
        return self._key(one) == self._key(other)

    def rowCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008 (Qt's own signature)
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008 (Qt's own signature)
        return 0 if parent.isValid() else len(self.columns)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation is not Qt.Orientation.Horizontal or not 0 <= section < len(self.columns):
            return None
        column = self.columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.title
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self._alignment(column)
        if role == Qt.ItemDataRole.ToolTipRole:
            return column.tip or None
        return None

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or index.row() >= len(self._rows):
            return None
        column, row = self.columns[index.column()], self._rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.text(row)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{column.title}: {column.text(row)}"
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self._alignment(column)
        return self.decoration(row, role)

    def decoration(self, row: Row, role: int) -> Any:
        """What subclasses add for a row: fonts, colours."""
        return None

    @staticmethod
    def _alignment(column: Column[Row]) -> Qt.AlignmentFlag:
        side = Qt.AlignmentFlag.AlignRight if column.numeric else Qt.AlignmentFlag.AlignLeft
        return side | Qt.AlignmentFlag.AlignVCenter
