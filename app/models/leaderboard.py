"""The leaderboard as a table."""

from typing import Any

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QBrush, QColor

from app.desktop.theme import Theme
from app.format import one_line, short_id, whole
from app.language import say
from app.models.table import Column, StructTable
from engine.contract.snapshot import LeaderboardRow


def name_text(row: LeaderboardRow) -> str:
    """The name, and that it is you where it is."""
    name = one_line(row.name, 60) or say("leaderboard", "Unnamed")
    return say("leaderboard", "{name} (you)").format(name=name) if row.me else name


class LeaderboardModel(StructTable[LeaderboardRow]):
    """Rank, name, tokens by state, rounds. The user's own row is bold, marked "(you)", and on another ground."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        columns = [
            Column[LeaderboardRow](say("leaderboard", "Rank"), lambda row: whole(row.rank), numeric=True),
            Column[LeaderboardRow](say("leaderboard", "Name"), name_text),
            Column[LeaderboardRow](
                say("leaderboard", "Key"),
                lambda row: short_id(row.peer_id),
                tip=say("leaderboard", "The start of the computer's key. A name is a label; the key is who it is."),
            ),
            Column[LeaderboardRow](
                say("leaderboard", "Verified tokens"), lambda row: whole(row.verified_tokens), numeric=True
            ),
            Column[LeaderboardRow](say("leaderboard", "Pending"), lambda row: whole(row.pending_tokens), numeric=True),
            Column[LeaderboardRow](
                say("leaderboard", "Rejected"), lambda row: whole(row.rejected_tokens), numeric=True
            ),
            Column[LeaderboardRow](say("leaderboard", "Rounds"), lambda row: whole(row.rounds), numeric=True),
        ]
        super().__init__(columns, lambda row: row.peer_id, parent)
        self._theme = theme

    @property
    def my_row(self) -> int | None:
        """Where the user stands, or None."""
        return next((index for index, row in enumerate(self.rows) if row.me), None)

    def decoration(self, row: LeaderboardRow, role: int) -> Any:
        if role == Qt.ItemDataRole.FontRole:
            return self._theme.font(14, bold=row.me)
        if role == Qt.ItemDataRole.BackgroundRole and row.me:
            return QBrush(QColor(self._theme.roles.raised))
        return None
