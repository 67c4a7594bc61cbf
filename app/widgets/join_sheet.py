"""The sheet that says what joining means, before anything runs."""

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.context import Context
from app.format import count, one_line, size
from app.language import say
from app.link import operations
from app.link.operation import Failure, Operation
from app.widgets.buttons import push_button
from app.widgets.icon_label import IconLabel
from app.widgets.sheet import Sheet
from app.widgets.text import Text
from app.words import failure_sentence
from engine.contract.links import JoinLink
from engine.contract.snapshot import ProjectCard

SHEET_WIDTH = 520


class AskingSheet(Sheet):
    """Points, an error line, Cancel, and one action that asks the engine and closes on success."""

    def __init__(
        self, context: Context, title: str, points: list[str], verb: str, act: Callable[[], Operation], parent: QWidget
    ) -> None:
        super().__init__(title, SHEET_WIDTH, parent)
        self._act = act
        self.setAccessibleDescription(" ".join(points))
        for point in points:
            row = QHBoxLayout()
            row.setSpacing(10)
            row.addWidget(IconLabel(context.theme, "check", "learning", 18), 0, Qt.AlignmentFlag.AlignTop)
            row.addWidget(Text(point, wrap=True), 1)
            self.body.addLayout(row)
        self.error = Text(role="error", wrap=True)
        self.error.hide()
        self.body.addWidget(self.error)
        self.cancel_button = push_button(say("sheet", "Cancel"))
        self.cancel_button.clicked.connect(self.reject)
        self.act_button = push_button(verb, action=True)
        self.act_button.clicked.connect(self._go)
        self.finish(self.cancel_button, self.act_button)

    def _go(self) -> None:
        self.act_button.setEnabled(False)
        self.error.show_text("")
        operation = self._act()
        operation.succeeded.connect(lambda _result: self.accept())
        operation.failed.connect(self._failed)

    def _failed(self, failure: Failure) -> None:
        self.act_button.setEnabled(True)
        self.error.show_text(failure_sentence(failure))
        self.fit()


def address_is_hidden(context: Context) -> bool:
    """Whether the user has a relay stand between this computer and others."""
    state = context.mirror.state
    return state is not None and state.settings.relay_only


def address_point(*, hidden: bool) -> str:
    """Who comes to see this computer's address."""
    if hidden:
        return say("join", "The hub and its relay see this computer's network address; other computers do not.")
    return say("join", "Other computers in the project see this computer's network address. Settings can hide it.")


def meaning(card: ProjectCard, replaced: str, *, hidden: bool) -> list[str]:
    """What joining this project does to this computer, one fact a point."""
    download = say("join", "Downloads {size} once, then exchanges model updates with other computers.")
    nothing = say("join", "Nothing to download before the start; then model updates are exchanged.")
    points = [
        say("join", "Trains a model of {count} parameters. It needs about {memory} of memory.").format(
            count=count(card.parameter_count), memory=size(card.memory_needed_bytes)
        ),
        download.format(size=size(card.download_bytes)) if card.download_bytes else nothing,
        address_point(hidden=hidden),
        say("join", "Your verified totals are public on the hub, and so is your name if you set one."),
        say("join", "Trains within your limits in Settings. You can pause or leave at any time."),
        say("join", "The shared model has the licence {licence}.").format(licence=one_line(card.licence, 60)),
    ]
    if replaced:
        points.append(say("join", "You leave {title}; your verified work there stays.").format(title=replaced))
    return points


class JoinSheet(AskingSheet):
    """Asks before joining a project of the catalogue."""

    def __init__(self, context: Context, card: ProjectCard, *, replaced: str, parent: QWidget) -> None:
        title = say("join", "Join {title}?").format(title=one_line(card.title, 120))
        verb = say("join", "Join")
        points = meaning(
            card, one_line(replaced, 120) if replaced != card.title else "", hidden=address_is_hidden(context)
        )
        super().__init__(context, title, points, verb, lambda: operations.join(context.link, card.project_id), parent)


class LinkSheet(AskingSheet):
    """Asks before following a `potluck://` link: anyone may have written it."""

    def __init__(
        self, context: Context, address: str, link: JoinLink, card: ProjectCard | None, *, parent: QWidget
    ) -> None:
        points = [say("join", "The link names the hub {hub}.").format(hub=link.hub)]
        if card is not None:
            title = say("join", "Join {title}?").format(title=one_line(card.title, 120))
            points += meaning(card, "", hidden=address_is_hidden(context))
        else:
            title = say("join", "Join the project of this link?")
            points += [
                say("join", "Its project is {project}.").format(project=link.project[:16] + "…"),
                address_point(hidden=address_is_hidden(context)),
                say("join", "Your verified totals are public on the hub, and so is your name if you set one."),
                say("join", "Trains within your limits in Settings. You can pause or leave at any time."),
            ]
        verb = say("join", "Join")
        super().__init__(context, title, points, verb, lambda: operations.open_link(context.link, address), parent)
