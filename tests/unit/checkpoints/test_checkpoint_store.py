import errno
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoints.errors import CheckpointError
from engine.checkpoints.store import CheckpointStore
from tests.helpers.states import PROJECT, assert_same_state, make_state

COUNT = 50


def make_store(folder: Path) -> CheckpointStore:
    return CheckpointStore(folder, PROJECT, COUNT)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def name_of(step: int) -> str:
    return f"step-{step:012d}.safetensors"


def test_an_empty_folder_has_no_checkpoint(tmp_path: Path) -> None:
    assert make_store(tmp_path / "new" / "deep").load_newest() is None


def test_the_newest_is_loaded_bit_for_bit_and_two_are_kept(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for step in (2, 4, 6, 8):
        store.save(make_state(COUNT, step))
    assert names(tmp_path) == [name_of(6), name_of(8)]
    loaded = make_store(tmp_path).load_newest()
    assert loaded is not None
    assert_same_state(loaded, make_state(COUNT, 8))


def test_files_are_private(tmp_path: Path) -> None:
    path = make_store(tmp_path).save(make_state(COUNT))
    assert os.name != "posix" or path.stat().st_mode & 0o777 == 0o600


def test_saving_the_same_step_again_replaces_it(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.save(make_state(COUNT, 2, seed=1))
    store.save(make_state(COUNT, 2, seed=2))
    loaded = store.load_newest()
    assert loaded is not None
    assert_same_state(loaded, make_state(COUNT, 2, seed=2))


def test_a_branch_that_was_given_up_does_not_come_back(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.save(make_state(COUNT, 10))
    store.save(make_state(COUNT, 7))
    loaded = store.load_newest()
    assert loaded is not None
    assert loaded.global_step == 7


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "huge"])
def test_a_damaged_newest_is_set_aside_and_the_older_used(tmp_path: Path, damage: str, expect_log: Any) -> None:
    expect_log("engine.checkpoints.store", level=logging.WARNING)
    store = make_store(tmp_path)
    store.save(make_state(COUNT, 2))
    path = store.save(make_state(COUNT, 4))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    damaged = {"flip": data, "truncate": data[:-9], "empty": bytearray(), "huge": data + bytes(100_000)}
    path.write_bytes(damaged[damage])
    loaded = store.load_newest()
    assert loaded is not None
    assert loaded.global_step == 2
    assert [skipped.path for skipped in store.skipped] == [path]
    assert store.skipped[0].reason
    assert names(tmp_path) == [name_of(2), "step-000000000004.damaged"]


def test_nothing_usable_is_none_with_the_reasons(tmp_path: Path, expect_log: Any) -> None:
    expect_log("engine.checkpoints.store", level=logging.WARNING)
    CheckpointStore(tmp_path, bytes(32), COUNT).save(make_state(COUNT, 3, manifest_hash=bytes(32)))
    store = make_store(tmp_path)
    assert store.load_newest() is None
    assert "another project" in store.skipped[0].reason


def test_what_a_crash_left_half_written_is_removed_and_never_loaded(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    path = store.save(make_state(COUNT, 2))
    half = tmp_path / f".{name_of(4)}.0a1b2c3d.tmp"
    half.write_bytes(path.read_bytes()[:100])
    again = make_store(tmp_path)
    loaded = again.load_newest()
    assert loaded is not None
    assert loaded.global_step == 2
    assert names(tmp_path) == [name_of(2)]


def test_a_full_disk_leaves_the_old_ones_untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_store(tmp_path)
    store.save(make_state(COUNT, 2))
    store.save(make_state(COUNT, 4))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="the disk is full") as caught:
        store.save(make_state(COUNT, 6))
    assert caught.value.path.name == name_of(6)
    assert caught.value.action
    assert names(tmp_path) == [name_of(2), name_of(4)]
    loaded = store.load_newest()
    assert loaded is not None
    assert loaded.global_step == 4


def test_a_file_in_the_folders_place_is_said(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(CheckpointError, match="taken"):
        make_store(tmp_path / "taken")


def test_a_folder_that_vanished_is_said(tmp_path: Path) -> None:
    store = make_store(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(CheckpointError, match="gone"):
        store.save(make_state(COUNT))
    with pytest.raises(CheckpointError, match="gone"):
        store.load_newest()


def test_a_state_of_another_project_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="another project"):
        make_store(tmp_path).save(make_state(COUNT, manifest_hash=bytes(32)))
    with pytest.raises(ValueError, match="another project"):
        make_store(tmp_path).save(make_state(COUNT + 1))


def test_a_reader_beside_a_writer_changes_nothing(tmp_path: Path, expect_log: Any) -> None:
    expect_log("engine.checkpoints.store", level=logging.WARNING)
    store = make_store(tmp_path)
    store.save(make_state(COUNT, 2))
    store.save(make_state(COUNT, 4)).write_bytes(b"damaged")
    (tmp_path / f".{name_of(6)}.0a1b2c3d.tmp").write_bytes(b"being written")
    before = names(tmp_path)
    reader = CheckpointStore(tmp_path, PROJECT, COUNT, writer=False)
    loaded = reader.load_newest()
    assert loaded is not None
    assert loaded.global_step == 2
    assert names(tmp_path) == before
    with pytest.raises(ValueError, match="for reading"):
        reader.save(make_state(COUNT, 6))


def test_a_reader_of_a_missing_folder_finds_nothing_and_makes_nothing(tmp_path: Path) -> None:
    assert CheckpointStore(tmp_path / "none", PROJECT, COUNT, writer=False).load_newest() is None
    assert list(tmp_path.iterdir()) == []


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    store = make_store(tmp_path)
    for step in (1, 2, 3):
        store.save(make_state(COUNT, step))
    assert names(tmp_path) == ["notes.txt", name_of(2), name_of(3)]
