"""The two float32 vectors that engine and worker share, as memory-mapped files. No torch here."""

import contextlib
import os
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float32]

WEIGHTS_NAME: Final = "weights.f32"
GRADIENTS_NAME: Final = "gradients.f32"
_FLOAT_BYTES: Final = 4


class SharedVectors:
    """`weights` (the engine writes, the worker reads) and `gradients` (the other way), float32 [parameter_count].

    Nobody locks: the engine writes weights, and reads gradients, only while the worker is frozen. The files are
    scratch: what must last is in a checkpoint.
    """

    def __init__(self, weights_path: Path, gradients_path: Path, weights: Vector, gradients: Vector) -> None:
        self.weights_path = weights_path
        self.gradients_path = gradients_path
        self.weights = weights
        self.gradients = gradients

    @classmethod
    def create(cls, folder: Path, parameter_count: int) -> "SharedVectors":
        """Make both files anew in `folder` (made if missing), private to the user, zeroed, their space reserved.

        Raises:
            OSError: the disk is full or the folder cannot be written; nothing is left behind.
            ValueError: `parameter_count` is not positive.
        """
        if parameter_count < 1:
            raise ValueError("parameter_count must be positive")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        paths = folder / WEIGHTS_NAME, folder / GRADIENTS_NAME
        try:
            for path in paths:
                _make_file(path, parameter_count * _FLOAT_BYTES)
        except OSError:
            _remove(paths)
            raise
        return cls.open(*paths, parameter_count)

    @classmethod
    def open(cls, weights_path: Path, gradients_path: Path, parameter_count: int) -> "SharedVectors":
        """Map files that `create` made.

        Raises:
            OSError: a file cannot be opened.
            ValueError: a file has another size than `parameter_count` floats.
        """
        return cls(
            weights_path,
            gradients_path,
            _map(weights_path, parameter_count),
            _map(gradients_path, parameter_count),
        )

    @property
    def parameter_count(self) -> int:
        """Elements of each vector."""
        return int(self.weights.shape[0])

    def close(self) -> None:
        """Let go of the mappings; the vectors are empty from here on, the files stay. Safe to repeat."""
        self.weights = self.gradients = np.empty(0, dtype=np.float32)

    def remove(self) -> None:
        """Close, and delete the files. Safe to repeat.

        A file that a worker still has open stays on Windows, until the next `create` in the folder.
        """
        self.close()
        _remove((self.weights_path, self.gradients_path))


def _make_file(path: Path, size_bytes: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.truncate(descriptor, size_bytes)
        if hasattr(os, "posix_fallocate"):
            # Without its space reserved, a full disk would show as SIGBUS at some later write through the mapping.
            os.posix_fallocate(descriptor, 0, size_bytes)
    finally:
        os.close(descriptor)


def _map(path: Path, parameter_count: int) -> Vector:
    size_bytes = path.stat().st_size
    if size_bytes != parameter_count * _FLOAT_BYTES:
        raise ValueError(f"{path} has {size_bytes} bytes, expected {parameter_count * _FLOAT_BYTES}")
    return np.memmap(path, dtype=np.float32, mode="r+", shape=(parameter_count,))


def _remove(paths: tuple[Path, ...]) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError, PermissionError):
            path.unlink()
