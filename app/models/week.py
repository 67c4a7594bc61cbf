"""The hours of a week as 7 masks of 24 bits, Monday first, bit 0 from midnight to one: words, presets, table model."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from PySide6.QtCore import QAbstractTableModel, QLocale, QModelIndex, QObject, Qt, QTime

from app.format import DASH
from app.language import say
from app.models.table import AnyIndex
from engine.contract.week import ALL_DAY, ALWAYS, DAYS, HOURS, Week

LABEL_EVERY: Final = 3
"""Every third hour is written above the grid; there is no room for all of them."""


def whole(schedule: Sequence[int]) -> Week:
    """Seven masks of a setting; the empty one means always."""
    masks = tuple(mask & ALL_DAY for mask in schedule)
    return masks if len(masks) == DAYS else ALWAYS


def shortest(masks: Week) -> Week:
    """The setting of seven masks; empty when it is always."""
    return () if masks == ALWAYS else masks


def hours_a_week(schedule: Sequence[int]) -> int:
    """How many of the week's 168 hours are allowed."""
    return sum(mask.bit_count() for mask in whole(schedule))


def spans(mask: int) -> list[tuple[int, int]]:
    """The allowed hours of a day as (first, end) pairs."""
    found: list[tuple[int, int]] = []
    for hour in range(HOURS):
        if not mask >> hour & 1:
            continue
        if found and found[-1][1] == hour:
            found[-1] = (found[-1][0], hour + 1)
        else:
            found.append((hour, hour + 1))
    return found


def hour_text(hour: int) -> str:
    """An hour of the day as the user's locale writes it; 24 is the end of the day."""
    if hour == HOURS:
        return "24:00"
    return QLocale().toString(QTime(hour, 0), QLocale.FormatType.ShortFormat)


def day_name(day: int, *, short: bool = False) -> str:
    """Monday is 0."""
    kind = QLocale.FormatType.ShortFormat if short else QLocale.FormatType.LongFormat
    return QLocale().standaloneDayName(day + 1, kind)


def describe(schedule: Sequence[int]) -> str:
    """A schedule in words: "Mon-Fri until 8:00 and from 18:00; Sat, Sun all day."."""
    masks = whole(schedule)
    if masks == ALWAYS:
        return say("week", "At any time.")
    if not any(masks):
        return say("week", "Never.")
    if len(set(masks)) == 1:
        return say("week", "Every day {times}.").format(times=_day_text(masks[0]))
    groups: list[tuple[list[int], int]] = []
    for day, mask in enumerate(masks):
        same = next((days for days, known in groups if known == mask), None)
        if same is None:
            groups.append(([day], mask))
        else:
            same.append(day)
    parts = [f"{_days_text(days)} {_day_text(mask)}" for days, mask in groups if mask]
    return "; ".join(parts) + "."


def _day_text(mask: int) -> str:
    found = spans(mask)
    if mask == ALL_DAY:
        return say("week", "all day")
    if len(found) == 2 and found[0][0] == 0 and found[1][1] == HOURS:
        text = say("week", "until {morning} and from {evening}")
        return text.format(morning=hour_text(found[0][1]), evening=hour_text(found[1][0]))
    return ", ".join(f"{hour_text(first)}{DASH}{hour_text(end)}" for first, end in found)


def _days_text(days: list[int]) -> str:
    if len(days) > 2 and days[-1] - days[0] == len(days) - 1:
        return f"{day_name(days[0], short=True)}{DASH}{day_name(days[-1], short=True)}"
    return ", ".join(day_name(day, short=True) for day in days)


class WeekModel(QAbstractTableModel):
    """A row a day, a column an hour; a cell is checked when that hour is allowed."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._masks: Week = ALWAYS

    @property
    def masks(self) -> Week:
        """All seven."""
        return self._masks

    def show(self, schedule: Sequence[int]) -> None:
        """Show a setting."""
        self._put(whole(schedule))

    def allowed(self, day: int, hour: int) -> bool:
        """Whether that hour is allowed."""
        return bool(self._masks[day] >> hour & 1)

    def put(self, cells: Sequence[tuple[int, int]], allowed: bool) -> None:
        """Allow or forbid the hours of `cells`, each (day, hour)."""
        masks = list(self._masks)
        for day, hour in cells:
            masks[day] = masks[day] | 1 << hour if allowed else masks[day] & ~(1 << hour)
        self._put(tuple(masks))

    def _put(self, masks: Week) -> None:
        if masks != self._masks:
            self._masks = masks
            self.dataChanged.emit(self.index(0, 0), self.index(DAYS - 1, HOURS - 1))

    def rowCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008 (Qt's own signature)
        return 0 if parent.isValid() else DAYS

    def columnCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008 (Qt's own signature)
        return 0 if parent.isValid() else HOURS

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        kinds = Qt.ItemFlag
        return kinds.ItemIsEnabled | kinds.ItemIsSelectable | kinds.ItemIsUserCheckable

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        allowed = self.allowed(index.row(), index.column())
        answers: dict[int, Callable[[], Any]] = {
            Qt.ItemDataRole.CheckStateRole: lambda: Qt.CheckState.Checked if allowed else Qt.CheckState.Unchecked,
            Qt.ItemDataRole.AccessibleTextRole: lambda: cell_text(index.row(), index.column(), allowed=allowed),
            Qt.ItemDataRole.ToolTipRole: lambda: cell_text(index.row(), index.column(), allowed=allowed),
        }
        answer = answers.get(role)
        return answer() if answer is not None else None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> str | None:
        sideways = orientation is Qt.Orientation.Horizontal
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return hour_text(section) if sideways else day_name(section)
        if role == Qt.ItemDataRole.DisplayRole:
            if sideways:
                return str(section) if section % LABEL_EVERY == 0 else ""
            return day_name(section, short=True)
        return None


def cell_text(day: int, hour: int, *, allowed: bool) -> str:
    """A cell in words."""
    yes = say("week", "{day}, {first} to {end}: allowed")
    no = say("week", "{day}, {first} to {end}: not allowed")
    return (yes if allowed else no).format(day=day_name(day), first=hour_text(hour), end=hour_text(hour + 1))
