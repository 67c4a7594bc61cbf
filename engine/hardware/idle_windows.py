"""Windows: GetLastInputInfo of this session (learn.microsoft.com, winuser.h)."""

import ctypes
from typing import Any


class LastInputInfo(ctypes.Structure):
    """LASTINPUTINFO."""

    _fields_ = (("cbSize", ctypes.c_uint32), ("dwTime", ctypes.c_uint32))


def windows_idle_seconds(user32: Any, kernel32: Any) -> float | None:
    """Ticks are milliseconds since the start, 32 bits, and wrap after 49.7 days."""
    info = LastInputInfo(ctypes.sizeof(LastInputInfo), 0)
    if not user32.GetLastInputInfo(ctypes.byref(info)):
        return None
    ticks = (kernel32.GetTickCount() - info.dwTime) & 0xFFFFFFFF
    return 0.0 if ticks >= 1 << 31 else ticks / 1000  # the input's tick may lie a little ahead of the clock's
