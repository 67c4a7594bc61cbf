"""Small files in which Linux's kernel tells what it measures."""

from pathlib import Path

from engine.hardware.answer import number


def text_of(file: Path) -> str:
    """What the file says, without white space around it; "" when it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def number_of(file: Path, low: float, high: float) -> float | None:
    """The number in the file, from `low` to `high`; None when it cannot be read or says something else."""
    return number(text_of(file), low, high)


def entries_of(folder: Path) -> list[Path]:
    """What is in the folder, sorted; nothing when it is not there."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
