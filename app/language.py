"""The user's language: one function for every text of the window, and the loading of translations.

`pyside6-lupdate -tr-function-alias translate+=say` finds the texts; see resources/translations/README.md.
"""

from pathlib import Path
from typing import Final

from PySide6.QtCore import QCoreApplication, QLocale, QTranslator

TRANSLATIONS: Final = Path(__file__).resolve().parents[1] / "resources" / "translations"
ENGLISH: Final = "potluck_en.qm"
"""English needs a file too: it holds the plural forms of "%n ..."."""


def say(context: str, text: str, comment: str | None = None, n: int = -1) -> str:
    """`text` in the user's language; with `n`, in the form that goes with that number, which replaces "%n"."""
    return QCoreApplication.translate(context, text, comment, n)


def install_translations(app: QCoreApplication, locale: QLocale, folder: Path = TRANSLATIONS) -> list[QTranslator]:
    """English first, then the locale's own over it, where there is one. The caller keeps what is returned."""
    installed = []
    english = QTranslator(app)
    if english.load(str(folder / ENGLISH)):
        app.installTranslator(english)
        installed.append(english)
    if locale.language() not in (QLocale.Language.English, QLocale.Language.C):
        own = QTranslator(app)
        if own.load(locale, "potluck", "_", str(folder)):
            app.installTranslator(own)
            installed.append(own)
    return installed
