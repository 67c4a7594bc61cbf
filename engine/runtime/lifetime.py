"""How a process of ours is asked to end: Ctrl-C, a signal, or the end of the process that started it."""

import asyncio
import contextlib
import os
import signal
import sys
import threading


class StopEvent(asyncio.Event):
    """Set when the process should end in order."""

    def __init__(self) -> None:
        super().__init__()
        self.urgent = asyncio.Event()
        """Set when it should end within a few seconds: whoever sends that signal will not wait for long."""

    def set_urgent(self) -> None:
        """Both at once."""
        self.urgent.set()
        self.set()


def stop_event(*, with_parent: bool = False) -> StopEvent:
    """Set on Ctrl-C, and on the signals that a logout or shutdown sends (urgent). With `with_parent`, also when
    standard input closes: a parent that dies by any means closes it.

    To be called from within the running loop.
    """
    loop = asyncio.get_running_loop()
    stop = StopEvent()
    for name, act in (("SIGINT", stop.set), ("SIGTERM", stop.set_urgent), ("SIGHUP", stop.set_urgent)):
        if (number := getattr(signal, name, None)) is None:  # Windows has no SIGHUP
            continue
        try:
            loop.add_signal_handler(number, act)
        except NotImplementedError:  # Windows: the loop cannot, the interpreter can
            signal.signal(number, lambda *_, act=act: loop.call_soon_threadsafe(act))
    if with_parent:
        threading.Thread(target=_await_end_of_input, args=(loop, stop), daemon=True, name="parent watch").start()
    return stop


def _await_end_of_input(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    with contextlib.suppress(OSError, ValueError):
        while os.read(sys.stdin.fileno(), 4096):
            pass
    with contextlib.suppress(RuntimeError):  # the loop has ended already
        loop.call_soon_threadsafe(stop.set)
