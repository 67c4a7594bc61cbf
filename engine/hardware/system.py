"""The operating system's name."""

import platform


def system_name() -> str:
    """As people call it, with the processor's kind: "Debian GNU/Linux 12 (bookworm), x86_64"."""
    return f"{_product()}, {platform.machine() or 'unknown processor'}"


def _product() -> str:
    system = platform.system()
    if system == "Darwin":
        return f"macOS {platform.mac_ver()[0]}".strip()
    if system == "Windows":
        return f"Windows {platform.release()} ({platform.version()})"
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{system} {platform.release()}".strip()
