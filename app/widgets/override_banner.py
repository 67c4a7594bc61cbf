""" "Work anyway", and the notice that limits are set aside for a time, which ones, until when, and the way back."""

from typing import Final

from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.context import Context
from app.format import clock, duration
from app.language import say
from app.link import operations
from app.link.operation import Failure
from app.widgets.buttons import push_button
from app.widgets.card import Card
from app.widgets.icon_label import IconLabel
from app.widgets.text import Text
from app.words import active_reasons, cause_text, failure_sentence
from engine.contract.reasons import ReasonCode, RunState
from engine.contract.snapshot import EngineState, GovernorState

ANYWAY_SECONDS: Final = (1800.0, 3600.0, 4 * 3600.0)
YIELDING: Final = frozenset(
    {
        ReasonCode.EXCLUSIVE_APP,
        ReasonCode.ENERGY_SAVER,
        ReasonCode.CAPTIVE_PORTAL,
        ReasonCode.NETWORK_SCHEDULE,
        ReasonCode.USER_ACTIVE,
        ReasonCode.COMPUTE_SCHEDULE,
        ReasonCode.START_DELAY,
        ReasonCode.FOREIGN_CPU,
        ReasonCode.MEMORY_SHARE,
    }
)
"""Limits that "Work anyway" sets aside. The engine decides; this spares the user a button without effect."""
HARMLESS: Final = frozenset(
    {
        ReasonCode.USER_PAUSED,  # an override ends a pause
        ReasonCode.GPU_TOO_HOT,
        ReasonCode.GPU_FULL_SCREEN,
        ReasonCode.GPU_FOREIGN_LOAD,
        ReasonCode.GPU_MEMORY_LOW,
        ReasonCode.GPU_IN_USE,
        ReasonCode.LESS_IN_USE,
        ReasonCode.LESS_FOR_HEAT,
        ReasonCode.HEAT_UNREADABLE,
    }
)
"""Reasons that do not stop the processor's work, or end with the override's beginning."""


def anyway_text(seconds: float) -> str:
    """An entry of the "Work anyway" menu."""
    return say("override", "For {time}").format(time=duration(seconds))


def may_work_anyway(state: EngineState | None, *, connected: bool) -> bool:
    """Whether "Work anyway" would change something: limits stop the work, and all of them yield."""
    if state is None or not connected or state.session is None or state.governor.override_until is not None:
        return False
    codes = {reason.code for reason in active_reasons(state)}
    return state.status.state is RunState.PAUSED and bool(codes & YIELDING) and codes <= YIELDING | HARMLESS


class OverrideBanner(Card):
    """There while an override lasts."""

    def __init__(self, context: Context, parent: QWidget | None = None) -> None:
        super().__init__(role="notice", parent=parent)
        self._context = context
        self.title = Text(role="strong", wrap=True)
        self.text = Text(wrap=True)
        self.error = Text(role="error", wrap=True)
        self.error.hide()
        self.end_button = push_button(say("override", "Use my limits again"))
        self.end_button.clicked.connect(self._end)
        column = QVBoxLayout()
        column.setSpacing(2)
        for label in (self.title, self.text, self.error):
            column.addWidget(label)
        row = QHBoxLayout()
        row.setSpacing(12)
        row.addWidget(IconLabel(context.theme, "resume", "waiting", 24))
        row.addLayout(column, 1)
        row.addWidget(self.end_button)
        self.body.addLayout(row)
        context.mirror.governor_changed.connect(self.refresh)
        context.link.status_changed.connect(self.refresh)
        self.refresh()

    def refresh(self, *_: object) -> None:
        """Show what holds now."""
        state = self._context.mirror.state
        governor = state.governor if state is not None else GovernorState()
        active = governor.override_until is not None and self._context.link.connected
        self.setVisible(active)
        if not active or governor.override_until is None:
            self.error.show_text("")
            return
        title = say("override", "Working anyway until {time}.").format(time=clock(governor.override_until))
        self.title.setText(title)
        self.text.setText(set_aside_text(governor))
        self.setAccessibleName(f"{title} {self.text.text()}")

    def _end(self) -> None:
        self.end_button.setEnabled(False)
        self.error.show_text("")
        operation = operations.cancel_override(self._context.link)
        operation.succeeded.connect(lambda _result: self.end_button.setEnabled(True))
        operation.failed.connect(self._failed)

    def _failed(self, failure: Failure) -> None:
        self.end_button.setEnabled(True)
        self.error.show_text(failure_sentence(failure))


def set_aside_text(governor: GovernorState) -> str:
    """Which limits the override sets aside now."""
    if not governor.overridden:
        return say("override", "None of your limits would stop it now. Heat, battery, disk and data limits still hold.")
    causes = " ".join(cause_text(reason) for reason in governor.overridden)
    return say("override", "Set aside: {causes} Heat, battery, disk and data limits still hold.").format(causes=causes)
