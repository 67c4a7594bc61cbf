"""Tells on stderr when the window first stood on the screen, and when it first showed the engine's state.

For `make bench-overhead`, which starts the window with VARIABLE set and takes the time when a line comes.
"""

import sys
from typing import Final

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QWidget

from app.link.client import EngineLink, LinkState, LinkStatus

VARIABLE: Final = "POTLUCK_TIMING"
PAINTED: Final = "potluck timing: painted"
USABLE: Final = "potluck timing: usable"


class StartTeller(QObject):
    """Watches one window's first paint, and its first one after the snapshot was taken in. Lives as long as it."""

    def __init__(self, window: QWidget, link: EngineLink) -> None:
        super().__init__(window)
        self._window = window
        self._waiting = PAINTED
        self._connected = False
        self._link = link
        window.installEventFilter(self)
        link.status_changed.connect(self._on_status)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() is QEvent.Type.Paint and self._waiting and (self._waiting == PAINTED or self._connected):
            line, self._waiting = self._waiting, ""
            QTimer.singleShot(0, self, lambda: self._tell(line))  # when this paint is done
        return super().eventFilter(watched, event)

    def _on_status(self, status: LinkStatus) -> None:
        if status.state is LinkState.CONNECTED and not self._connected:
            self._connected = True
            self._window.update()

    def _tell(self, line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
        if line == PAINTED:
            self._waiting = USABLE
            self._window.update()
        else:
            self._window.removeEventFilter(self)
            self._link.status_changed.disconnect(self._on_status)
