"""A program with one window on the X display in DISPLAY, for tests. "full" as its argument: the window asks to fill the
screen, as games do (Extended Window Manager Hints, _NET_WM_STATE). Prints a line once the window manager says that the
window is active, and full when it is to be; ends with its input.
"""

import ctypes
import os
import sys

from engine.hardware.x11_session import Display

PROPERTY_CHANGE_MASK = 1 << 22
REPLACE = 0
ATOM = 4


def main(full: bool) -> int:
    x11 = ctypes.CDLL("libX11.so.6")
    looking = Display(x11, ctypes.CDLL("libXss.so.1"), os.fsencode(os.environ["DISPLAY"]))
    display = ctypes.c_void_p(x11.XOpenDisplay(os.fsencode(os.environ["DISPLAY"])))
    x11.XCreateSimpleWindow.restype = ctypes.c_ulong
    root = ctypes.c_ulong(x11.XDefaultRootWindow(display))
    x11.XSelectInput(display, root, ctypes.c_long(PROPERTY_CHANGE_MASK))
    window = ctypes.c_ulong(x11.XCreateSimpleWindow(display, root, 10, 10, 100, 80, 0, 0, 0))
    x11.XSelectInput(display, window, ctypes.c_long(PROPERTY_CHANGE_MASK))
    if full:
        state = (ctypes.c_ulong * 1)(x11.XInternAtom(display, b"_NET_WM_STATE_FULLSCREEN", 0))
        name = ctypes.c_ulong(x11.XInternAtom(display, b"_NET_WM_STATE", 0))
        x11.XChangeProperty(display, window, name, ctypes.c_ulong(ATOM), 32, REPLACE, state, 1)
    x11.XSync(display, 0)  # from here on no change is missed
    event = (ctypes.c_long * 24)()
    x11.XMapWindow(display, window)
    while looking._longs(looking._root, b"_NET_ACTIVE_WINDOW") != [window.value] or looking.full_screen() != full:
        x11.XNextEvent(display, event)
    sys.stdout.write("active\n")
    sys.stdout.flush()
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main("full" in sys.argv[1:]))
