"""Icons from SVG files, coloured at run time and sharp at every scale."""

from functools import lru_cache
from pathlib import Path
from typing import Final

from PySide6.QtCore import QByteArray, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QImage, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from engine.contract.reasons import RunState

ICONS: Final = Path(__file__).resolve().parents[2] / "resources" / "icons"
MARK_WHOLE: Final = "mark"
MARK_PAUSED: Final = "mark-paused"
MARK_WAITING: Final = "mark-waiting"
MARK_PROBLEM: Final = "mark-problem"
_PIXELS: Final = (16, 22, 24, 32, 48, 64, 128)


def mark_for(state: RunState | None) -> str:
    """The mark whose shape tells the state; None is an engine that does not answer."""
    if state in (RunState.TRAINING, RunState.AVERAGING, RunState.LEAVING):
        return MARK_WHOLE
    if state is RunState.PAUSED:
        return MARK_PAUSED
    if state is RunState.PROBLEM:
        return MARK_PROBLEM
    return MARK_WAITING


@lru_cache(maxsize=64)
def _source(name: str) -> bytes:
    return (ICONS / f"{name}.svg").read_bytes()


@lru_cache(maxsize=256)
def renderer(name: str, colour: str) -> QSvgRenderer:
    """The icon `name` in `colour` ("#RRGGBB")."""
    return QSvgRenderer(QByteArray(_source(name).replace(b"currentColor", colour.encode("ascii"))))


def paint(painter: QPainter, name: str, colour: str, area: QRectF) -> None:
    """Draw an icon into `area`."""
    renderer(name, colour).render(painter, area)


def pixmap(name: str, colour: str, size: int, ratio: float = 1.0) -> QPixmap:
    """An icon of `size` logical pixels for a screen of that device pixel ratio."""
    image = QImage(QSize(round(size * ratio), round(size * ratio)), QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    renderer(name, colour).render(painter, QRectF(0, 0, image.width(), image.height()))
    painter.end()
    result = QPixmap.fromImage(image)
    result.setDevicePixelRatio(ratio)
    return result


def icon(name: str, colour: str, disabled: str | None = None) -> QIcon:
    """An icon in the sizes that rails, buttons, trays and task bars ask for."""
    result = QIcon()
    for size in _PIXELS:
        result.addPixmap(pixmap(name, colour, size))
        if disabled is not None:
            result.addPixmap(pixmap(name, disabled, size), QIcon.Mode.Disabled)
    return result


def tray_icon(name: str, colour: str) -> QIcon:
    """The mark for a tray whose ground is not known: drawn in one colour with a rim of the opposite lightness."""
    rim = "#FFFFFF" if QColor(colour).lightnessF() < 0.5 else "#000000"
    result = QIcon()
    for size in _PIXELS:
        ground = QPixmap(size, size)
        ground.fill(Qt.GlobalColor.transparent)
        painter = QPainter(ground)
        painter.setOpacity(0.35)
        offset = size / 32
        for x, y in ((offset, 0), (-offset, 0), (0, offset), (0, -offset)):
            paint(painter, name, rim, QRectF(x, y, size, size))
        painter.setOpacity(1.0)
        paint(painter, name, colour, QRectF(0, 0, size, size))
        painter.end()
        result.addPixmap(ground)
    return result
