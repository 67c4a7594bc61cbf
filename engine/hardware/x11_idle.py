"""Prints for how many milliseconds nobody has touched the X display in DISPLAY. Run as a program of its own.

Xlib ends the whole process when a display goes away, and can wait for ever for a dead one: so it never runs inside the
engine. Imports nothing of Potluck, to start quickly.
"""

import ctypes
import ctypes.util
import os
import sys


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


def main() -> int:
    """0, and the time printed; else 1 (no library), 2 (no display) or 3 (the display does not tell)."""
    try:
        x11, screen_saver = ctypes.CDLL("libX11.so.6"), ctypes.CDLL("libXss.so.1")
    except OSError:
        return 1
    x11.XOpenDisplay.restype = ctypes.c_void_p
    x11.XDefaultRootWindow.argtypes = (ctypes.c_void_p,)
    x11.XDefaultRootWindow.restype = ctypes.c_ulong
    display = x11.XOpenDisplay(os.fsencode(os.environ.get("DISPLAY", "")))
    if not display:
        return 2
    pointer = ctypes.POINTER(ctypes.c_int)
    screen_saver.XScreenSaverQueryExtension.argtypes = (ctypes.c_void_p, pointer, pointer)
    screen_saver.XScreenSaverQueryInfo.argtypes = (ctypes.c_void_p, ctypes.c_ulong, ctypes.POINTER(ScreenSaverInfo))
    ignored = ctypes.c_int()
    if not screen_saver.XScreenSaverQueryExtension(display, ctypes.byref(ignored), ctypes.byref(ignored)):
        return 3
    info = ScreenSaverInfo()
    if not screen_saver.XScreenSaverQueryInfo(display, x11.XDefaultRootWindow(display), ctypes.byref(info)):
        return 3
    sys.stdout.write(f"{info.idle}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
