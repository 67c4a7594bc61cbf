"""Brings resources/translations up to date: `python -m tests.helpers.translations`.

Finds every text of the window (`say(...)`) and every template of the contract's words, writes them to the .ts files
that exist, and compiles those. English holds plural forms only, since the texts themselves are English. lupdate's own
parser misses calls whose arguments are not plain names, so it is given a file with one plain call for each text.
"""

import ast
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.contract.link_words import all_link_templates
from engine.contract.words import all_templates

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "resources" / "translations"
ENGLISH = FOLDER / "potluck_en.ts"


@dataclass(frozen=True, slots=True)
class Found:
    """A text of the window."""

    context: str
    text: str
    plural: bool


def found_texts() -> list[Found]:
    """Every `say(...)` of the window, and every template of the engine's words.

    Raises:
        ValueError: a call whose context or text is not written out.
    """
    texts = [text for path in sorted((ROOT / "app").rglob("*.py")) for text in _texts_in(path)]
    texts += [Found("words", template, False) for template in (*all_templates(), *all_link_templates())]
    return list(dict.fromkeys(texts))


def _texts_in(path: Path) -> Iterator[Found]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "say"):
            continue
        written = [argument.value for argument in node.args[:2] if isinstance(argument, ast.Constant)]
        if len(written) == 2:
            yield Found(str(written[0]), str(written[1]), len(node.args) == 4)
        elif path.name != "words.py":
            raise ValueError(f"{path}:{node.lineno}: context and text of say() must be written out")


def _plain_call(found: Found) -> str:
    number = ", '', 2" if found.plural else ""
    return f"QCoreApplication.translate({found.context!r}, {found.text!r}{number})"


def main() -> int:
    """Update and compile."""
    programs = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "texts.py"
        calls = [_plain_call(found) for found in found_texts()]
        source.write_text("\n".join(calls) + "\n", encoding="utf-8")
        for ts in sorted(FOLDER.glob("potluck_*.ts")):
            plural = ["-pluralonly"] if ts == ENGLISH else []
            update = [str(programs / "pyside6-lupdate"), "-silent", "-no-obsolete", "-locations", "none", *plural]
            subprocess.run([*update, str(source), "-ts", str(ts)], check=True)
            compile_ = [str(programs / "pyside6-lrelease"), "-silent", str(ts), "-qm", str(ts.with_suffix(".qm"))]
            subprocess.run(compile_, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
