"""Projects: what can be joined, and what joining means."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from app.context import Context
from app.language import say
from app.link import operations
from app.models.projects import SEARCH_FROM, shown
from app.pages.page import Page
from app.widgets.buttons import push_button
from app.widgets.card import Card
from app.widgets.empty import EmptyState
from app.widgets.join_sheet import JoinSheet
from app.widgets.link_card import LinkCard
from app.widgets.project_card import ProjectView
from app.widgets.text import Text
from engine.contract.snapshot import ProjectCard


class ProjectsPage(Page):
    """A card for each project.

    Signals:
        settings_wanted: there is no hub; its address is entered in Settings.
        link_given: the text that was entered as a link, not checked.
    """

    settings_wanted = Signal()
    link_given = Signal(object)

    def __init__(self, context: Context, parent: QWidget | None = None) -> None:
        super().__init__(context, say("pages", "Projects"), parent=parent)
        self.search = QLineEdit()
        self.search.setPlaceholderText(say("projects", "Search projects"))
        self.search.setAccessibleName(say("projects", "Search projects"))
        self.search.setClearButtonEnabled(False)
        self.search.textChanged.connect(self.refresh)
        self.search.hide()
        self.empty = EmptyState(context.theme, "projects")
        self._empty_card = Card()
        self._empty_card.body.addWidget(self.empty)
        self.settings_button = push_button(say("projects", "Open Settings"), action=True)
        self.settings_button.clicked.connect(self.settings_wanted)
        self._empty_card.body.addWidget(self.settings_button, 0, Qt.AlignmentFlag.AlignHCenter)
        self._empty_card.body.addSpacing(16)
        self._empty_card.setMinimumHeight(220)
        self.more = Text(role="muted", wrap=True)
        self.link = LinkCard()
        self.link.given.connect(self.link_given)
        self._cards: dict[str, ProjectView] = {}
        self._list = QVBoxLayout()
        self._list.setSpacing(16)
        self.sheet: JoinSheet | None = None
        self.column.addWidget(self.search)
        self.column.addWidget(self._empty_card)
        self.column.addLayout(self._list)
        self.column.addWidget(self.more)
        self.column.addWidget(self.link)
        self.column.addStretch(1)
        for signal in (context.mirror.projects_changed, context.mirror.hub_changed, context.mirror.session_changed):
            signal.connect(self.refresh)
        context.link.status_changed.connect(self.refresh)
        self.refresh()

    @property
    def cards(self) -> list[ProjectView]:
        """The cards from top to bottom."""
        return list(self._cards.values())

    def refresh(self, *_: object) -> None:
        """Show the catalogue. A card that stays is updated, not rebuilt."""
        state = self.context.mirror.state
        catalogue = state.projects if state is not None else ()
        self.search.setVisible(len(catalogue) >= SEARCH_FROM)
        words = self.search.text() if self.search.isVisibleTo(self) else ""
        found = shown(catalogue, words)
        old, self._cards = self._cards, {}
        joined = self._joined_id()
        for index, card in enumerate(found):
            view = old.pop(card.project_id, None) or self._new_view(card)
            view.show_card(card, usable=self.context.link.connected, first_choice=not joined and index == 0)
            self._cards[card.project_id] = view
            if self._list.indexOf(view) != index:
                self._list.insertWidget(index, view)
        for view in old.values():
            self._list.removeWidget(view)
            view.hide()
            view.deleteLater()
        self._empty_card.setVisible(not found)
        self.empty.show_text(self._empty_text(bool(catalogue)))
        self.settings_button.setVisible(state is not None and not state.hub.url)
        hidden = len(catalogue) - len(found)
        more = say("projects", "%n more. Search to find them.", None, hidden)
        self.more.show_text(more if hidden and found and not words else "")

    def offer(self, card: ProjectCard) -> None:
        """Open the sheet that says what joining means."""
        state = self.context.mirror.state
        replaced = state.session.title if state is not None and state.session is not None else ""
        self.sheet = JoinSheet(self.context, card, replaced=replaced, parent=self.window())
        self.sheet.open()

    def _new_view(self, card: ProjectCard) -> ProjectView:
        view = ProjectView(self.context, card)
        view.join_wanted.connect(self.offer)
        view.leave_wanted.connect(lambda now, v=view: v.follow(operations.leave(self.context.link, now=now)))
        return view

    def _joined_id(self) -> str:
        state = self.context.mirror.state
        return state.session.project_id if state is not None and state.session is not None else ""

    def _empty_text(self, searched: bool) -> str:
        state = self.context.mirror.state
        if searched:
            return say("projects", "No project has these words.")
        if state is None:
            return say("projects", "Projects appear here when Potluck's background part answers.")
        if not state.hub.url:
            return say("projects", "No hub is set. Enter a hub's address in Settings to see its projects.")
        if not state.hub.connected:
            return say("projects", "The hub cannot be reached. Its projects appear when it answers.")
        return say("projects", "The hub has no projects yet. New ones appear here.")
