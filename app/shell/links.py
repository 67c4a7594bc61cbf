"""`potluck://` links: checked here, shown to the user, followed by the engine only when they agree."""

from PySide6.QtCore import QObject, Signal

from app.context import Context
from app.link.client import LinkStatus
from app.shell.main_window import MainWindow
from app.widgets.join_sheet import LinkSheet
from app.words import refusal_sentence
from engine.contract.errors import ControlError
from engine.contract.links import parse_link


class LinkOpener(QObject):
    """Opens one link at a time, once the engine is there to follow it.

    Signals:
        opened: a link was good, and its sheet is shown.
    """

    opened = Signal()

    def __init__(self, context: Context, window: MainWindow, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._window = window
        self._waiting = ""
        self.sheet: LinkSheet | None = None
        context.link.status_changed.connect(self._on_status)

    def open(self, address: str) -> None:
        """Show the sheet for `address`, now or when the engine answers."""
        self._window.show_page("projects")
        if not self._context.link.connected:
            self._waiting = address
            return
        self._waiting = ""
        try:
            link = parse_link(address)
        except ControlError as error:
            self._window.header.error.show_text(refusal_sentence(error))
            return
        state = self._context.mirror.state
        cards = state.projects if state is not None else ()
        card = next((card for card in cards if card.project_id == link.project), None)
        if self.sheet is not None:
            self.sheet.reject()
        self._window.header.error.clear_text()
        self.sheet = LinkSheet(self._context, address, link, card, parent=self._window)
        self.sheet.open()
        self.opened.emit()

    def _on_status(self, _status: LinkStatus) -> None:
        if self._context.link.connected and self._waiting:
            self.open(self._waiting)
