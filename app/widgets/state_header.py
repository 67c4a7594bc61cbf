"""The top of every page: what is going on, why, what comes next, and the one control."""

from enum import StrEnum
from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QHBoxLayout, QMenu, QPushButton, QVBoxLayout, QWidget

from app.context import Context
from app.desktop.icons import mark_for
from app.format import one_line
from app.language import say
from app.link import operations
from app.link.client import LinkDetail, LinkState, LinkStatus
from app.link.operation import Failure, Operation
from app.widgets.buttons import MenuButton, push_button
from app.widgets.icon_label import IconLabel
from app.widgets.override_banner import ANYWAY_SECONDS, anyway_text, may_work_anyway
from app.widgets.reason_list import ReasonList
from app.widgets.snooze import fill_pause_menu
from app.widgets.text import PassingText, Text
from app.words import Sentence, failure_sentence, link_sentence, reason_lines
from engine.contract.reasons import ReasonCode, RunState
from engine.contract.snapshot import EngineState

LINE_SPACING: Final = 2


class Control(StrEnum):
    """Which control stands beside the sentence."""

    NONE = "none"
    PAUSE = "pause"
    RESUME = "resume"
    CHOOSE = "choose"
    RETRY = "retry"
    START = "start"


def control_for(state: EngineState | None, *, connected: bool, can_retry: bool) -> Control:
    """The one control that fits what is going on."""
    if not connected or state is None:
        return Control.RETRY if can_retry else Control.NONE
    if state.status.state is RunState.IDLE:
        return Control.CHOOSE
    if any(reason.code is ReasonCode.USER_PAUSED for reason in state.status.reasons):
        return Control.RESUME
    if state.status.state in (RunState.LEAVING, RunState.PROBLEM):
        return Control.NONE
    return Control.PAUSE


class StateHeader(QWidget):
    """Sentence and control.

    Signals:
        choose_wanted: the user wants to choose a project.
    """

    choose_wanted = Signal()

    def __init__(self, context: Context, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._control = Control.NONE
        self._choosing = False
        self._was_connected = context.link.connected
        self._restarted = False
        self.mark = IconLabel(context.theme, mark_for(None), "muted", 44)
        self.project = Text(role="label", wrap=True)
        self.sentence = Text(role="state", wrap=True)
        self.detail = Text(role="muted", wrap=True)
        self.reasons = ReasonList()
        self.error = PassingText(role="error", wrap=True)
        self.error.hide()
        self.pause_button = MenuButton(context.theme, say("pause", "Pause"), self._pause_menu())
        self.pause_button.setProperty("kind", "outlined")
        self.anyway_button = MenuButton(context.theme, say("override", "Work anyway"), self._anyway_menu())
        self.anyway_button.hide()
        self.resume_button = push_button(say("pause", "Resume"), action=True)
        self.choose_button = push_button(say("header", "Choose a project"), action=True)
        self.retry_button = push_button(say("header", "Try again"), action=True)
        self.start_button = push_button(say("header", "Start"), action=True)
        self._build()
        self._connect()
        self.refresh()

    def _pause_menu(self) -> QMenu:
        menu = QMenu()
        fill_pause_menu(menu, lambda seconds: self._run(operations.pause(self._link, seconds)))
        return menu

    def _anyway_menu(self) -> QMenu:
        menu = QMenu()
        for seconds in ANYWAY_SECONDS:
            action = menu.addAction(anyway_text(seconds))
            action.triggered.connect(lambda _checked=False, s=seconds: self._run(operations.override(self._link, s)))
        return menu

    def _build(self) -> None:
        words = QVBoxLayout()
        words.setSpacing(LINE_SPACING)
        words.addStretch(1)
        for label in (self.project, self.sentence, self.reasons, self.detail, self.error):
            words.addWidget(label)
        words.addStretch(1)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(16)
        row.addWidget(self.mark)
        row.addLayout(words, 1)
        buttons = QVBoxLayout()
        buttons.setSpacing(8)
        buttons.addStretch(1)
        for button in self._buttons().values():
            button.hide()
            buttons.addWidget(button)
        buttons.addWidget(self.anyway_button)
        buttons.addStretch(1)
        row.addLayout(buttons)
        self._reserve_height()

    def _reserve_height(self) -> None:
        """Room for project, sentence and one more line at any time, so that nothing below moves with the state."""
        fonts = (self._context.theme.font(12), self._context.theme.font(28, bold=True), self._context.theme.font(14))
        lines = sum(QFontMetrics(font).lineSpacing() + 1 for font in fonts)  # 1: each label rounds up
        self.setMinimumHeight(lines + (len(fonts) - 1) * LINE_SPACING)

    def _buttons(self) -> dict[Control, QPushButton]:
        return {
            Control.PAUSE: self.pause_button,
            Control.RESUME: self.resume_button,
            Control.CHOOSE: self.choose_button,
            Control.RETRY: self.retry_button,
            Control.START: self.start_button,
        }

    def _connect(self) -> None:
        context = self._context
        context.link.status_changed.connect(self._on_link)
        context.link.obeyed.connect(self.error.clear_text)
        context.launcher.restarted.connect(self._on_restarted)
        context.launcher.gave_up.connect(self.refresh)
        context.launcher.started.connect(self.refresh)
        for signal in (context.mirror.status_changed, context.mirror.session_changed, context.mirror.governor_changed):
            signal.connect(self.refresh)
        self.resume_button.clicked.connect(lambda: self._run(operations.resume(self._link)))
        self.choose_button.clicked.connect(self.choose_wanted)
        self.retry_button.clicked.connect(self._retry)
        self.start_button.clicked.connect(self._retry)

    @property
    def control(self) -> Control:
        """The control that is shown."""
        return self._control

    @property
    def _link(self) -> operations.CommandPort:
        return self._context.link

    def refresh(self, *_: object) -> None:
        """Show what holds now."""
        context, state = self._context, self._context.mirror.state
        connected = context.link.connected
        gave_up = context.launcher.has_given_up
        lines: tuple[str, ...] = ()
        if connected and state is not None:
            (words, lines), run = reason_lines(state), state.status.state
        else:
            words, run = link_sentence(context.link.status, gave_up=gave_up), None
        self.reasons.show_reasons(lines)
        session = state.session if state is not None else None
        self._show_words(words, one_line(session.title, 120) if session is not None else "")
        self.mark.show_icon(mark_for(run), _mark_role(run))
        stuck = gave_up or context.link.status.state is LinkState.INCOMPATIBLE
        control = control_for(state, connected=connected, can_retry=stuck)
        if context.link.status.detail is LinkDetail.STOPPED:
            control = Control.START
        if control is Control.CHOOSE and self._choosing:
            control = Control.NONE
        self._show_control(control)
        self.anyway_button.setVisible(may_work_anyway(state, connected=connected))

    def show_page(self, name: str) -> None:
        """Which page is below: on Projects nobody needs to be sent there."""
        self._choosing = name == "projects"
        self.error.clear_text()
        self.refresh()

    def _on_link(self, status: LinkStatus) -> None:
        connected = status.state is LinkState.CONNECTED
        if connected is not self._was_connected:
            self._was_connected = connected
            self.error.clear_text()
        if connected and self._restarted:
            self._restarted = False
            self.error.show_text(say("header", "Potluck's background part ended by itself and was started again."))
        self.refresh()

    def _on_restarted(self) -> None:
        self._restarted = True

    def _show_control(self, control: Control) -> None:
        if control is self._control:
            return
        self._control = control
        buttons = self._buttons()
        had_focus = any(button.hasFocus() for button in buttons.values())
        for kind, button in buttons.items():
            if kind is not control:
                button.hide()  # before the other is shown, which lays out at once: two would need more height
        if control in buttons:
            buttons[control].show()
            if had_focus:
                buttons[control].setFocus()

    def _show_words(self, words: Sentence, project: str) -> None:
        self.project.show_text(project)
        self.sentence.show_text(words.head)
        self.detail.show_text(words.detail)
        parts = (words.head, *self.reasons.sentences, words.detail)
        self.setAccessibleName(" ".join(part for part in parts if part))

    def _retry(self) -> None:
        self._context.launcher.reset()
        self._context.link.retry_now()
        self.refresh()

    def _run(self, operation: Operation) -> None:
        self.error.show_text("")
        operation.failed.connect(self._failed)

    def _failed(self, failure: Failure) -> None:
        self.error.show_text(failure_sentence(failure))


def _mark_role(state: RunState | None) -> str:
    if state in (RunState.TRAINING, RunState.AVERAGING):
        return "learning"
    if state is RunState.PROBLEM:
        return "problem"
    if state in (RunState.WAITING, RunState.CONNECTING, RunState.CATCHING_UP):
        return "waiting"
    return "muted"
