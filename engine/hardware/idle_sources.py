"""Which ways this computer has to tell for how long nobody touched it."""

from engine.hardware.host import Host
from engine.hardware.idle import IdleReader, IdleSource
from engine.hardware.idle_linux import is_wayland, linux_sources
from engine.hardware.idle_macos import macos_idle_seconds
from engine.hardware.idle_windows import windows_idle_seconds
from engine.hardware.x11 import X11Session


def x11_of(host: Host) -> X11Session | None:
    """None where there is no X display, or one that sees only some of the windows."""
    if host.is_windows or host.is_mac or is_wayland(host) or not host.environment.get("DISPLAY"):
        return None
    return X11Session(host.environment)


def reader_for(host: Host, x11: X11Session | None) -> IdleReader:
    """The sources that may work in this session."""
    if host.is_windows:
        user32, kernel32 = host.load("user32"), host.load("kernel32")
        windows = IdleSource("Windows", lambda now: windows_idle_seconds(user32, kernel32))
        return IdleReader([windows], "Windows does not tell in this session")
    if host.is_mac:
        macos = IdleSource("macOS", lambda now: macos_idle_seconds(host.load))
        return IdleReader([macos], "macOS does not tell in this session")
    sources = linux_sources(host, x11)
    return IdleReader(sources, "this desktop does not tell" if sources else "nobody is logged in to a desktop here")
