"""Machine: the training kit, which is fetched once; not there where torch came with Potluck."""

from typing import Final

from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.context import Context
from app.format import megabits, one_line, size
from app.language import say
from app.link import operations
from app.link.operation import Failure, Operation
from app.widgets.buttons import push_button
from app.widgets.card import Card
from app.widgets.meter import Meter
from app.widgets.text import Text
from app.words import failure_sentence
from engine.contract.snapshot import KitState

BUSY: Final = ("fetching", "unpacking", "testing")
IDLE: Final = ("missing", "paused", "failed")


class KitCard(Card):
    """What it is, how much is here, one button."""

    def __init__(self, context: Context, parent: QWidget | None = None) -> None:
        super().__init__(say("kit", "Training kit"), parent=parent)
        self._context = context
        self.text = Text(wrap=True)
        self.note = Text(role="muted", wrap=True)
        self.meter = Meter(context.theme, say("kit", "Training kit on this computer"))
        self.error = Text(role="error", wrap=True)
        self.error.hide()
        self.get_button = push_button(say("kit", "Get it"), name=say("kit", "Get the training kit"))
        self.get_button.clicked.connect(lambda: self._run(operations.get_kit(context.link)))
        self.pause_button = push_button(say("kit", "Pause"), name=say("kit", "Pause fetching the training kit"))
        self.pause_button.clicked.connect(lambda: self._run(operations.pause_kit(context.link)))
        buttons = QHBoxLayout()
        buttons.addWidget(self.get_button)
        buttons.addWidget(self.pause_button)
        buttons.addStretch(1)
        for part in (self.text, self.meter, self.note, self.error):
            self.body.addWidget(part)
        self.body.addLayout(buttons)
        for signal in (context.mirror.kit_changed, context.link.status_changed):
            signal.connect(self.refresh)
        self.refresh()

    def refresh(self, *_: object) -> None:
        """Show what holds now."""
        state = self._context.mirror.state
        kit = state.kit if state is not None else KitState()
        self.setVisible(kit.state != "included")
        connected = self._context.link.connected
        had_focus = self.get_button.hasFocus() or self.pause_button.hasFocus()
        for button, states in ((self.get_button, IDLE), (self.pause_button, ("fetching",))):
            button.setVisible(kit.state in states)
            button.setEnabled(connected)
            if had_focus and connected and kit.state in states:
                button.setFocus()
        self.meter.setVisible(kit.state in (*BUSY, "paused"))
        self.meter.show_share(kit.done_bytes / kit.total_bytes if kit.total_bytes else None)
        self.text.show_text(kit_text(kit))
        note = card_note(kit)
        self.note.setVisible(bool(note))
        self.note.show_text(note)

    def _run(self, operation: Operation) -> None:
        self.error.show_text("")
        operation.failed.connect(self._failed)

    def _failed(self, failure: Failure) -> None:
        self.error.show_text(failure_sentence(failure))


def kit_text(kit: KitState) -> str:
    """What there is, and what is missing."""
    total, done = size(kit.total_bytes), size(kit.done_bytes)
    match kit.state:
        case "missing" if kit.total_bytes:
            return say("kit", "The part of Potluck that computes: {size}, fetched once.").format(size=total)
        case "missing":
            return say("kit", "The part of Potluck that computes, fetched once.")
        case "fetching" if kit.bytes_per_second:
            pace = megabits(int(kit.bytes_per_second))
            return say("kit", "{done} of {size} are here, {pace}.").format(done=done, size=total, pace=pace)
        case "fetching":
            return say("kit", "{done} of {size} are here.").format(done=done, size=total)
        case "paused":
            return say("kit", "Paused. {done} of {size} are here and stay.").format(done=done, size=total)
        case "unpacking":
            return say("kit", "It is being unpacked.")
        case "testing":
            return say("kit", "It is being tried on this computer.")
        case "ready":
            return say("kit", "Installed, with PyTorch {version}.").format(version=one_line(kit.version, 40))
        case "failed":
            return say("kit", "It could not be installed. What was fetched stays.")
        case _:
            return say("kit", "There is none that fits this computer.")


def card_note(kit: KitState) -> str:
    """Why it does not use the graphics card that is there."""
    card = one_line(kit.card, 60)
    match kit.passed_over:
        case "driver_old":
            text = say(
                "kit", "{card} is not used: its driver {have} is older than {needed}. Update it, then get the kit."
            )
            return text.format(card=card, have=kit.driver_version, needed=kit.driver_needed)
        case "driver_unreadable":
            return say("kit", "{card} is not used: its driver's version cannot be read.").format(card=card)
        case "no_kit_for_card":
            return say("kit", "{card} is not used: there is no kit for it.").format(card=card)
        case _:
            return ""
