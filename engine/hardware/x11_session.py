"""Answers questions about the X display in DISPLAY, one line each. Run as a program of its own.

"idle": for how many milliseconds nobody has touched it. "full_screen": "yes", "no" or "unknown".

Xlib ends the whole process when a display goes away, and can wait for ever for a dead one: so it never runs inside the
engine. Imports nothing of Potluck, to start quickly.
"""

import ctypes
import os
import sys
from typing import Any

ANY_PROPERTY_TYPE = 0
MAX_ATOMS = 64


class ScreenSaverInfo(ctypes.Structure):
    """XScreenSaverInfo of X11/extensions/scrnsaver.h."""

    _fields_ = (
        ("window", ctypes.c_ulong),
        ("state", ctypes.c_int),
        ("kind", ctypes.c_int),
        ("til_or_since", ctypes.c_ulong),
        ("idle", ctypes.c_ulong),
        ("event_mask", ctypes.c_ulong),
    )


ErrorHandler = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


IGNORE_ERROR = ErrorHandler(lambda display, event: 0)
"""A window that was asked about may be gone by then; Xlib's own handler would end the process."""


class Display:
    """An open X display."""

    def __init__(self, x11: Any, screen_saver: Any, name: bytes) -> None:
        self._x11, self._screen_saver = x11, screen_saver
        _declare(x11, screen_saver)
        x11.XSetErrorHandler(IGNORE_ERROR)
        self._display = x11.XOpenDisplay(name)
        if not self._display:
            raise OSError("no such display")
        self._root = x11.XDefaultRootWindow(self._display)

    def idle_milliseconds(self) -> int | None:
        """None when the display has no screen saver extension."""
        ignored = ctypes.c_int()
        pointer = ctypes.byref(ignored)
        if not self._screen_saver.XScreenSaverQueryExtension(self._display, pointer, pointer):
            return None
        info = ScreenSaverInfo()
        if not self._screen_saver.XScreenSaverQueryInfo(self._display, self._root, ctypes.byref(info)):
            return None
        return int(info.idle)

    def full_screen(self) -> bool | None:
        """Whether the active window fills the screen (Extended Window Manager Hints); None without such a manager."""
        active = self._longs(self._root, b"_NET_ACTIVE_WINDOW")
        if active is None:
            return None
        if not active or not active[0]:
            return False
        states = self._longs(active[0], b"_NET_WM_STATE") or []
        return self._atom(b"_NET_WM_STATE_FULLSCREEN") in states

    def _atom(self, name: bytes) -> int:
        return int(self._x11.XInternAtom(self._display, name, 0))

    def _longs(self, window: int, name: bytes) -> list[int] | None:
        kind, form = ctypes.c_ulong(), ctypes.c_int()
        count, left = ctypes.c_ulong(), ctypes.c_ulong()
        data = ctypes.POINTER(ctypes.c_ulong)()
        failed = self._x11.XGetWindowProperty(
            self._display, window, self._atom(name), 0, MAX_ATOMS, 0, ANY_PROPERTY_TYPE,
            ctypes.byref(kind), ctypes.byref(form), ctypes.byref(count), ctypes.byref(left), ctypes.byref(data),
        )  # fmt: skip
        if failed or not ctypes.cast(data, ctypes.c_void_p).value:
            return None
        try:
            return [int(data[index]) for index in range(count.value)] if form.value == 32 else None
        finally:
            self._x11.XFree(data)


def _declare(x11: Any, screen_saver: Any) -> None:
    display, window, integer = ctypes.c_void_p, ctypes.c_ulong, ctypes.POINTER(ctypes.c_int)
    longs = ctypes.POINTER(ctypes.c_ulong)
    x11.XOpenDisplay.argtypes, x11.XOpenDisplay.restype = (ctypes.c_char_p,), display
    x11.XDefaultRootWindow.argtypes, x11.XDefaultRootWindow.restype = (display,), window
    x11.XInternAtom.argtypes, x11.XInternAtom.restype = (display, ctypes.c_char_p, ctypes.c_int), ctypes.c_ulong
    x11.XFree.argtypes = (ctypes.c_void_p,)
    x11.XGetWindowProperty.argtypes = (
        display, window, ctypes.c_ulong, ctypes.c_long, ctypes.c_long, ctypes.c_int, ctypes.c_ulong,
        longs, integer, longs, longs, ctypes.POINTER(longs),
    )  # fmt: skip
    screen_saver.XScreenSaverQueryExtension.argtypes = (display, integer, integer)
    screen_saver.XScreenSaverQueryInfo.argtypes = (display, window, ctypes.POINTER(ScreenSaverInfo))


def answer(display: Display, question: str) -> str:
    """One line for one line."""
    if question == "idle":
        milliseconds = display.idle_milliseconds()
        return "unknown" if milliseconds is None else str(milliseconds)
    if question == "full_screen":
        return {True: "yes", False: "no", None: "unknown"}[display.full_screen()]
    return "unknown"


def main() -> int:
    """Until standard input ends; 1 without the libraries or the display."""
    try:
        display = Display(
            ctypes.CDLL("libX11.so.6"), ctypes.CDLL("libXss.so.1"), os.fsencode(os.environ.get("DISPLAY", ""))
        )
    except OSError:
        return 1
    for line in sys.stdin:
        sys.stdout.write(answer(display, line.strip()) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
