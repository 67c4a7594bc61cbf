from pathlib import Path

import pytest

from engine.training.cores import CoreUser, core_user, efficient_cores, parse_cpu_list


def cpus(folder: Path, name: str, values: dict[int, object]) -> Path:
    for core, value in values.items():
        file = folder / f"cpu{core}" / name
        file.parent.mkdir(parents=True)
        file.write_text(f"{value}\n")
    (folder / "cpufreq").mkdir(parents=True, exist_ok=True)
    return folder


def test_intels_own_list_comes_first(tmp_path: Path) -> None:
    (tmp_path / "atom").write_text("4-7,9\n")
    root = cpus(tmp_path / "cpu", "cpufreq/cpuinfo_max_freq", {0: 5_000_000, 1: 3_000_000})
    assert efficient_cores(root, tmp_path / "atom") == {4, 5, 6, 7, 9}


def test_arm_tells_capacities(tmp_path: Path) -> None:
    root = cpus(tmp_path, "cpu_capacity", {0: 446, 1: 446, 2: 1024, 3: 1024})
    assert efficient_cores(root, tmp_path / "none") == {0, 1}


def test_otherwise_top_frequencies(tmp_path: Path) -> None:
    frequencies = {0: 5_100_000, 1: 4_900_000, 2: 3_800_000, 10: 3_800_000}
    root = cpus(tmp_path, "cpufreq/cpuinfo_max_freq", dict(frequencies))
    assert efficient_cores(root, tmp_path / "none") == {2, 10}


@pytest.mark.parametrize("values", [{0: 4_000_000, 1: 4_000_000}, {0: 5_000_000, 1: 4_800_000}, {0: "x"}, {}])
def test_cores_that_are_alike_or_unknown_are_no_efficient_ones(tmp_path: Path, values: dict[int, object]) -> None:
    root = cpus(tmp_path, "cpufreq/cpuinfo_max_freq", values)
    assert efficient_cores(root, tmp_path / "none") == frozenset()


@pytest.mark.parametrize(("text", "cores"), [("0-3,8\n", {0, 1, 2, 3, 8}), ("7", {7}), ("1-1", {1})])
def test_the_kernels_lists(text: str, cores: set[int]) -> None:
    assert parse_cpu_list(text) == cores


@pytest.mark.parametrize("text", ["", "a-b", "3-", "-3", "5-2", "0-99999999", "1,,2"])
def test_anything_else_is_no_list(text: str) -> None:
    assert parse_cpu_list(text) == frozenset()


class Process:
    """A process of three threads on eight cores, of which 4 to 7 are efficient."""

    def __init__(self, folder: Path, *refused: int, efficient: frozenset[int] = frozenset({4, 5, 6, 7})) -> None:
        for number in (100, 101, 102):
            (folder / str(number)).mkdir()
        self.refused = refused
        self.bound: dict[int, frozenset[int]] = {}
        self.threads = 0
        self.cores = CoreUser(self.set_threads, efficient, frozenset(range(8)), self.bind, folder)

    def set_threads(self, threads: int) -> None:
        self.threads = threads

    def bind(self, number: int, cores: frozenset[int]) -> None:
        if number in self.refused:
            raise ProcessLookupError(number)
        self.bound[number] = cores


def test_every_thread_is_bound_and_let_go_again(tmp_path: Path) -> None:
    process = Process(tmp_path)
    process.cores.use(6, gentle=True)
    assert process.bound == dict.fromkeys((100, 101, 102), frozenset({4, 5, 6, 7}))
    assert process.threads == 4
    process.cores.use(6, gentle=False)
    assert process.bound == dict.fromkeys((100, 101, 102), frozenset(range(8)))
    assert process.threads == 6


def test_nothing_is_bound_that_was_never_asked_for(tmp_path: Path) -> None:
    process = Process(tmp_path)
    process.cores.use(6, gentle=False)
    assert process.bound == {}
    assert process.threads == 6


def test_one_thread_that_ended_is_no_matter(tmp_path: Path) -> None:
    process = Process(tmp_path, 101)
    process.cores.use(2, gentle=True)
    assert set(process.bound) == {100, 102}
    assert process.threads == 2


def test_where_it_is_refused_the_threads_stay(tmp_path: Path) -> None:
    process = Process(tmp_path, 100, 101, 102)
    process.cores.use(6, gentle=True)
    assert process.threads == 6


@pytest.mark.parametrize("efficient", [frozenset[int](), frozenset({40, 41})])
def test_without_efficient_cores_of_its_own_it_stays_where_it_is(tmp_path: Path, efficient: frozenset[int]) -> None:
    process = Process(tmp_path, efficient=efficient)
    process.cores.use(6, gentle=True)
    assert process.bound == {}
    assert process.threads == 6


def test_this_computer_has_some_answer() -> None:
    threads: list[int] = []
    core_user(threads.append).use(1, gentle=False)
    assert threads == [1]
