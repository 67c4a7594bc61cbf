"""One project of the catalogue."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QMenu, QVBoxLayout, QWidget

from app.context import Context
from app.format import DASH, count, one_line, size, whole
from app.language import say
from app.link.operation import Failure, Operation
from app.widgets.buttons import MenuButton, push_button
from app.widgets.card import Card
from app.widgets.columns import Columns
from app.widgets.figure import Figure
from app.widgets.text import PassingText, Text, set_role
from app.words import failure_sentence
from engine.contract.snapshot import ProjectCard

MAX_SUMMARY_CHARS = 600


class ProjectView(Card):
    """What it is, what it needs, how it stands, and Join or Leave.

    Signals:
        join_wanted: the `ProjectCard`.
        leave_wanted: whether at once.
    """

    join_wanted = Signal(object)
    leave_wanted = Signal(object)

    def __init__(self, context: Context, card: ProjectCard, parent: QWidget | None = None) -> None:
        super().__init__(one_line(card.title, 120) or one_line(card.name, 120), parent=parent)
        self.card = card
        self._busy = False
        self.joined = Text(say("projects", "Joined"), "verified")
        self.join_button = push_button(say("projects", "Join"), name=self._name_of(say("projects", "Join")))
        self.join_button.clicked.connect(lambda: self.join_wanted.emit(self.card))
        self.leave_button = MenuButton(context.theme, say("projects", "Leave"), self._leave_menu())
        self.leave_button.setAccessibleName(self._name_of(say("projects", "Leave")))
        self.byline = Text(role="label", wrap=True)
        self.summary = Text(wrap=True).selectable()
        self.unusable = Text(role="waiting", wrap=True)
        self.error = PassingText(role="error", wrap=True)
        self.error.hide()
        self.figures = {
            "size": Figure(say("projects", "Model")),
            "download": Figure(say("projects", "Model download")),
            "memory": Figure(say("projects", "Memory needed")),
            "peers": Figure(say("projects", "Computers now")),
            "tokens": Figure(say("projects", "Verified tokens")),
        }
        self._build()

    def _name_of(self, verb: str) -> str:
        return f"{verb}: {one_line(self.card.title, 120)}"

    def _leave_menu(self) -> QMenu:
        menu = QMenu()
        after, now = say("projects", "After this round"), say("projects", "Now")
        menu.addAction(after).triggered.connect(lambda: self.leave_wanted.emit(False))
        menu.addAction(now).triggered.connect(lambda: self.leave_wanted.emit(True))
        return menu

    def _build(self) -> None:
        self.aside.addWidget(self.joined)
        self.aside.addWidget(self.join_button)
        self.aside.addWidget(self.leave_button)
        words = QVBoxLayout()
        words.setSpacing(8)
        words.addWidget(self.byline)
        words.addWidget(self.summary)
        row = QHBoxLayout()
        row.addLayout(words, 3)
        row.addStretch(1)
        self.body.addLayout(row)
        self.body.addSpacing(8)
        self.body.addWidget(Columns(list(self.figures.values()), threshold=640, narrow=3))
        self.body.addWidget(self.unusable)
        self.body.addWidget(self.error)

    def show_card(self, card: ProjectCard, *, usable: bool, first_choice: bool) -> None:
        """Show the project as it is now. `usable` is whether the engine can be asked for anything."""
        self.card = card
        byline = say("projects", "By {publisher}. Licence {licence}. Data: {data}")
        self.byline.setText(
            byline.format(
                publisher=one_line(card.publisher, 80),
                licence=one_line(card.licence, 60),
                data=one_line(card.data_summary, 200),
            )
        )
        self.summary.setText(one_line(card.summary, MAX_SUMMARY_CHARS))
        self._show_figures(card)
        self.joined.setVisible(card.joined)
        self.join_button.setVisible(not card.joined)
        self.leave_button.setVisible(card.joined)
        can_join = usable and not card.unusable_because and not self._busy
        self.join_button.setEnabled(can_join)
        self.leave_button.setEnabled(usable and not self._busy)
        set_role(self.join_button, "action" if first_choice else "", "kind")
        reason = one_line(card.unusable_because, 300)
        unusable = say("projects", "This computer cannot take part: {reason}").format(reason=reason)
        self.unusable.show_text(unusable if reason else "")

    def _show_figures(self, card: ProjectCard) -> None:
        parameters = say("projects", "{count} parameters").format(count=count(card.parameter_count))
        self.figures["size"].show_value(count(card.parameter_count), say("projects", "parameters"))
        self.figures["size"].setAccessibleName(parameters)
        none = say("projects", "none")
        self.figures["download"].show_value(size(card.download_bytes) if card.download_bytes else none)
        self.figures["memory"].show_value(size(card.memory_needed_bytes))
        self.figures["peers"].show_value(DASH if card.peers_now is None else whole(card.peers_now))
        self.figures["tokens"].show_value(DASH if card.tokens_verified is None else count(card.tokens_verified))

    def follow(self, operation: Operation) -> None:
        """Keep the buttons off until the engine answered."""
        self._busy = True
        self.error.show_text("")
        self.leave_button.setEnabled(False)
        operation.succeeded.connect(self._succeeded)
        operation.failed.connect(self._failed)

    def _succeeded(self, _result: object) -> None:
        self._busy = False
        self.leave_button.setEnabled(True)

    def _failed(self, failure: Failure) -> None:
        self._busy = False
        self.leave_button.setEnabled(True)
        self.error.show_text(failure_sentence(failure))
