from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import UserError
from engine.data.assignment import is_held_out
from engine.data.errors import DataUnavailable
from engine.data.python_stdlib import MAX_FILE_BYTES, load_text

LENGTH = 16


def make_library(root: Path, modules: int = 40) -> None:
    for number in range(modules):
        path = root / "package" / f"module_{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# module {number:03d}\n" * 30)


def test_the_two_parts_hold_every_module_once_and_share_none(tmp_path: Path) -> None:
    make_library(tmp_path)
    text = load_text(LENGTH, 30, tmp_path)
    training, held_out = text.training.tobytes().decode(), text.held_out.tobytes().decode()
    for number in range(40):
        line = f"# module {number:03d}\n"
        place, other = (held_out, training) if is_held_out(f"package/module_{number}.py", 30) else (training, held_out)
        assert place.count(line) == 30
        assert line not in other


def test_files_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    make_library(tmp_path)
    text = load_text(LENGTH, 30, tmp_path).training.tobytes().decode()
    first = list(dict.fromkeys(text.splitlines()))
    names = sorted(f"package/module_{number}.py" for number in range(40))
    expected = [f"# module {int(name[15:-3]):03d}" for name in names if not is_held_out(name, 30)]
    assert first == expected


@pytest.mark.parametrize("folder", ["site-packages", "test", "tests", "encodings", "idle_test"])
def test_other_peoples_code_tests_and_tables_are_left_out(tmp_path: Path, folder: str) -> None:
    make_library(tmp_path)
    before = load_text(LENGTH, 30, tmp_path).training.size
    outside = tmp_path / folder / "deep"
    outside.mkdir(parents=True)
    (outside / "extra.py").write_text("x = 1\n" * 500)
    assert load_text(LENGTH, 30, tmp_path).training.size == before


def test_large_and_foreign_files_are_left_out_and_line_ends_are_alike(tmp_path: Path) -> None:
    make_library(tmp_path)
    plain = load_text(LENGTH, 30, tmp_path)
    (tmp_path / "huge.py").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    (tmp_path / "data.bin").write_bytes(b"\0" * 1000)
    for path in (tmp_path / "package").iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    again = load_text(LENGTH, 30, tmp_path)
    assert np.array_equal(plain.training, again.training)
    assert np.array_equal(plain.held_out, again.held_out)


def test_a_dangling_link_is_skipped(tmp_path: Path) -> None:
    make_library(tmp_path)
    before = load_text(LENGTH, 30, tmp_path).training.size
    (tmp_path / "broken.py").symlink_to(tmp_path / "nowhere.py")
    assert load_text(LENGTH, 30, tmp_path).training.size == before


def test_a_missing_library_is_said_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(DataUnavailable, match="nothing-here") as caught:
        load_text(LENGTH, 30, tmp_path / "nothing-here")
    assert isinstance(caught.value, UserError)
    assert caught.value.action


def test_a_zipped_library_has_no_text(tmp_path: Path) -> None:
    (tmp_path / "python311.zip").write_bytes(b"PK")
    with pytest.raises(DataUnavailable, match="Too little Python source text"):
        load_text(LENGTH, 30, tmp_path)


def test_this_pythons_own_library_serves() -> None:
    text = load_text(128, 5)
    assert text.training.dtype == np.uint8
    assert text.training.size > 1_000_000
    assert text.held_out.size > 10_000
    assert b"import " in text.training[:100_000].tobytes()
