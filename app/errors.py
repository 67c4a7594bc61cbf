"""Faults of ours: logged in full, shown in a sentence. The only place that opens error dialogs."""

import logging
import sys
import threading
from types import TracebackType
from typing import Final

from PySide6.QtCore import QObject, Qt, QtMsgType, Signal, qInstallMessageHandler
from PySide6.QtWidgets import QMessageBox, QWidget

from app.language import say

log = logging.getLogger(__name__)

_LEVELS: Final = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}


class ErrorReporter(QObject):
    """Receives what nobody caught, from any thread, and tells the user once.

    Signals:
        caught: the exception's type name, on the thread that raised it.
    """

    caught = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.window: QWidget | None = None
        self.dialog: QMessageBox | None = None
        self._told = False
        self.caught.connect(self._tell, Qt.ConnectionType.QueuedConnection)

    def install(self) -> None:
        """Take over Python's hooks and Qt's messages."""
        sys.excepthook = self.on_exception
        threading.excepthook = lambda args: self.on_exception(
            args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback
        )
        qInstallMessageHandler(_on_qt_message)

    def on_exception(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        """Log it; Ctrl-C ends quietly."""
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, traceback)
            return
        log.critical("uncaught exception", exc_info=(kind, error, traceback))
        self.caught.emit(kind.__name__)

    def _tell(self, _kind: str) -> None:
        if self._told:
            return
        self._told = True
        self.dialog = QMessageBox(self.window)
        self.dialog.setIcon(QMessageBox.Icon.Warning)
        self.dialog.setTextFormat(Qt.TextFormat.PlainText)
        self.dialog.setText(say("errors", "Something went wrong in this window."))
        self.dialog.setInformativeText(
            say("errors", "Training is not affected. If the window looks wrong, close it and open it again.")
        )
        self.dialog.setStandardButtons(QMessageBox.StandardButton.Ok)
        self.dialog.open()


def tell_and_end(sentence: str, action: str) -> None:
    """A window that cannot begin says why; returns when the user has read it."""
    dialog = QMessageBox()
    dialog.setIcon(QMessageBox.Icon.Warning)
    dialog.setTextFormat(Qt.TextFormat.PlainText)
    dialog.setText(sentence)
    dialog.setInformativeText(action)
    dialog.exec()


def _on_qt_message(kind: QtMsgType, _context: object, message: str) -> None:
    logging.getLogger("qt").log(_LEVELS.get(kind, logging.WARNING), "%s", message)
