"""Leaderboard: sums of signed receipts, the user's own row marked."""

from PySide6.QtWidgets import QStackedWidget, QWidget

from app.context import Context
from app.format import clock, count, whole
from app.language import say
from app.models.leaderboard import LeaderboardModel
from app.pages.page import Page
from app.state.throttle import Throttle
from app.widgets.buttons import push_button
from app.widgets.card import Card
from app.widgets.empty import EmptyState
from app.widgets.table import Table
from app.widgets.text import Text
from engine.contract.snapshot import EngineState, LeaderboardRow

BOARD_MILLISECONDS = 500
NAME_COLUMN = 1


class LeaderboardPage(Page):
    """Own place, table, legend."""

    def __init__(self, context: Context, parent: QWidget | None = None) -> None:
        super().__init__(context, say("pages", "Leaderboard"), scrolls=False, parent=parent)
        self.model = LeaderboardModel(context.theme, self)
        self.table = Table(
            self.model, say("leaderboard", "Leaderboard"), stretch_column=NAME_COLUMN, give_way=(2, 6, 5)
        )
        self.empty = EmptyState(context.theme, "leaderboard")
        self.place = Text(role="strong", wrap=True)
        self.hint = Text(role="muted", wrap=True)
        self.show_me = push_button(say("leaderboard", "Show my row"))
        self.show_me.clicked.connect(self._show_me)
        self.legend = Text(role="label", wrap=True)
        self._stack = QStackedWidget()
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self.table)
        self._build()
        refresh = Throttle(self.refresh, BOARD_MILLISECONDS, self)
        mirror = context.mirror
        for signal in (mirror.leaderboard_changed, mirror.session_changed, mirror.settings_changed):
            signal.connect(refresh)
        mirror.hub_changed.connect(refresh)
        self.refresh()

    def _build(self) -> None:
        card = Card(say("leaderboard", "Verified training"))
        card.aside.addWidget(self.show_me)
        card.body.addWidget(self.place)
        card.body.addWidget(self.hint)
        card.body.addWidget(self._stack, 1)
        card.body.addWidget(self.legend)
        self.column.addWidget(card, 1)

    def refresh(self) -> None:
        """Show the board as it is."""
        state = self.context.mirror.state
        rows = state.leaderboard.rows if state is not None else ()
        if rows != self.model.rows:
            self.model.show_rows(rows)
        mine = self.model.my_row
        self._stack.setCurrentWidget(self.table if rows else self.empty)
        self.empty.show_text(empty_text(state))
        self.place.show_text(place_text(rows[mine], len(rows)) if mine is not None else "")
        named = state is None or bool(state.settings.display_name)
        hint = say("leaderboard", "You appear without a name. Choose one in Settings if you like.")
        self.hint.show_text(hint if mine is not None and not named else "")
        self.show_me.setVisible(mine is not None)
        self.legend.show_text(legend_text(state) if rows else "")

    def _show_me(self) -> None:
        mine = self.model.my_row
        if mine is not None:
            self.table.selectRow(mine)
            self.table.scrollTo(self.model.index(mine, 0), Table.ScrollHint.PositionAtCenter)
            self.table.setFocus()


def place_text(row: LeaderboardRow, of: int) -> str:
    """The user's own place in words."""
    text = say("leaderboard", "You are number {rank} of {all}, with {tokens} verified tokens.")
    return text.format(rank=whole(row.rank), all=whole(of), tokens=count(row.verified_tokens))


def legend_text(state: EngineState | None) -> str:
    """What the columns mean, and how fresh they are."""
    text = say(
        "leaderboard",
        "Sums of receipts that other computers signed. Pending ones wait for the hub's check, "
        "rejected ones do not count.",
    )
    fetched = state.leaderboard.fetched_at if state is not None else None
    if fetched is None:
        return text
    return f"{text} {say('leaderboard', 'As of {time}.').format(time=clock(fetched))}"


def empty_text(state: EngineState | None) -> str:
    """When there will be rows."""
    if state is None:
        return say("leaderboard", "The leaderboard appears here when Potluck's background part answers.")
    if state.session is None:
        return say("leaderboard", "Join a project, and its leaderboard appears here.")
    if not state.hub.connected:
        return say("leaderboard", "The hub cannot be reached. The leaderboard appears when it answers.")
    return say("leaderboard", "The first rows come after the first rounds, once the hub has their receipts.")
