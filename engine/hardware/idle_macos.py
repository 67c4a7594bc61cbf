"""macOS: the event system's clock and the input devices' own; the shorter of the two.

CGEventSource fails before log-in and after fast user switching, IOHIDSystem does not see screen sharing.
"""

import ctypes
from collections.abc import Callable
from typing import Any, Final

APPLICATION_SERVICES: Final = "/System/Library/Frameworks/ApplicationServices.framework/ApplicationServices"
IOKIT: Final = "/System/Library/Frameworks/IOKit.framework/IOKit"
CORE_FOUNDATION: Final = "/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation"

COMBINED_SESSION_STATE: Final = 0
ANY_INPUT: Final = 0xFFFFFFFF
UTF8: Final = 0x08000100
SINT64: Final = 4


def macos_idle_seconds(load: Callable[[str], Any]) -> float | None:
    """None when neither can be read. `load` opens a framework."""
    known = [seconds for seconds in (_event_seconds(load), _device_seconds(load)) if seconds is not None]
    return min(known, default=None)


def _event_seconds(load: Callable[[str], Any]) -> float | None:
    """CGEventSourceSecondsSinceLastEventType of this session, for any kind of input."""
    try:
        ask = load(APPLICATION_SERVICES).CGEventSourceSecondsSinceLastEventType
    except (OSError, AttributeError):
        return None
    ask.restype, ask.argtypes = ctypes.c_double, (ctypes.c_int32, ctypes.c_uint32)
    seconds = float(ask(COMBINED_SESSION_STATE, ANY_INPUT))
    return seconds if seconds >= 0 else None


def _device_seconds(load: Callable[[str], Any]) -> float | None:
    """HIDIdleTime of IOHIDSystem, in nanoseconds."""
    try:
        iokit, foundation = load(IOKIT), load(CORE_FOUNDATION)
        _declare(iokit, foundation)
    except (OSError, AttributeError):
        return None
    service = iokit.IOServiceGetMatchingService(0, iokit.IOServiceMatching(b"IOHIDSystem"))
    if not service:
        return None
    key = foundation.CFStringCreateWithCString(None, b"HIDIdleTime", UTF8)
    value = iokit.IORegistryEntryCreateCFProperty(service, key, None, 0)
    foundation.CFRelease(key)
    iokit.IOObjectRelease(service)
    if not value:
        return None
    nanoseconds = ctypes.c_int64()
    read = foundation.CFNumberGetValue(value, SINT64, ctypes.byref(nanoseconds))
    foundation.CFRelease(value)
    return nanoseconds.value / 1e9 if read and nanoseconds.value >= 0 else None


def _declare(iokit: Any, foundation: Any) -> None:
    pointer, port = ctypes.c_void_p, ctypes.c_uint32
    iokit.IOServiceMatching.restype, iokit.IOServiceMatching.argtypes = pointer, (ctypes.c_char_p,)
    iokit.IOServiceGetMatchingService.restype = port
    iokit.IOServiceGetMatchingService.argtypes = (port, pointer)
    iokit.IORegistryEntryCreateCFProperty.restype = pointer
    iokit.IORegistryEntryCreateCFProperty.argtypes = (port, pointer, pointer, ctypes.c_uint32)
    iokit.IOObjectRelease.argtypes = (port,)
    foundation.CFStringCreateWithCString.restype = pointer
    foundation.CFStringCreateWithCString.argtypes = (pointer, ctypes.c_char_p, ctypes.c_uint32)
    foundation.CFRelease.argtypes = (pointer,)
    foundation.CFNumberGetValue.restype = ctypes.c_bool
    foundation.CFNumberGetValue.argtypes = (pointer, ctypes.c_long, pointer)
