"""Whether one of the programs runs during which the user wants no training.

The names of programs that run stay here: only those that the user listed are told.
"""

from collections.abc import Iterable
from typing import Final

import psutil

_SUFFIX: Final = ".exe"


def running_of(names: Iterable[str], *, ours: frozenset[int] = frozenset()) -> tuple[str, ...]:
    """Those of `names` (of executables, whatever their case, with or without ".exe") that run. `ours` do not count."""
    wanted = {_plain(name): name for name in names if name.strip()}
    if not wanted:
        return ()
    found = {_plain(process.info["name"] or "") for process in psutil.process_iter(["name"]) if process.pid not in ours}
    return tuple(name for plain, name in wanted.items() if plain in found)


def _plain(name: str) -> str:
    return name.strip().casefold().removesuffix(_SUFFIX)
