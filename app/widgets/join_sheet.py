"""The sheet that says what joining means, before anything runs."""

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QHBoxLayout, QVBoxLayout, QWidget

from app.context import Context
from app.format import count, one_line, size
from app.language import say
from app.link import operations
from app.link.operation import Failure, Operation
from app.widgets.buttons import push_button
from app.widgets.icon_label import IconLabel
from app.widgets.text import Text
from app.words import failure_sentence
from engine.contract.links import JoinLink
from engine.contract.snapshot import ProjectCard

SHEET_WIDTH = 520


class Sheet(QDialog):
    """A heading, points, an error line, Cancel and one action that asks the engine and closes on success."""

    def __init__(
        self, context: Context, title: str, points: list[str], verb: str, act: Callable[[], Operation], parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._act = act
        self.setWindowTitle(title)
        self.setWindowModality(Qt.WindowModality.WindowModal)
        self.setFixedWidth(SHEET_WIDTH)
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 24, 24, 24)
        column.setSpacing(12)
        column.addWidget(Text(title, "heading", wrap=True))
        for point in points:
            row = QHBoxLayout()
            row.setSpacing(10)
            row.addWidget(IconLabel(context.theme, "check", "learning", 18), 0, Qt.AlignmentFlag.AlignTop)
            row.addWidget(Text(point, wrap=True), 1)
            column.addLayout(row)
        self.error = Text(role="error", wrap=True)
        self.error.hide()
        column.addWidget(self.error)
        column.addSpacing(4)
        self.cancel_button = push_button(say("sheet", "Cancel"))
        self.cancel_button.clicked.connect(self.reject)
        self.act_button = push_button(verb, action=True)
        self.act_button.setDefault(True)
        self.act_button.clicked.connect(self._go)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(self.cancel_button)
        row.addWidget(self.act_button)
        column.addLayout(row)
        self.setAccessibleName(title)
        self.setAccessibleDescription(" ".join(points))

    def _go(self) -> None:
        self.act_button.setEnabled(False)
        self.error.show_text("")
        operation = self._act()
        operation.succeeded.connect(lambda _result: self.accept())
        operation.failed.connect(self._failed)

    def _failed(self, failure: Failure) -> None:
        self.act_button.setEnabled(True)
        self.error.show_text(failure_sentence(failure))
        self.adjustSize()


def meaning(card: ProjectCard, replaced: str) -> list[str]:
    """What joining this project does to this computer, one fact a point."""
    download = say("join", "Downloads {size} once, then exchanges model updates with other computers.")
    nothing = say("join", "Nothing to download before the start; then model updates are exchanged.")
    points = [
        say("join", "Trains a model of {count} parameters. It needs about {memory} of memory.").format(
            count=count(card.parameter_count), memory=size(card.memory_needed_bytes)
        ),
        download.format(size=size(card.download_bytes)) if card.download_bytes else nothing,
        say("join", "Other computers in the project see this computer's network address."),
        say("join", "Trains within your limits in Settings. You can pause or leave at any time."),
        say("join", "The shared model has the licence {licence}.").format(licence=one_line(card.licence, 60)),
    ]
    if replaced:
        points.append(say("join", "You leave {title}; your verified work there stays.").format(title=replaced))
    return points


class JoinSheet(Sheet):
    """Asks before joining a project of the catalogue."""

    def __init__(self, context: Context, card: ProjectCard, *, replaced: str, parent: QWidget) -> None:
        title = say("join", "Join {title}?").format(title=one_line(card.title, 120))
        verb = say("join", "Join")
        points = meaning(card, one_line(replaced, 120) if replaced != card.title else "")
        super().__init__(context, title, points, verb, lambda: operations.join(context.link, card.project_id), parent)


class LinkSheet(Sheet):
    """Asks before following a `potluck://` link: anyone may have written it."""

    def __init__(
        self, context: Context, address: str, link: JoinLink, card: ProjectCard | None, *, parent: QWidget
    ) -> None:
        points = [say("join", "The link names the hub {hub}.").format(hub=link.hub)]
        if card is not None:
            title = say("join", "Join {title}?").format(title=one_line(card.title, 120))
            points += meaning(card, "")
        else:
            title = say("join", "Join the project of this link?")
            points += [
                say("join", "Its project is {project}.").format(project=link.project[:16] + "…"),
                say("join", "Other computers in the project see this computer's network address."),
                say("join", "Trains within your limits in Settings. You can pause or leave at any time."),
            ]
        verb = say("join", "Join")
        super().__init__(context, title, points, verb, lambda: operations.open_link(context.link, address), parent)
