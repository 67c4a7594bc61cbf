"""Whether the screen is locked."""

import ctypes
from collections.abc import Callable
from typing import Any, Final

from engine.hardware import logind
from engine.hardware.answer import Answer
from engine.hardware.host import Host

_SCREEN_SAVERS: Final = (
    ("GNOME screen saver", "org.gnome.ScreenSaver", "/org/gnome/ScreenSaver"),
    ("Cinnamon screen saver", "org.cinnamon.ScreenSaver", "/org/cinnamon/ScreenSaver"),
    ("MATE screen saver", "org.mate.ScreenSaver", "/org/mate/ScreenSaver"),
    ("Xfce screen saver", "org.xfce.ScreenSaver", "/org/xfce/ScreenSaver"),
    ("screen saver", "org.freedesktop.ScreenSaver", "/org/freedesktop/ScreenSaver"),
)


def read_session_lock(host: Host) -> Answer[bool]:
    """True when any source says so: logind's hint stays at "no" on desktops that do not keep it."""
    if host.is_windows:
        return windows_session_lock(host.load)
    if host.is_mac:
        return macos_session_lock(host.load)
    said: Answer[bool] | None = None
    hint = logind.session_property(host.system_bus, host.environment, "LockedHint")
    if isinstance(hint, bool):
        said = Answer(hint, "logind")
    for name, service, path in _SCREEN_SAVERS:
        if said is not None and said.value:
            break
        answer = host.session_bus.call(service, path, service, "GetActive")
        if len(answer) == 1 and isinstance(answer[0], bool) and (answer[0] or said is None):
            said = Answer(answer[0], name)
    return said or Answer(None, "this desktop does not tell")


class _SessionInfo(ctypes.Structure):
    """The beginning of WTSINFOEX with its only level (wtsapi32.h); what follows the flags is not needed."""

    _fields_ = (
        ("Level", ctypes.c_uint32),
        ("_padding", ctypes.c_uint32),  # the union that follows is aligned to 8 bytes
        ("SessionId", ctypes.c_uint32),
        ("SessionState", ctypes.c_uint32),
        ("SessionFlags", ctypes.c_uint32),
    )


SESSION_INFO_EX: Final = 25  # WTSSessionInfoEx
CURRENT_SESSION: Final = 0xFFFFFFFF
LOCKED, UNLOCKED = 0, 1  # WTS_SESSIONSTATE_LOCK and _UNLOCK, as from Windows 8


def windows_session_lock(load: Callable[[str], Any]) -> Answer[bool]:
    """WTSQuerySessionInformation (learn.microsoft.com, wtsapi32.h)."""
    source = "Windows session"
    terminal = load("wtsapi32")
    terminal.WTSQuerySessionInformationW.argtypes = (
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_uint32),
    )
    terminal.WTSFreeMemory.argtypes = (ctypes.c_void_p,)
    buffer, size = ctypes.c_void_p(), ctypes.c_uint32()
    if not terminal.WTSQuerySessionInformationW(
        None, CURRENT_SESSION, SESSION_INFO_EX, ctypes.byref(buffer), ctypes.byref(size)
    ):
        return Answer(None, "Windows does not tell in this session")
    try:
        if size.value < ctypes.sizeof(_SessionInfo) or not buffer.value:
            return Answer(None, "Windows does not tell in this session")
        info = _SessionInfo.from_address(buffer.value)
        flags = info.SessionFlags if info.Level == 1 else None
    finally:
        terminal.WTSFreeMemory(buffer)
    return Answer({LOCKED: True, UNLOCKED: False}.get(flags) if flags is not None else None, source)


APPLICATION_SERVICES: Final = "/System/Library/Frameworks/ApplicationServices.framework/ApplicationServices"
CORE_FOUNDATION: Final = "/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation"
UTF8: Final = 0x08000100


def macos_session_lock(load: Callable[[str], Any]) -> Answer[bool]:
    """CGSessionCopyCurrentDictionary; the key is there only while the screen is locked."""
    source = "macOS session"
    try:
        services, foundation = load(APPLICATION_SERVICES), load(CORE_FOUNDATION)
        copy = services.CGSessionCopyCurrentDictionary
        pointer = ctypes.c_void_p
        copy.restype = pointer
        foundation.CFStringCreateWithCString.restype = pointer
        foundation.CFStringCreateWithCString.argtypes = (pointer, ctypes.c_char_p, ctypes.c_uint32)
        foundation.CFDictionaryContainsKey.restype = ctypes.c_bool
        foundation.CFDictionaryContainsKey.argtypes = (pointer, pointer)
        foundation.CFRelease.argtypes = (pointer,)
    except (OSError, AttributeError):
        return Answer(None, "macOS does not tell")
    session = copy()
    if not session:
        return Answer(None, "nobody is logged in to a desktop here")
    key = foundation.CFStringCreateWithCString(None, b"CGSSessionScreenIsLocked", UTF8)
    locked = bool(foundation.CFDictionaryContainsKey(session, key))
    foundation.CFRelease(key)
    foundation.CFRelease(session)
    return Answer(locked, source)
