"""The X display of this session, asked through a process of its own: see x11_session.py."""

from collections.abc import Mapping
from typing import Final

from engine.hardware.answer import number
from engine.hardware.line_child import LineChild, script_command

ASK_LIMIT_SECONDS: Final = 2.0
MAX_IDLE_MILLISECONDS: Final = 2.0**53


class X11Session:
    """Safe in any thread."""

    def __init__(self, environment: Mapping[str, str], limit_seconds: float = ASK_LIMIT_SECONDS) -> None:
        self._child = LineChild(script_command("x11_session.py"), environment=environment)
        self._limit_seconds = limit_seconds

    def idle_seconds(self) -> float | None:
        """None when the display does not tell."""
        milliseconds = number(self._child.ask("idle", self._limit_seconds) or "", 0, MAX_IDLE_MILLISECONDS)
        return None if milliseconds is None else milliseconds / 1000

    def full_screen(self) -> bool | None:
        """Whether the active window fills the screen; None when no window manager tells."""
        return {"yes": True, "no": False}.get(self._child.ask("full_screen", self._limit_seconds) or "")

    def close(self) -> None:
        """Safe to repeat."""
        self._child.close()
