"""Newest-wins delay in front of busy views, after qutebrowser's misc/throttle.py."""

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer


class Throttle(QObject):
    """Calls `target` at once, then holds calls back for `delay_milliseconds` and makes only the newest of them."""

    def __init__(self, target: Callable[[], None], delay_milliseconds: int, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._target = target
        self._wanted = False
        self._timer = QTimer(self, interval=delay_milliseconds, singleShot=True)
        self._timer.timeout.connect(self._on_timeout)

    def __call__(self, *_ignored: object) -> None:
        """Ask for a call; arguments of a connected signal are ignored, since the target reads the newest state."""
        if self._timer.isActive():
            self._wanted = True
            return
        self._target()
        self._timer.start()

    def _on_timeout(self) -> None:
        if self._wanted:
            self._wanted = False
            self._target()
            self._timer.start()
