import errno
import os
import stat
from pathlib import Path

import pytest

from engine.core.files import write_atomic


def test_writes_a_new_file_for_the_user_only(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", b"hello")
    assert (tmp_path / "a").read_bytes() == b"hello"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    if os.name == "posix":
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_replaces_an_old_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old and longer")
    write_atomic(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "a").write_bytes(b"old")
    monkeypatch.setattr(*((os, "fsync") if step == "fsync" else (Path, "replace")), full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "none" / "a", b"new")
