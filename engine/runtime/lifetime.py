"""How a process of ours is asked to end: Ctrl-C, a signal, or the end of the process that started it."""

import asyncio
import contextlib
import os
import signal
import sys
import threading


def stop_event(*, with_parent: bool = False) -> asyncio.Event:
    """Set when the process should end in order. With `with_parent`, also when standard input closes: a parent that
    dies by any means closes it.

    To be called from within the running loop.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for name in ("SIGINT", "SIGTERM"):
        number = getattr(signal, name)
        try:
            loop.add_signal_handler(number, stop.set)
        except NotImplementedError:  # Windows: the loop cannot, the interpreter can
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    if with_parent:
        threading.Thread(target=_await_end_of_input, args=(loop, stop), daemon=True, name="parent watch").start()
    return stop


def _await_end_of_input(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    with contextlib.suppress(OSError, ValueError):
        while os.read(sys.stdin.fileno(), 4096):
            pass
    with contextlib.suppress(RuntimeError):  # the loop has ended already
        loop.call_soon_threadsafe(stop.set)
