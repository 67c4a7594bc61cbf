"""Windows: the power manager calls back before sleep and after it; the console tells of logout and shutdown.

PowerRegisterSuspendResumeNotification (powrprof.h, Windows 8) with DEVICE_NOTIFY_CALLBACK needs no window.
SetConsoleCtrlHandler is called for CTRL_CLOSE, CTRL_LOGOFF and CTRL_SHUTDOWN in a process that has no window.
"""

import ctypes
import logging
from collections.abc import Callable
from typing import Any, Final

from engine.runtime.power.news import Herald, PowerNews

log = logging.getLogger(__name__)

DEVICE_NOTIFY_CALLBACK: Final = 2
PBT_APMSUSPEND: Final = 0x0004
PBT_APMRESUMESUSPEND: Final = 0x0007
PBT_APMRESUMEAUTOMATIC: Final = 0x0012
CTRL_CLOSE_EVENT: Final = 2
CTRL_LOGOFF_EVENT: Final = 5
CTRL_SHUTDOWN_EVENT: Final = 6
ES_CONTINUOUS: Final = 0x8000_0000
ES_SYSTEM_REQUIRED: Final = 0x0000_0001

POWER: Final = {
    PBT_APMSUSPEND: PowerNews.SLEEP,
    PBT_APMRESUMESUSPEND: PowerNews.AWAKE,
    PBT_APMRESUMEAUTOMATIC: PowerNews.AWAKE,
}
CONSOLE: Final = {
    CTRL_CLOSE_EVENT: PowerNews.END,
    CTRL_LOGOFF_EVENT: PowerNews.END,
    CTRL_SHUTDOWN_EVENT: PowerNews.END,
}

_functype = getattr(ctypes, "WINFUNCTYPE", ctypes.CFUNCTYPE)  # the same on 64-bit Windows
PowerCallback = _functype(ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p)
ConsoleHandler = _functype(ctypes.c_int, ctypes.c_ulong)


class SubscribeParameters(ctypes.Structure):
    """DEVICE_NOTIFY_SUBSCRIBE_PARAMETERS."""

    _fields_ = (("callback", PowerCallback), ("context", ctypes.c_void_p))


class WindowsWatch:
    """Implements `PowerWatch`; the system brings the threads."""

    def __init__(self, herald: Herald, load: Callable[[str], Any]) -> None:
        """`load` opens a library by name, as `ctypes.WinDLL` does."""
        self._herald = herald
        self._load = load
        self._handle = ctypes.c_void_p()
        # Kept alive as long as the system may call them.
        self._on_power = PowerCallback(self._power)
        self._on_console = ConsoleHandler(self._console)
        self._parameters = SubscribeParameters(self._on_power, None)
        self._power_library: Any = None
        self._kernel: Any = None

    def start(self) -> None:
        try:
            self._kernel, self._power_library = self._load("kernel32"), self._load("powrprof")
            status = self._power_library.PowerRegisterSuspendResumeNotification(
                DEVICE_NOTIFY_CALLBACK, ctypes.byref(self._parameters), ctypes.byref(self._handle)
            )
            listens = self._kernel.SetConsoleCtrlHandler(self._on_console, 1)
        except (OSError, AttributeError) as error:
            log.info("Windows does not tell when this computer sleeps: %s", error)
            return
        if status or not listens:
            log.info("Windows does not tell when this computer sleeps or ends: %d, %d", status, listens)

    def close(self) -> None:
        self._herald.close()
        if self._handle.value and self._power_library is not None:
            self._power_library.PowerUnregisterSuspendResumeNotification(self._handle)
            self._handle = ctypes.c_void_p()
        if self._kernel is not None:
            self._kernel.SetConsoleCtrlHandler(self._on_console, 0)
            self._kernel = None

    def _power(self, _context: int | None, kind: int, _setting: int | None) -> int:
        if news := POWER.get(kind):
            self._herald.tell(news)
        return 0

    def _console(self, kind: int) -> int:
        """1: handled. The process is ended when this returns, or a few seconds later."""
        news = CONSOLE.get(kind)
        if news is None:
            return 0
        self._herald.tell(news)
        return 1
