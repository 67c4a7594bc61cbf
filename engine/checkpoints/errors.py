"""What can go wrong with the shared state on disk and on the line."""

from pathlib import Path

from engine.core.errors import PeerError, UserError


class CheckpointError(UserError):
    """A checkpoint could not be written or its folder not be used; earlier ones are untouched."""

    def __init__(self, path: Path, reason: str, action: str) -> None:
        super().__init__(f"The training state could not be saved to {path}: {reason}.", action)
        self.path = path
        self.reason = reason


class BlobError(PeerError):
    """Bytes that should be a shared state are not, or not the expected one."""


class ChunkError(PeerError):
    """A donor sent what it was not asked for, or a chunk of a wrong length."""
