"""The few messages that come while the window is not seen: something needs the user."""

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.context import Context
from app.shell.tray import Tray
from app.words import problem_sentences
from engine.contract.reasons import Problem, ProblemAction


class Notifications(QObject):
    """Announces each new problem that needs an action, once, and only while the window is hidden."""

    def __init__(self, context: Context, window: QWidget, tray: Tray, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._window = window
        self._tray = tray
        self._known: set[str] = set()
        context.mirror.problems_changed.connect(self._on_problems)

    def _on_problems(self, problems: tuple[Problem, ...]) -> None:
        new = [problem for problem in problems if problem.problem_id not in self._known]
        self._known = {problem.problem_id for problem in problems}
        hidden = not self._window.isVisible() or self._window.isMinimized()
        if not hidden:
            return
        for problem in new:
            if problem.action is not ProblemAction.DISMISS:
                self._tray.notify(*problem_sentences(problem))
