"""Numbers as people read them, in the user's locale. `None` becomes "cannot read" only where the caller says so."""

import math
from typing import Final

from PySide6.QtCore import QDateTime, QLocale

from app.language import say

THIN_SPACE: Final = "\u202f"
DASH: Final = "–"  # noqa: RUF001 (an en dash is meant)
_STEPS: Final = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
SHORT_ID_CHARS: Final = 6


def set_default_locale() -> None:
    """The system's locale for numbers; where it is the bare "C" one, British English."""
    system = QLocale.system()
    if system.language() == QLocale.Language.C:
        system = QLocale(QLocale.Language.English, QLocale.Country.UnitedKingdom)
    QLocale.setDefault(system)


def whole(value: int) -> str:
    """1234567 → "1,234,567"."""
    return QLocale().toString(value)


def decimal(value: float, digits: int) -> str:
    """A number with so many digits after the point."""
    return QLocale().toString(float(value), "f", digits)


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits: 0.0123, 1.23, 12.3, 123, 1,234."""
    if value == 0 or not math.isfinite(value):
        return decimal(0, 0) if value == 0 else DASH
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return decimal(value, min(max(places, 0), 6))


def count(value: int) -> str:
    """1240000 → "1.24 million"; below a million the exact number."""
    for size, word in _STEPS:
        if abs(value) >= size:
            return f"{significant(value / size)} {_translated_step(word)}"
    return whole(value)


def _translated_step(word: str) -> str:
    words = {
        "trillion": say("format", "trillion"),
        "billion": say("format", "billion"),
        "million": say("format", "million"),
    }
    return words[word]


def size(value: int | None) -> str:
    """Bytes in decimal units: "96.2 MB", "486 MB"; a dash when unknown."""
    if value is None:
        return DASH
    precision = 1 if value >= 1000 and _leading(value) < 100 else 0
    return QLocale().formattedDataSize(value, precision, QLocale.DataSizeFormat.DataSizeSIFormat)


def _leading(value: int) -> float:
    """What stands before the unit: 486000000 → 486.0."""
    return value / float(1000 ** ((len(str(value)) - 1) // 3))


def of_total(used: int | None, total: int | None) -> str:
    """ "5.1 GB of 16.0 GB"."""
    if used is None or total is None:
        return cannot_read()
    return say("format", "{used} of {total}").format(used=size(used), total=size(total))


def percent(value: float) -> str:
    """47.3 → "47 %"."""
    return f"{decimal(value, 0)}{THIN_SPACE}%"


def rate(value: float | None, unit: str) -> str:
    """ "about 1,240 tokens/s": rates are estimates; a dash when unknown."""
    if value is None or not math.isfinite(value):
        return DASH
    return f"{significant(value)} {unit}"


def loss(value: float | None) -> str:
    """A loss with three digits; a dash when there is none."""
    return DASH if value is None or not math.isfinite(value) else decimal(value, 3)


def megabits(bytes_per_second: int) -> str:
    """A line's rate as lines are sold: "12.5 Mbit/s"."""
    return f"{significant(bytes_per_second * 8 / 1e6)} Mbit/s"


def celsius(value: float | None) -> str:
    """ "61 °C", or that it cannot be read."""
    return cannot_read() if value is None else f"{decimal(value, 0)} °C"


def duration(seconds: float) -> str:
    """A length of time in its largest unit: "42 s", "7 min", "3 h"."""
    if seconds < 1:
        return f"{decimal(seconds * 1000, 0)} ms"
    if seconds < 90:
        return f"{decimal(seconds, 0)} s"
    if seconds < 5400:
        return f"{decimal(seconds / 60, 0)} min"
    if seconds < 36 * 3600:
        return f"{decimal(seconds / 3600, 0)} h"
    return say("format", "%n days", None, round(seconds / 86400))


def clock(at: float, *, with_seconds: bool = False) -> str:
    """Local time of day of seconds since the epoch, with the date when that is another day."""
    moment = QDateTime.fromSecsSinceEpoch(int(at))
    pattern = "HH:mm:ss" if with_seconds else "HH:mm"
    text = moment.toString(pattern)
    if moment.date() != QDateTime.currentDateTime().date():
        return f"{QLocale().toString(moment.date(), QLocale.FormatType.ShortFormat)} {text}"
    return text


def short_id(peer_id: str) -> str:
    """The first characters of a peer id, enough to tell two computers of one name apart."""
    return peer_id[:SHORT_ID_CHARS]


def one_line(text: str, limit: int = 200) -> str:
    """Foreign text made fit for one line: printable, bounded."""
    kept = "".join(c for c in " ".join(text.split()) if c.isprintable())
    return kept if len(kept) <= limit else kept[: limit - 1] + "…"


def peer_name(name: str, peer_id: str) -> str:
    """A computer's chosen name, or that it has none, with the start of its id."""
    shown = one_line(name, 60)
    return shown or say("format", "Unnamed ({id})").format(id=short_id(peer_id))


def line_kind(path: str) -> str:
    """How another computer is reached, in words."""
    words = {
        "loopback": say("format", "this computer"),
        "lan": say("format", "same network"),
        "direct": say("format", "direct"),
        "relayed": say("format", "relayed"),
    }
    return words.get(path, DASH)


def cannot_read() -> str:
    """What stands where a reading would."""
    return say("format", "cannot read")
