"""Whether a game, a film or a presentation fills the screen."""

import ctypes
from collections.abc import Callable
from typing import Any, Final

from engine.hardware.answer import Answer
from engine.hardware.host import Host
from engine.hardware.idle_linux import is_wayland
from engine.hardware.x11 import X11Session

_STATES: Final = {
    1: False,  # QUNS_NOT_PRESENT: locked, or a screen saver
    2: True,  # QUNS_BUSY: a full-screen program
    3: True,  # QUNS_RUNNING_D3D_FULL_SCREEN
    4: True,  # QUNS_PRESENTATION_MODE
    5: False,  # QUNS_ACCEPTS_NOTIFICATIONS
    6: False,  # QUNS_QUIET_TIME
}


def read_full_screen(host: Host, x11: X11Session | None) -> Answer[bool]:
    """Of the active window."""
    if host.is_windows:
        return windows_full_screen(host.load)
    if host.is_mac:
        return Answer(None, "macOS does not tell other programs")
    if is_wayland(host):
        return Answer(None, "Wayland does not tell other programs")
    if x11 is None:
        return Answer(None, "nobody is logged in to a desktop here")
    value = x11.full_screen()
    return Answer(value, "X11 window manager" if value is not None else "this window manager does not tell")


def windows_full_screen(load: Callable[[str], Any]) -> Answer[bool]:
    """SHQueryUserNotificationState (learn.microsoft.com, shellapi.h)."""
    state = ctypes.c_int()
    failed = load("shell32").SHQueryUserNotificationState(ctypes.byref(state))
    return Answer(None if failed else _STATES.get(state.value), "Windows notification state")
