"""The window's own settings: where it was, which notes were shown. The engine's settings live in the engine."""

from pathlib import Path
from typing import Final

from PySide6.QtCore import QByteArray, QSettings

_GEOMETRY: Final = "window/geometry"
_CLOSING_NOTE: Final = "window/closing_note_shown"


class Preferences:
    """An ini file in the profile's folder; a missing or garbled one means defaults."""

    def __init__(self, path: Path) -> None:
        self._settings = QSettings(str(path), QSettings.Format.IniFormat)

    @property
    def geometry(self) -> QByteArray | None:
        """What `QWidget.saveGeometry` gave, or None."""
        value = self._settings.value(_GEOMETRY)
        return value if isinstance(value, QByteArray) and not value.isEmpty() else None

    @geometry.setter
    def geometry(self, value: QByteArray) -> None:
        self._settings.setValue(_GEOMETRY, value)

    @property
    def closing_note_shown(self) -> bool:
        """Whether the user was told that closing the window leaves training on."""
        return str(self._settings.value(_CLOSING_NOTE, "false")).lower() == "true"

    @closing_note_shown.setter
    def closing_note_shown(self, value: bool) -> None:
        self._settings.setValue(_CLOSING_NOTE, value)

    def save(self) -> None:
        """Write now."""
        self._settings.sync()
