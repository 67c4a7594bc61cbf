"""macOS: what NSProcessInfo says (developer.apple.com), through the Objective-C runtime."""

import ctypes
from collections.abc import Callable
from typing import Any, Final

FOUNDATION: Final = "/System/Library/Frameworks/Foundation.framework/Foundation"
OBJC: Final = "/usr/lib/libobjc.A.dylib"

THERMAL_STATES: Final = ("nominal", "fair", "serious", "critical")


def low_power_mode(load: Callable[[str], Any]) -> bool | None:
    """Since macOS 12; None before."""
    answer = _ask(load, b"isLowPowerModeEnabled", ctypes.c_bool)
    return None if answer is None else bool(answer)


def thermal_state(load: Callable[[str], Any]) -> str:
    """One of THERMAL_STATES, or "" when it cannot be read."""
    answer = _ask(load, b"thermalState", ctypes.c_long)
    return THERMAL_STATES[answer] if answer is not None and 0 <= answer < len(THERMAL_STATES) else ""


def _ask(load: Callable[[str], Any], selector: bytes, kind: Any) -> Any:
    pointer = ctypes.c_void_p
    try:
        load(FOUNDATION)
        runtime = load(OBJC)
        runtime.objc_getClass.restype, runtime.objc_getClass.argtypes = pointer, (ctypes.c_char_p,)
        runtime.sel_registerName.restype, runtime.sel_registerName.argtypes = pointer, (ctypes.c_char_p,)
        send_for_object, send_for_bool, send = (runtime["objc_msgSend"] for _ in range(3))  # one for each signature
    except (OSError, AttributeError):
        return None
    send_for_object.restype, send_for_object.argtypes = pointer, (pointer, pointer)
    send_for_bool.restype, send_for_bool.argtypes = ctypes.c_bool, (pointer, pointer, pointer)
    send.restype, send.argtypes = kind, (pointer, pointer)
    name = runtime.sel_registerName(selector)
    process = send_for_object(runtime.objc_getClass(b"NSProcessInfo"), runtime.sel_registerName(b"processInfo"))
    if not process or not send_for_bool(process, runtime.sel_registerName(b"respondsToSelector:"), name):
        return None
    return send(process, name)
