"""Listens for the system's announcements, whatever system this is."""

import ctypes
import os
import sys

from engine.runtime.power.news import Herald, PowerWatch


def watch_for_this_system(herald: Herald) -> PowerWatch:
    """Not started."""
    if sys.platform == "win32":
        from engine.runtime.power.windows import WindowsWatch

        return WindowsWatch(herald, ctypes.WinDLL)
    elif sys.platform == "darwin":  # noqa: RET505 (only this form lets the type checker see all three systems)
        from engine.runtime.power.mac import MacWatch

        return MacWatch(herald, ctypes.CDLL)
    else:
        from engine.hardware.bus import system_bus_address
        from engine.runtime.power.logind import LogindWatch

        return LogindWatch(system_bus_address(os.environ), herald)
