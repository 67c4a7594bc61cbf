"""Colours, type and the stylesheet of the window; follows the system's light or dark live."""

from pathlib import Path
from string import Template
from typing import Final

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from app.desktop.roles import DARK, LIGHT, Roles

STYLESHEET: Final = Path(__file__).resolve().parents[2] / "resources" / "themes" / "window.css"
BASE_FONT_PIXELS: Final = 14
SMALLEST_SCALE: Final = 1.0
LARGEST_SCALE: Final = 2.0
_REFERENCE_POINTS: Final = 9.0
"""The size that desktops give their interface font by default; larger ones enlarge all text in proportion."""
_DOTS_PER_INCH: Final = 96.0


class Theme(QObject):
    """The look of the moment.

    Signals:
        changed: roles differ; repaint what is painted by hand.
    """

    changed = Signal()

    def __init__(self, app: QApplication, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._app = app
        self._template = Template(STYLESHEET.read_text(encoding="utf-8"))
        self._system_font = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
        self._scale = _text_scale(self._system_font)
        self._forced: Qt.ColorScheme | None = None
        self._roles = LIGHT
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._follow)

    @property
    def roles(self) -> Roles:
        """The scheme in force."""
        return self._roles

    @property
    def dark(self) -> bool:
        """Whether it is the dark one."""
        return self._roles is DARK

    def pixels(self, size: int) -> int:
        """A type size of the design, after the user's own text size."""
        return round(size * self._scale)

    def font(self, size: int = BASE_FONT_PIXELS, *, bold: bool = False, mono: bool = False) -> QFont:
        """A font of the design with figures of equal width."""
        font = QFont(self._system_font)
        if mono:
            font.setFamilies(["ui-monospace", "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", "monospace"])
            font.setStyleHint(QFont.StyleHint.Monospace)
        font.setPixelSize(self.pixels(size))
        font.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
        font.setFeature(QFont.Tag("tnum"), 1)
        return font

    def apply(self) -> None:
        """Put the present scheme on the application; called once at the start."""
        self._app.setStyle("Fusion")
        self._app.setFont(self.font())
        self._put()

    def force(self, scheme: Qt.ColorScheme | None) -> None:
        """Light or dark whatever the system says; None follows it again."""
        self._forced = scheme
        self._put()

    def _follow(self, _scheme: Qt.ColorScheme) -> None:
        if self._forced is None:
            self._put()

    def _put(self) -> None:
        scheme = self._forced or QGuiApplication.styleHints().colorScheme()
        self._roles = DARK if scheme == Qt.ColorScheme.Dark else LIGHT
        self._app.setPalette(_palette(self._roles))
        sizes = {f"px{size}": str(self.pixels(size)) for size in (12, 13, 14, 16, 18, 28)}
        colours = {name: getattr(self._roles, name) for name in self._roles.__slots__}
        self._app.setStyleSheet(self._template.substitute(colours, **sizes))
        self.changed.emit()


def _text_scale(font: QFont) -> float:
    points = font.pointSizeF()
    if points <= 0:
        points = font.pixelSize() * 72 / _DOTS_PER_INCH
    return min(max(points / _REFERENCE_POINTS, SMALLEST_SCALE), LARGEST_SCALE)


def _palette(roles: Roles) -> QPalette:
    palette = QPalette()
    role = QPalette.ColorRole
    for name, colour in (
        (role.Window, roles.background),
        (role.WindowText, roles.text),
        (role.Base, roles.surface),
        (role.AlternateBase, roles.raised),
        (role.Text, roles.text),
        (role.Button, roles.surface),
        (role.ButtonText, roles.text),
        (role.BrightText, roles.problem),
        (role.ToolTipBase, roles.raised),
        (role.ToolTipText, roles.text),
        (role.PlaceholderText, roles.muted),
        (role.Highlight, roles.learning),
        (role.HighlightedText, roles.surface),
        (role.Link, roles.action),
        (role.LinkVisited, roles.action),
        (role.Accent, roles.action),
        (role.Mid, roles.outline),
        (role.Midlight, roles.hairline),
    ):
        palette.setColor(name, QColor(colour))
    for name in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, name, QColor(roles.outline))
    return palette
