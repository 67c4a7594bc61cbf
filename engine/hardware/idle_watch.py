"""Notices at once when somebody comes back to the computer."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from engine.hardware.answer import Answer

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.1
"""How often it looks while armed. All sources answer within a millisecond or so: no process is started for it."""

BLIND_POLL_SECONDS: Final = 2.0
"""How often it looks while no source can tell."""

SAME_INPUT_SECONDS: Final = 0.5
"""Two answers that put the last input less than this apart mean the same input."""


class ReturnDetector:
    """PURE. Tells from idle times whether there was input since it began."""

    def __init__(self) -> None:
        self._last_input_at: float | None = None

    def saw_input(self, idle_seconds: float, monotonic: float) -> bool:
        """True once the last input is a later one than at the first call."""
        input_at = monotonic - idle_seconds
        if self._last_input_at is None:
            self._last_input_at = input_at
        return input_at - self._last_input_at > SAME_INPUT_SECONDS


class IdleWatcher:
    """While armed, looks every POLL_SECONDS and calls `on_input` once when there is input; it is disarmed by that.

    `on_input` is called in the watcher's own thread and must return at once. Arming it again begins anew: input before
    that does not count. Disarmed, it costs nothing.
    """

    def __init__(
        self,
        read: Callable[[], Answer[float]],
        on_input: Callable[[], None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._on_input = on_input
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._detector: ReturnDetector | None = None
        self._closed = False
        self._thread: threading.Thread | None = None
        self._pause_seconds = 0.0

    @property
    def armed(self) -> bool:
        """True from `arm` to `disarm` or the first input."""
        return self._detector is not None

    def arm(self) -> None:
        """Watch for input from now on; nothing changes when it is armed already."""
        with self._changed:
            if self._closed or self._detector is not None:
                return
            self._detector = ReturnDetector()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="idle watcher", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def disarm(self) -> None:
        """Look no more. A call of `on_input` may still be under way."""
        with self._changed:
            self._detector = None
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread, and wait for it unless called from `on_input`. Safe to repeat."""
        with self._changed:
            self._closed, self._detector = True, None
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        watched: ReturnDetector | None = None
        while (watched := self._next(watched)) is not None:
            self._pause_seconds = self._look(watched)

    def _next(self, before: ReturnDetector | None) -> ReturnDetector | None:
        """The watch that is to be looked at now, after the pause between two looks of the same; None when closed."""
        with self._changed:
            if before is not None and before is self._detector:
                self._changed.wait_for(lambda: self._closed or self._detector is not before, self._pause_seconds)
            self._changed.wait_for(lambda: self._closed or self._detector is not None)
            return self._detector

    def _look(self, watched: ReturnDetector) -> float:
        """Seconds to wait before the next look."""
        try:
            idle = self._read()
        except Exception as error:  # noqa: BLE001 (Border: sensors fail in ways that no list covers)
            log.info("cannot watch for input: %s: %s", type(error).__name__, error)
            return BLIND_POLL_SECONDS
        if idle.value is None:
            return BLIND_POLL_SECONDS
        with self._changed:
            if watched is not self._detector:
                return 0.0
            if not watched.saw_input(idle.value, self._monotonic()):
                return POLL_SECONDS
            self._detector = None
        self._on_input()
        return 0.0
