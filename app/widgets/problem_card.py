"""A problem: what happened, what it means, one action."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.context import Context
from app.language import say
from app.link import operations
from app.link.operation import Failure, Operation
from app.widgets.buttons import push_button
from app.widgets.card import Card
from app.widgets.icon_label import IconLabel
from app.widgets.text import PassingText, Text
from app.words import action_label, failure_sentence, problem_sentences
from engine.contract.reasons import Problem, ProblemAction


def act_on(context: Context, problem: Problem) -> Operation | None:
    """Do what the problem's button says."""
    if problem.action is ProblemAction.RETRY_HUB:
        return operations.refresh_hub(context.link)
    if problem.action is ProblemAction.RESTART_WORKER:
        return operations.restart_worker(context.link)
    if problem.action is ProblemAction.GET_KIT:
        return operations.get_kit(context.link)
    if problem.action is ProblemAction.DISMISS:
        return operations.dismiss_problem(context.link, problem.problem_id)
    return None


class ProblemCard(Card):
    """One problem. Its button is off while the engine works on it."""

    def __init__(self, context: Context, problem: Problem, parent: QWidget | None = None) -> None:
        super().__init__(role="notice" if problem.action is ProblemAction.DISMISS else "problem", parent=parent)
        self.problem = problem
        self._context = context
        title, text = problem_sentences(problem)
        self.setAccessibleName(say("problem", "Problem: {title}").format(title=title))
        column = QVBoxLayout()
        column.setSpacing(2)
        column.addWidget(Text(title, "strong", wrap=True))
        column.addWidget(Text(text, wrap=True).selectable())
        self._error = PassingText(role="error", wrap=True)
        self._error.hide()
        column.addWidget(self._error)
        role = "waiting" if problem.action is ProblemAction.DISMISS else "problem"
        row = QHBoxLayout()
        row.setSpacing(12)
        row.addWidget(IconLabel(context.theme, "problem", role, 24))
        row.addLayout(column, 1)
        self.button = push_button(action_label(problem), name=f"{action_label(problem)}: {title}")
        self.button.setVisible(problem.action is not ProblemAction.NONE)
        self.button.clicked.connect(self._act)
        row.addWidget(self.button)
        self.body.addLayout(row)

    def _act(self) -> None:
        operation = act_on(self._context, self.problem)
        if operation is None:
            return
        self.button.setEnabled(False)
        operation.succeeded.connect(self._succeeded)
        operation.failed.connect(self._failed)

    def _succeeded(self, _result: object) -> None:
        self._error.show_text("")
        self.button.setEnabled(True)

    def _failed(self, failure: Failure) -> None:
        self._error.show_text(failure_sentence(failure))
        self.button.setEnabled(True)


class ProblemList(QWidget):
    """All problems, newest first; not there at all when there are none.

    Signals:
        count_changed: how many there are now.
    """

    count_changed = Signal(object)

    def __init__(self, context: Context, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._cards: list[ProblemCard] = []
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(8)
        self.hide()
        context.mirror.problems_changed.connect(self.show_problems)

    @property
    def cards(self) -> list[ProblemCard]:
        """The cards from top to bottom."""
        return list(self._cards)

    def show_problems(self, problems: tuple[Problem, ...]) -> None:
        """Show these. A card that stays keeps its button's state."""
        ordered = sorted(problems, key=lambda problem: -problem.at)
        kept = {key(card.problem): card for card in self._cards}
        cards = []
        for index, problem in enumerate(ordered):
            card = kept.pop(key(problem), None) or ProblemCard(self._context, problem)
            card.problem = problem
            cards.append(card)
            self._layout.insertWidget(index, card)
        for card in kept.values():
            self._layout.removeWidget(card)
            card.hide()
            card.deleteLater()
        self._cards = cards
        self.setVisible(bool(cards))
        self.count_changed.emit(len(cards))


def key(problem: Problem) -> tuple[object, ...]:
    """What makes two cards look the same."""
    return (problem.problem_id, problem.code, problem.action, tuple(sorted(problem.params.items())))
