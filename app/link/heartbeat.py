"""Notices an engine that holds the link but says nothing: frozen, or the machine is too busy for it."""

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal

from app.link.operation import Failure, FailureKind, Operation

BEAT_MILLISECONDS: Final = 5_000
PATIENCE_MILLISECONDS: Final = 6_000


class Heartbeat(QObject):
    """Asks "are you there" while the link is live. Anything the engine says counts as an answer.

    Signals:
        fell_silent: a question passed its deadline and nothing at all was heard since it was asked.
    """

    fell_silent = Signal()

    def __init__(self, ask: Callable[[int], Operation], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.patience_milliseconds = PATIENCE_MILLISECONDS
        self._ask = ask
        self._heard = 0
        self._timer = QTimer(self)
        self._timer.timeout.connect(self.beat)

    def start(self) -> None:
        """The link is live."""
        self._timer.start(BEAT_MILLISECONDS)

    def stop(self) -> None:
        """There is no link."""
        self._timer.stop()

    def hear(self) -> None:
        """Something came."""
        self._heard += 1

    def beat(self) -> None:
        """Ask once."""
        heard = self._heard
        operation = self._ask(self.patience_milliseconds)
        operation.failed.connect(lambda failure: self._unanswered(failure, heard))

    def _unanswered(self, failure: Failure, heard: int) -> None:
        if failure.kind is FailureKind.TIMED_OUT and heard == self._heard:
            self.fell_silent.emit()
