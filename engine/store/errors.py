"""What may go wrong with the store once it is open."""

from pathlib import Path


class StoreError(Exception):
    """The database file cannot be used now. `detail` is the system's own word for it."""

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(f"{path}: {detail}")
        self.path = path
        self.detail = detail


class StoreReadError(StoreError):
    """Nothing could be read."""


class StoreWriteError(StoreError):
    """Not written yet: what was to be written is kept in memory, within bounds, and tried again with later writes."""
