"""macOS: IOKit's IORegisterForSystemPower tells of sleep and waits for IOAllowPowerChange; logout comes as SIGTERM.

https://developer.apple.com/library/archive/qa/qa1340/ : sleep waits up to 30 s for an answer.
"""

import ctypes
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from engine.runtime.power.news import Herald, PowerNews

log = logging.getLogger(__name__)

IOKIT: Final = "/System/Library/Frameworks/IOKit.framework/IOKit"
CORE_FOUNDATION: Final = "/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation"
CAN_SYSTEM_SLEEP: Final = 0xE000_0270
SYSTEM_WILL_SLEEP: Final = 0xE000_0280
SYSTEM_HAS_POWERED_ON: Final = 0xE000_0300
JOIN_SECONDS: Final = 2.0

InterestCallback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)


class MacWatch:
    """Implements `PowerWatch` in a thread with a run loop of its own."""

    def __init__(self, herald: Herald, load: Callable[[str], Any]) -> None:
        """`load` opens a library by path, as `ctypes.CDLL` does."""
        self._herald = herald
        self._load = load
        self._callback = InterestCallback(self._on_interest)  # kept alive as long as IOKit may call it
        self._thread = threading.Thread(target=self._run, name="power", daemon=True)
        self._iokit: Any = None
        self._foundation: Any = None
        self._root_port = 0
        self._run_loop: int | None = None

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._herald.close()
        if self._run_loop is not None:
            self._foundation.CFRunLoopStop(ctypes.c_void_p(self._run_loop))
        if self._thread.ident is not None:
            self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        try:
            self._iokit, self._foundation = self._load(IOKIT), self._load(CORE_FOUNDATION)
            mode = ctypes.c_void_p.in_dll(self._foundation, "kCFRunLoopDefaultMode")
            self._declare()
        except (OSError, AttributeError, ValueError) as error:
            log.info("macOS does not tell when this computer sleeps: %s", error)
            return
        port, notifier = ctypes.c_void_p(), ctypes.c_uint32()
        self._root_port = self._iokit.IORegisterForSystemPower(
            None, ctypes.byref(port), self._callback, ctypes.byref(notifier)
        )
        if not self._root_port:
            log.info("macOS does not tell when this computer sleeps")
            return
        source = self._iokit.IONotificationPortGetRunLoopSource(port)
        self._run_loop = self._foundation.CFRunLoopGetCurrent()
        self._foundation.CFRunLoopAddSource(ctypes.c_void_p(self._run_loop), ctypes.c_void_p(source), mode)
        self._foundation.CFRunLoopRun()
        self._iokit.IODeregisterForSystemPower(ctypes.byref(notifier))

    def _declare(self) -> None:
        """Pointers are wider than ctypes' default result."""
        self._iokit.IORegisterForSystemPower.restype = ctypes.c_uint32
        self._iokit.IONotificationPortGetRunLoopSource.restype = ctypes.c_void_p
        self._iokit.IOAllowPowerChange.argtypes = (ctypes.c_uint32, ctypes.c_long)
        self._foundation.CFRunLoopGetCurrent.restype = ctypes.c_void_p

    def _on_interest(self, _refcon: int | None, _service: int, kind: int, argument: int | None) -> None:
        if kind == SYSTEM_WILL_SLEEP:
            self._herald.tell(PowerNews.SLEEP)
            self._iokit.IOAllowPowerChange(self._root_port, argument or 0)
        elif kind == CAN_SYSTEM_SLEEP:  # we never object to an idle sleep
            self._iokit.IOAllowPowerChange(self._root_port, argument or 0)
        elif kind == SYSTEM_HAS_POWERED_ON:
            self._herald.tell(PowerNews.AWAKE)
