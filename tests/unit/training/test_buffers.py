import errno
import os
from pathlib import Path

import numpy as np
import pytest

from engine.training.buffers import SharedVectors


def test_what_one_end_writes_the_other_reads(tmp_path: Path) -> None:
    mine = SharedVectors.create(tmp_path / "buffers", 10)
    theirs = SharedVectors.open(mine.weights_path, mine.gradients_path, 10)
    mine.weights[:] = np.arange(10, dtype=np.float32)
    theirs.gradients[3] = 2.5
    assert theirs.weights.tolist() == list(range(10))
    assert mine.gradients[3] == 2.5
    assert mine.parameter_count == 10


def test_files_are_private_sized_and_zeroed_even_over_old_ones(tmp_path: Path) -> None:
    old = SharedVectors.create(tmp_path, 4)
    old.weights[:] = 7.0
    old.close()
    new = SharedVectors.create(tmp_path, 6)
    assert new.weights.tolist() == [0.0] * 6
    for path in (new.weights_path, new.gradients_path):
        assert path.stat().st_size == 24
        assert os.name != "posix" or path.stat().st_mode & 0o777 == 0o600


def test_another_size_is_refused(tmp_path: Path) -> None:
    made = SharedVectors.create(tmp_path, 4)
    with pytest.raises(ValueError, match="expected 20"):
        SharedVectors.open(made.weights_path, made.gradients_path, 5)


def test_remove_leaves_nothing_and_may_be_repeated(tmp_path: Path) -> None:
    made = SharedVectors.create(tmp_path, 4)
    made.remove()
    made.remove()
    assert list(tmp_path.iterdir()) == []
    assert made.parameter_count == 0


def test_a_full_disk_is_said_at_once_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match="No space left"):
        SharedVectors.create(tmp_path, 4)
    assert list(tmp_path.iterdir()) == []


def test_no_parameters_are_our_fault(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="positive"):
        SharedVectors.create(tmp_path, 0)
