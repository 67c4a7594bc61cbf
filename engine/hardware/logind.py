"""systemd's login manager: which session is ours, and what it knows of it (org.freedesktop.login1)."""

from collections.abc import Mapping
from typing import Any, Final

from engine.hardware.host import AnyBus

SERVICE: Final = "org.freedesktop.login1"
_ROOT: Final = "/org/freedesktop/login1"
_SESSION: Final = "org.freedesktop.login1.Session"


def session_path(bus: AnyBus, environment: Mapping[str, str]) -> str | None:
    """Of the session we run in, else of the desktop session of our user; None when there is neither."""
    if session_id := environment.get("XDG_SESSION_ID"):
        found = bus.call(SERVICE, _ROOT, "org.freedesktop.login1.Manager", "GetSession", "s", (session_id,))
        return found[0] if len(found) == 1 and isinstance(found[0], str) else None
    display = bus.get(SERVICE, f"{_ROOT}/user/self", "org.freedesktop.login1.User", "Display")
    if isinstance(display, tuple) and len(display) == 2 and isinstance(display[1], str) and display[0]:
        return display[1]
    return None


def session_property(bus: AnyBus, environment: Mapping[str, str], name: str) -> Any:
    """A property of our session; None when it cannot be read."""
    path = session_path(bus, environment)
    return None if path is None else bus.get(SERVICE, path, _SESSION, name)


class IdleHint:
    """The session's idle hint. Many desktops leave it at "no" for ever: "no" is believed only after a "yes"."""

    def __init__(self, bus: AnyBus, environment: Mapping[str, str]) -> None:
        self._bus, self._environment = bus, environment
        self._was_idle = False
        self._asked_at = float("-inf")
        self._answer: float | None = None

    def seconds(self, now: float) -> float | None:
        """None while it tells nothing. `now` is in seconds since the epoch; not asked twice within a second."""
        if not 0 <= now - self._asked_at < 1.0:
            self._asked_at, self._answer = now, self._ask(now)
        return self._answer

    def _ask(self, now: float) -> float | None:
        hint = session_property(self._bus, self._environment, "IdleHint")
        if hint is False and self._was_idle:
            return 0.0
        if hint is not True:
            return None
        since = session_property(self._bus, self._environment, "IdleSinceHint")
        if not isinstance(since, int) or not 0 < since <= (now + 1) * 1e6:
            return None
        self._was_idle = True
        return max(0.0, now - since / 1e6)
