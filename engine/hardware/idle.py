"""For how long nobody has touched the keyboard or the mouse."""

import ctypes
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engine.hardware.answer import Answer, number
from engine.hardware.command import run_command

COMMAND_LIMIT_SECONDS: Final = 3.0
"""A busy computer needs a second to start a process; taking that for "no such sensor" would let training go on."""
START_LIMIT_SECONDS: Final = 1.0
REST_SECONDS: Final = 15.0
MAX_FAILURES: Final = 3

MAX_IDLE_SECONDS: Final = 10 * 365 * 86_400.0

_MUTTER: Final = (
    ("GNOME", "org.gnome.Mutter.IdleMonitor", "/org/gnome/Mutter/IdleMonitor/Core"),
    ("Cinnamon", "org.cinnamon.Muffin.IdleMonitor", "/org/cinnamon/Muffin/IdleMonitor/Core"),
)


@dataclass(frozen=True, slots=True)
class IdleSource:
    """One way to learn it. `read` gets `now` (seconds since the epoch) and gives seconds, or None if it cannot tell."""

    name: str
    read: Callable[[float], float | None]


class IdleReader:
    """Asks the sources in their order until one answers.

    A source that never answered, or failed MAX_FAILURES times in a row, rests for REST_SECONDS.
    """

    def __init__(
        self, sources: Sequence[IdleSource], why_none: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._sources = list(sources)
        self._why_none = why_none
        self._monotonic = monotonic
        self._failures: dict[str, int] = {source.name: MAX_FAILURES - 1 for source in sources}
        self._rests_until: dict[str, float] = {}

    def read(self, now: float) -> Answer[float]:
        """Seconds since the last touch, with the source; `now` is in seconds since the epoch.

        Takes at most START_LIMIT_SECONDS + COMMAND_LIMIT_SECONDS: sources that are not reached wait for the next time.
        """
        began = self._monotonic()
        for source in self._sources:
            clock = self._monotonic()
            if clock - began > START_LIMIT_SECONDS:
                break
            if clock < self._rests_until.get(source.name, clock):
                continue
            seconds = source.read(now)
            if seconds is not None and 0 <= seconds <= MAX_IDLE_SECONDS:
                self._failures[source.name] = 0
                return Answer(seconds, source.name)
            self._failures[source.name] += 1
            if self._failures[source.name] >= MAX_FAILURES:
                self._rests_until[source.name] = self._monotonic() + REST_SECONDS
        return Answer(None, self._why_none)


def reader_for_this_system() -> IdleReader:
    """The sources that may work in this session."""
    if sys.platform == "win32":
        user32, kernel32 = ctypes.windll.user32, ctypes.windll.kernel32
        windows = IdleSource("Windows", lambda now: windows_idle_seconds(user32, kernel32))
        return IdleReader([windows], "Windows does not tell in this session")
    elif sys.platform == "darwin":  # noqa: RET505 (only this form lets the type checker see all three systems)
        macos = IdleSource("macOS", lambda now: macos_idle_seconds(ctypes.CDLL))
        return IdleReader([macos], "macOS does not tell in this session")
    else:
        sources = linux_sources(os.environ)
        why_none = "this desktop does not tell" if sources else "nobody is logged in to a desktop here"
        return IdleReader(sources, why_none)


def linux_sources(environment: Mapping[str, str]) -> list[IdleSource]:
    """What the session's variables promise. Under Wayland X sees only its own windows' input, so it is not asked."""
    sources = []
    wayland = environment.get("XDG_SESSION_TYPE") == "wayland" or bool(environment.get("WAYLAND_DISPLAY"))
    if environment.get("DISPLAY") and not wayland:
        sources.append(IdleSource("X11 screen saver", lambda now: x11_idle_seconds()))
    bus = environment.get("DBUS_SESSION_BUS_ADDRESS") or _has_bus(environment.get("XDG_RUNTIME_DIR"))
    if bus and (wayland or environment.get("DISPLAY")):
        for name, service, path in _MUTTER:
            sources.append(IdleSource(name, _mutter_reader(service, path)))
    if session := environment.get("XDG_SESSION_ID"):
        sources.append(IdleSource("logind", lambda now: logind_idle_seconds(session, now)))
    return sources


def _has_bus(runtime_dir: str | None) -> bool:
    return runtime_dir is not None and (Path(runtime_dir) / "bus").exists()


def x11_idle_seconds() -> float | None:
    """Asks the X display in DISPLAY, in a process of its own: see x11_idle.py."""
    script = Path(__file__).with_name("x11_idle.py")
    text = run_command([sys.executable, "-I", "-S", str(script)], COMMAND_LIMIT_SECONDS)
    milliseconds = None if text is None else number(text, 0, MAX_IDLE_SECONDS * 1000)
    return None if milliseconds is None else milliseconds / 1000


def _mutter_reader(service: str, path: str) -> Callable[[float], float | None]:
    command = ["gdbus", "call", "--session", "--timeout", "1", "--dest", service, "--object-path", path]
    command += ["--method", f"{service}.GetIdletime"]
    return lambda now: seconds_in_gdbus(run_command(command, COMMAND_LIMIT_SECONDS) or "")


def seconds_in_gdbus(text: str) -> float | None:
    """From gdbus's rendering of a milliseconds reply: "(uint64 1234,)"."""
    found = re.fullmatch(r"\((?:uint64 )?(\d{1,15}),\)\s*", text)
    return int(found[1]) / 1000 if found else None


def logind_idle_seconds(session: str, now: float) -> float | None:
    """From systemd's session. Only "idle" is believed: many desktops leave the hint at "no" for ever."""
    command = ["loginctl", "show-session", session, "--property=IdleHint", "--property=IdleSinceHint"]
    return seconds_in_logind(run_command(command, COMMAND_LIMIT_SECONDS) or "", now)


def seconds_in_logind(text: str, now: float) -> float | None:
    """From loginctl's properties; `IdleSinceHint` is in microseconds since the epoch."""
    values = dict(line.partition("=")[::2] for line in text.splitlines())
    since = number(values.get("IdleSinceHint", ""), 1, (now + 1) * 1e6)
    if values.get("IdleHint") != "yes" or since is None:
        return None
    return max(0.0, now - since / 1e6)


class _LastInputInfo(ctypes.Structure):
    """LASTINPUTINFO of winuser.h."""

    _fields_ = (("cbSize", ctypes.c_uint32), ("dwTime", ctypes.c_uint32))


def windows_idle_seconds(user32: Any, kernel32: Any) -> float | None:
    """GetLastInputInfo of this session. Ticks are milliseconds since the start, 32 bits, and wrap after 49.7 days."""
    info = _LastInputInfo(ctypes.sizeof(_LastInputInfo), 0)
    if not user32.GetLastInputInfo(ctypes.byref(info)):
        return None
    ticks = (kernel32.GetTickCount() - info.dwTime) & 0xFFFFFFFF
    return 0.0 if ticks >= 1 << 31 else ticks / 1000  # the input's tick may lie a little ahead of the clock's


def macos_idle_seconds(load: Callable[[str], Any]) -> float | None:
    """CGEventSourceSecondsSinceLastEventType of this session, for any kind of input."""
    combined_session_state, any_input = 0, 0xFFFFFFFF
    try:
        services = load("/System/Library/Frameworks/ApplicationServices.framework/ApplicationServices")
        ask = services.CGEventSourceSecondsSinceLastEventType
    except (OSError, AttributeError):
        return None
    ask.restype = ctypes.c_double
    ask.argtypes = (ctypes.c_int32, ctypes.c_uint32)
    return float(ask(combined_session_state, any_input))
