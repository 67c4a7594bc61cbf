"""Where Linux desktops tell for how long nobody touched keyboard or mouse."""

from collections.abc import Callable
from typing import Final

from engine.hardware import logind
from engine.hardware.answer import number
from engine.hardware.host import AnyBus, Host
from engine.hardware.idle import IdleSource
from engine.hardware.line_child import LineChild, script_command
from engine.hardware.x11 import X11Session

WAYLAND_LIMIT_SECONDS: Final = 2.0
MAX_IDLE_MILLISECONDS: Final = 2.0**53

_MUTTER: Final = (
    ("GNOME", "org.gnome.Mutter.IdleMonitor", "/org/gnome/Mutter/IdleMonitor/Core"),
    ("Cinnamon", "org.cinnamon.Muffin.IdleMonitor", "/org/cinnamon/Muffin/IdleMonitor/Core"),
)


def is_wayland(host: Host) -> bool:
    """Under Wayland X sees only the input of its own windows."""
    return host.environment.get("XDG_SESSION_TYPE") == "wayland" or bool(host.environment.get("WAYLAND_DISPLAY"))


def linux_sources(host: Host, x11: X11Session | None) -> list[IdleSource]:
    """What the session promises, the most exact first. `x11` is None where X cannot tell."""
    sources = []
    if is_wayland(host) and host.environment.get("XDG_RUNTIME_DIR"):
        sources.append(_wayland(host))
    if x11 is not None:
        sources.append(IdleSource("X11 screen saver", lambda now: x11.idle_seconds(), close=x11.close))
    if host.session_bus.there and (is_wayland(host) or host.environment.get("DISPLAY")):
        for name, service, path in _MUTTER:
            sources.append(IdleSource(name, _mutter(host.session_bus, service, path)))
    if host.system_bus.there and (host.environment.get("XDG_SESSION_ID") or is_wayland(host) or x11 is not None):
        sources.append(IdleSource("logind", logind.IdleHint(host.system_bus, host.environment).seconds))
    return sources


def _wayland(host: Host) -> IdleSource:
    child = LineChild(script_command("wayland_idle.py"), environment=host.environment)

    def read(now: float) -> float | None:
        milliseconds = number(child.ask("idle", WAYLAND_LIMIT_SECONDS) or "", 0, MAX_IDLE_MILLISECONDS)
        return None if milliseconds is None else milliseconds / 1000

    return IdleSource("Wayland idle notifier", read, close=child.close)


def _mutter(bus: AnyBus, service: str, path: str) -> Callable[[float], float | None]:
    def read(now: float) -> float | None:
        answer = bus.call(service, path, service, "GetIdletime")
        milliseconds = answer[0] if len(answer) == 1 else None
        return milliseconds / 1000 if isinstance(milliseconds, int) else None

    return read
