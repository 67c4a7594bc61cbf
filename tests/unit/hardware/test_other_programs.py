"""What other programs do: their load, and whether one of the user's exclusive ones runs; and what our folder takes."""

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from engine.hardware import apps, disk
from engine.hardware.apps import running_of
from engine.hardware.foreign_cpu import CHILDREN_SECONDS, ForeignCpu, children_of, process_seconds, whole_busy_seconds


class Computer:
    """Two cores; how long they worked, and how long each of our processes did."""

    def __init__(self) -> None:
        self.busy = 100.0
        self.own: dict[int, float] = {os.getpid(): 5.0}
        self.children: list[int] = []
        self.looked = 0
        self.foreign = ForeignCpu(
            busy_seconds=lambda: self.busy, own_seconds=self.own.get, children=self._children, cores=2
        )

    def _children(self, pid: int) -> list[int]:
        self.looked += 1
        return self.children


def test_foreign_is_the_whole_less_ours() -> None:
    computer = Computer()
    assert computer.foreign.read(10.0) is None
    computer.busy += 3.0
    computer.own[os.getpid()] += 0.5
    assert computer.foreign.read(12.0) == pytest.approx(100 * 2.5 / 4)


def test_the_worker_is_ours() -> None:
    computer = Computer()
    computer.own[77] = 40.0
    computer.foreign.owns([77])
    computer.foreign.read(10.0)
    computer.busy += 2.0
    computer.own[77] += 2.0
    assert computer.foreign.read(11.0) == 0.0


def test_a_child_that_nobody_announced_is_found() -> None:
    computer = Computer()
    computer.foreign.read(10.0)
    computer.children, computer.own[78] = [78], 1.0
    assert 78 not in computer.foreign.own_pids
    computer.foreign.read(10.0 + CHILDREN_SECONDS)
    assert 78 in computer.foreign.own_pids
    assert computer.looked == 2


def test_a_process_that_is_gone_counts_for_nothing() -> None:
    computer = Computer()
    computer.own[77] = 40.0
    computer.foreign.owns([77])
    computer.foreign.read(10.0)
    del computer.own[77]
    computer.busy += 1.0
    assert computer.foreign.read(11.0) == pytest.approx(50.0)


def test_never_less_than_nothing_nor_more_than_all() -> None:
    computer = Computer()
    computer.foreign.read(10.0)
    computer.own[os.getpid()] += 9.0
    assert computer.foreign.read(11.0) == 0.0
    computer.busy += 99.0
    assert computer.foreign.read(12.0) == 100.0


def test_too_short_a_time_tells_nothing() -> None:
    computer = Computer()
    computer.foreign.read(10.0)
    computer.busy += 2.0
    assert computer.foreign.read(10.05) is None
    assert computer.foreign.read(11.0) == pytest.approx(100.0)


def test_this_computers_counters() -> None:
    before = whole_busy_seconds()
    mine = process_seconds(os.getpid())
    assert mine is not None
    assert 0 <= before <= whole_busy_seconds()
    assert mine > 0


def test_a_process_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(pid: int) -> None:
        raise psutil.NoSuchProcess(pid)

    monkeypatch.setattr(psutil, "Process", gone)
    assert process_seconds(1) is None
    assert children_of(1) == []


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> None:
    running = [(10, "Game.exe"), (11, "obs"), (12, "python3"), (13, None), (14, "a program with a very long name")]
    listed = [SimpleNamespace(pid=pid, info={"name": name}) for pid, name in running]
    monkeypatch.setattr(apps.psutil, "process_iter", lambda attributes: listed)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("names", "found"),
    [
        ((), ()),
        (("", "  "), ()),
        (("game",), ("game",)),
        (("GAME.EXE", "obs.exe", "absent"), ("GAME.EXE", "obs.exe")),
        (("A program with a very long name",), ("A program with a very long name",)),
        (("gam", "ob"), ()),
    ],
)
def test_exclusive_programs(names: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert running_of(names) == found


@pytest.mark.usefixtures("processes")
def test_our_own_processes_are_not_exclusive_programs() -> None:
    assert running_of(["python3"]) == ("python3",)
    assert running_of(["python3"], ours=frozenset({12})) == ()


def test_programs_are_not_listed_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(attributes: list[str]) -> None:
        raise AssertionError("nobody asked")

    monkeypatch.setattr(apps.psutil, "process_iter", listed)
    assert running_of([]) == ()


def test_a_program_that_really_runs() -> None:
    name = psutil.Process().name()
    assert running_of([name]) == (name,)


def test_what_our_folder_takes(tmp_path: Path) -> None:
    assert disk.read_used_bytes(tmp_path / "not there yet") == 0
    empty = disk.read_used_bytes(tmp_path)
    assert empty == 0
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "b").write_bytes(b"x" * 50_000)
    used = disk.read_used_bytes(tmp_path)
    assert used is not None
    assert 150_000 <= used < 400_000


def test_links_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "elsewhere").write_bytes(b"x" * 1_000_000)
    (tmp_path / "data" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data" / "loop").symlink_to(tmp_path / "data")
    used = disk.read_used_bytes(tmp_path / "data")
    assert used is not None
    assert used < 100_000


def test_a_folder_with_too_much_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "MAX_ENTRIES", 3)
    for number in range(4):
        (tmp_path / str(number)).touch()
    assert disk.read_used_bytes(tmp_path) is None
