"""`potluck forget`: what it removes, and above all what it does not."""

import argparse
import io
import sys
from pathlib import Path

import pytest

from engine.contract import commands as c
from engine.core.clock import SystemClock
from engine.core.errors import UserError
from engine.core.paths import Paths
from engine.runtime.forget_command import remove_profile, run_forget
from engine.store.service import open_store
from tests.helpers.run_engine import an_engine

pytestmark = pytest.mark.integration

YES = argparse.Namespace(yes=True)


async def a_profile(folder: Path) -> Paths:
    """As an engine leaves it."""
    async with an_engine(folder) as engine:
        await engine.do(c.Pause())
    paths = Paths(folder)
    (paths.data_dir / "window.ini").write_text("[window]\n")
    (paths.data_dir / "identity.key").write_text("secret")
    (paths.data_dir / "logs" / "engine.log").write_text("")
    project = paths.project_dir("ab" * 32)
    project.mkdir(parents=True)
    (project / "state").write_bytes(b"x")
    (folder / "kit" / "files").mkdir(parents=True)
    (folder / "kit" / "kit.json").write_text("{}")
    return paths


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.runtime.forget_command.forget", lambda key_file: None)
    monkeypatch.setattr("engine.runtime.forget_command.asyncio.run", lambda work: work.close())  # none runs


async def test_everything_of_a_profile_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = await a_profile(tmp_path / "one")
    assert run_forget(paths, YES) == 0
    assert not (tmp_path / "one").exists()
    assert "Removed" in capsys.readouterr().out
    assert run_forget(paths, YES) == 0  # nothing there: nothing to do


async def test_what_is_not_ours_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = await a_profile(tmp_path / "one")
    own = {
        "letter.txt": "dear",
        "projects/thesis/chapter.txt": "one",
        "logs/diary.log": "today",
        "documents/kit.json": "{}",
    }
    for name, text in own.items():
        (paths.data_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (paths.data_dir / name).write_text(text)
    assert run_forget(paths, YES) == 0
    left = {
        path.relative_to(paths.data_dir).as_posix(): path.read_text()
        for path in paths.data_dir.rglob("*.*")
        if path.is_file()
    }
    assert left == own
    assert "letter.txt" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["projects", "logs", "kit", "hub.db", "identity.key", "engine.lock", "potluck.db"])
def test_a_folder_that_is_no_profile_is_not_touched(tmp_path: Path, name: str) -> None:
    """Also one with names like ours in it."""
    place = tmp_path / name
    if name in ("projects", "logs", "kit"):
        place.mkdir()
        place = place / "mine.txt"
    place.write_bytes(b"SQLite format 3\0" + bytes(84))
    with pytest.raises(UserError, match="not a folder of Potluck"):
        run_forget(Paths(tmp_path), YES)
    assert place.exists()


async def test_without_a_yes_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = await a_profile(tmp_path / "one")
    for answer in ("", "y\n", "no\n"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        assert run_forget(paths, argparse.Namespace(yes=False)) == 1
    assert paths.store_file.exists()
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))
    assert run_forget(paths, argparse.Namespace(yes=False)) == 0
    assert not paths.data_dir.exists()


async def test_what_cannot_be_removed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = await a_profile(tmp_path / "one")

    def refuse(tree: Path) -> None:
        raise PermissionError(13, "Permission denied", str(tree))

    monkeypatch.setattr("engine.runtime.forget_command.shutil.rmtree", refuse)
    with pytest.raises(UserError, match="cannot be removed: Permission denied"):
        remove_profile(paths.data_dir)
    assert paths.store_file.exists()


async def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept")
    paths = await a_profile(tmp_path / "one")
    inside = paths.project_dir("ab" * 32) / "link"
    inside.symlink_to(outside, target_is_directory=True)
    assert run_forget(paths, YES) == 0
    assert (outside / "kept.txt").read_text() == "kept"


async def test_the_mark_is_that_of_the_store(tmp_path: Path) -> None:
    opened = await open_store(tmp_path / "potluck.db", SystemClock().now())
    async with opened.store:
        pass
    assert (tmp_path / "potluck.db").read_bytes()[68:72] == b"PTLK"
