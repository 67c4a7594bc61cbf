"""What closing and quitting mean: training goes on without a window, and ends only when it is asked to."""

from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QDialog, QWidget

from app.context import Context
from app.language import say
from app.link import operations
from app.shell.main_window import MainWindow
from app.shell.tray import Tray
from app.widgets.buttons import push_button
from app.widgets.sheet import Sheet
from app.widgets.text import Text

NOTE_WIDTH: Final = 480
STOP_MILLISECONDS: Final = 10_000
"""How long the engine may take to end politely before the window goes anyway; it then ends by itself."""


class ClosingNote(Sheet):
    """Said once: closing the window leaves training on."""

    STOP: Final = 2

    def __init__(self, parent: QWidget, *, tray: bool) -> None:
        super().__init__(say("closing", "Training goes on without this window."), NOTE_WIDTH, parent)
        in_tray = say("closing", "Potluck stays in the tray: open, pause or stop it there. This is said only once.")
        no_tray = say("closing", "Open Potluck again to pause or stop it. This is said only once.")
        text = in_tray if tray else no_tray
        self.body.addWidget(Text(text, wrap=True))
        self.setAccessibleDescription(text)
        self.stop_button = push_button(say("closing", "Stop and quit"))
        self.stop_button.clicked.connect(lambda: self.done(self.STOP))
        self.close_button = push_button(say("closing", "Close window"), action=True)
        self.close_button.clicked.connect(self.accept)
        self.finish(self.stop_button, self.close_button)


class Closing(QObject):
    """Carries out closing and quitting.

    Signals:
        finished: the window's process may end.
    """

    finished = Signal()

    def __init__(
        self, context: Context, window: MainWindow, tray: Tray, *, quit_on_close: bool, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._window = window
        self._tray = tray
        self._quit_on_close = quit_on_close
        self.note: ClosingNote | None = None
        self.stopping = False
        self.ended = False
        window.close_wanted.connect(self.close)
        window.quit_wanted.connect(self.stop_and_quit)
        window.closed.connect(self._end)
        tray.quit_wanted.connect(self.stop_and_quit)

    def close(self) -> None:
        """Close the window; the first time with the note, when there is something that goes on."""
        state = self._context.mirror.state
        going_on = state is not None and state.session is not None and self._context.link.connected
        if going_on and not self._quit_on_close and not self._context.preferences.closing_note_shown:
            if self.note is None:
                self.note = ClosingNote(self._window, tray=self._tray.shown)
                self.note.finished.connect(self._answered)
            self.note.open()
            return
        self._leave()

    def _answered(self, result: int) -> None:
        self.note = None
        if result == ClosingNote.STOP:
            self.stop_and_quit()
        elif result == QDialog.DialogCode.Accepted:
            self._context.preferences.closing_note_shown = True
            self._leave()

    def _leave(self) -> None:
        self._window.remember_place()
        if self._tray.shown and not self._quit_on_close:
            self._window.hide()
        else:
            self._end()

    def end_now(self) -> None:
        """End the window's process without a question, as a polite kill asks; training goes on."""
        self._window.remember_place()
        self._end()

    def on_log_out(self, *_: object) -> None:
        """The desktop's session ends, and may close the window: nothing is asked that would hold it up."""
        self._window.remember_place()
        self._window.may_close = True

    def stop_and_quit(self) -> None:
        """Ask the engine to end politely, then end the window."""
        if self.stopping:
            return
        self.stopping = True
        self._window.remember_place()
        self._context.launcher.disable()
        if not self._context.link.connected:
            self._end()
            return
        self._window.hide()
        operation = operations.stop_engine(self._context.link)
        operation.succeeded.connect(self._end)
        operation.failed.connect(self._end)
        QTimer.singleShot(STOP_MILLISECONDS, self, self._end)

    def _end(self, *_: object) -> None:
        if self.ended:
            return
        self.ended = True
        self._window.may_close = True
        self._tray.hide()
        self._context.link.stop()
        self.finished.emit()
