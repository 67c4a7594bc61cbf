import os
import stat
from pathlib import Path

import pytest

from engine.core.paths import HOME_VARIABLE, MAX_SOCKET_PATH_BYTES, Paths, default_paths, hash_of


def test_the_variable_names_the_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "profile"))
    assert default_paths() == Paths(tmp_path / "profile")


def test_without_the_variable_it_is_the_systems_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HOME_VARIABLE)
    place = default_paths().data_dir
    assert place.is_absolute()
    assert place.name == "potluck"


def test_a_relative_profile_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(HOME_VARIABLE, "here")
    assert default_paths().data_dir == tmp_path / "here"


def test_all_files_lie_in_the_profile(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    files = [paths.store_file, paths.key_file, paths.endpoint_file, paths.lock_file, paths.log_dir]
    assert all(file.parent == tmp_path for file in files)
    assert len(set(files)) == len(files)


def test_folders_are_made_for_the_user_only(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "a" / "b")
    paths.ensure()
    paths.ensure()
    assert paths.log_dir.is_dir()
    if os.name == "posix":
        assert stat.S_IMODE(paths.data_dir.stat().st_mode) == 0o700


def test_a_socket_path_that_is_too_long_moves(tmp_path: Path) -> None:
    deep, other = Paths(Path("/" + "x" * 200)), Paths(Path("/" + "y" * 200))
    assert len(os.fsencode(deep.socket_file)) <= MAX_SOCKET_PATH_BYTES
    assert deep.socket_file == Paths(Path("/" + "x" * 200)).socket_file
    assert deep.socket_file != other.socket_file
    assert Paths(Path("/short")).socket_file == Path("/short/engine.sock")


def test_a_hash_is_the_same_in_every_process() -> None:
    assert hash_of(Path("/short")) == 0xACDE4B2353C83A72


def test_a_projects_folder(tmp_path: Path) -> None:
    assert Paths(tmp_path).project_dir("ab" * 32) == tmp_path / "projects" / ("ab" * 32)


@pytest.mark.parametrize("project_id", ["", "ab", "../" + "a" * 61, "AB" * 32, "g" * 64, "ab" * 33])
def test_a_projects_folder_is_never_elsewhere(tmp_path: Path, project_id: str) -> None:
    with pytest.raises(ValueError, match="64 hex digits"):
        Paths(tmp_path).project_dir(project_id)
