"""One request under way, and how it ended."""

from dataclasses import dataclass
from enum import StrEnum

from PySide6.QtCore import QObject, Signal

from engine.contract.errors import ErrorBody


class FailureKind(StrEnum):
    """How a request can fail."""

    REFUSED = "refused"  # the engine said no; `error` says why
    NOT_CONNECTED = "not_connected"
    LOST = "lost"  # the link went away before the answer
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request did not succeed; `app.words` turns it into a sentence."""

    kind: FailureKind
    error: ErrorBody | None = None


class Operation(QObject):
    """A command on its way. Exactly one of the signals comes, once, after the event loop was entered again.

    Signals:
        succeeded: the engine's result (often None).
        failed: a `Failure`.
    """

    succeeded = Signal(object)
    failed = Signal(object)

    def __init__(self, method: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.method = method
        self.done = False

    def succeed(self, result: object) -> None:
        """End well; later endings are ignored."""
        if not self.done:
            self.done = True
            self.succeeded.emit(result)

    def fail(self, failure: Failure) -> None:
        """End badly; later endings are ignored."""
        if not self.done:
            self.done = True
            self.failed.emit(failure)
