"""Probes that ask other programs, with real ones: time limits, nothing left running."""

import os
import sys
from pathlib import Path

import psutil
import pytest

from engine.hardware import nvml_child as nvml_child_module
from engine.hardware.command import MAX_OUTPUT_BYTES, run_command
from engine.hardware.gpu_card import LIMIT_SECONDS
from engine.hardware.gpu_nvidia import CommandSource, NvmlSource
from engine.hardware.gpus import GpuReader, GpuUse
from engine.hardware.line_child import FIRST_REST_SECONDS, LONGEST_REST_SECONDS, LineChild
from engine.hardware.probe import read_machine

pytestmark = pytest.mark.integration

NVIDIA_LINE = "NVIDIA GeForce RTX 3060, 12288, 512, 7, 41"


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def test_a_programs_answer() -> None:
    assert run_command(python("print('hello')"), 20.0) == "hello\n"


def test_a_failing_program_is_no_answer() -> None:
    assert run_command(python("import sys; print('half an answer'); sys.exit(3)"), 20.0) is None
    assert run_command(["/nonexistent/program"], 20.0) is None


def test_a_program_that_hangs_is_killed() -> None:
    before = children()
    assert run_command(python("import threading; threading.Event().wait()"), 0.01) is None
    assert children() == before


def test_a_flood_is_cut() -> None:
    text = run_command(python(f"import sys; sys.stdout.write('x' * {2 * MAX_OUTPUT_BYTES})"), 20.0)
    assert text == "x" * MAX_OUTPUT_BYTES


def test_one_look_at_this_machine(tmp_path: Path) -> None:
    before = children()
    machine = read_machine(tmp_path, 1_700_000_000.0)
    assert machine.cores_logical == os.cpu_count()
    assert children() == before


NOW = 1_700_000_000.0
NO_LIBRARY = ["/nonexistent"]


def await_answer(reader: GpuReader) -> None:
    source = reader._nvidia_source
    if isinstance(source, NvmlSource):
        source.wait(20)
    else:
        assert isinstance(source, CommandSource)
        assert source._running is not None
        source._running._process.wait(20)


def reader_of(tmp_path: Path, code: str) -> GpuReader:
    """One that finds no library and asks the program `code`."""
    return GpuReader("", nvidia_command=python(code), nvml_command=NO_LIBRARY, root=tmp_path)


def test_a_gpu_that_is_not_used_is_asked_once(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    reader = reader_of(tmp_path, f"open({str(asked)!r}, 'a').write('x'); print({NVIDIA_LINE!r})")
    try:
        assert reader.read(GpuUse(), NOW, 0.0) == ()
        await_answer(reader)  # there is no library
        reader.read(GpuUse(), NOW, 0.5)
        await_answer(reader)
        for second in (10.0, 20.0, 30.0):
            (gpu,) = reader.read(GpuUse("cpu", computes=True), NOW + second, second)
            assert gpu.name == "NVIDIA GeForce RTX 3060"
            assert (gpu.usable, gpu.read_at) == (False, NOW + 10)
            assert not reader.waiting
        for second in (40.0, 50.0, 60.0):
            reader.read(GpuUse("cuda", computes=False), NOW + second, second)
        assert asked.read_text() == "x"
    finally:
        reader.close()


def test_a_gpu_in_use_is_asked_again(tmp_path: Path) -> None:
    use = GpuUse("cuda", computes=True)
    reader = reader_of(tmp_path, f"print({NVIDIA_LINE!r})")
    try:
        reader.read(use, NOW, 0.0)
        await_answer(reader)
        reader.read(use, NOW, 0.5)
        await_answer(reader)
        (gpu,) = reader.read(use, NOW + 10, 10.0)
        assert (gpu.usable, gpu.load_percent, gpu.temperature_celsius) == (True, 7.0, 41.0)
        assert reader.waiting
    finally:
        reader.close()
    assert not reader.waiting


def test_a_driver_that_hangs_is_given_up(tmp_path: Path) -> None:
    before = children()
    use = GpuUse("cuda", computes=True)
    reader = reader_of(tmp_path, "import threading; threading.Event().wait()")
    reader.read(use, NOW, 0.0)
    await_answer(reader)
    assert reader.read(use, NOW, 0.5) == ()
    assert reader.read(use, NOW, 0.5 + LIMIT_SECONDS) == ()
    assert reader.waiting
    assert reader.read(use, NOW, 0.6 + LIMIT_SECONDS) == ()
    assert not reader.waiting
    assert children() == before


PYNVML = """
import threading
NVML_ERROR_NOT_FOUND, NVML_TEMPERATURE_GPU = 6, 0
class NVMLError(Exception):
    pass
class Memory:
    total, used = 4096, 1024
class Sample:
    pid, smUtil, timeStamp = 41, 30, 1
def nvmlInit():
    if HANGS:
        threading.Event().wait()
def nvmlDeviceGetCount():
    return 1
def nvmlDeviceGetHandleByIndex(index):
    return index
def nvmlDeviceGetName(handle):
    return "a card"
def nvmlDeviceGetMemoryInfo(handle):
    return Memory
def nvmlDeviceGetTemperature(handle, sensor):
    return 64
def nvmlDeviceGetProcessUtilization(handle, since):
    return [Sample]
"""


def nvml_child(folder: Path, *, hangs: bool = False) -> list[str]:
    """The real child, with a library of our own making."""
    (folder / "pynvml.py").write_text(PYNVML.replace("HANGS", str(hangs)))
    script = Path(nvml_child_module.__file__)
    code = (
        f"import sys, runpy; sys.path.insert(0, {str(folder)!r}); runpy.run_path({str(script)!r}, run_name='__main__')"
    )
    return [sys.executable, "-I", "-c", code]


def test_the_library_is_asked_in_one_process_that_pausing_ends(tmp_path: Path) -> None:
    before = children()
    reader = GpuReader("", nvidia_command=NO_LIBRARY, nvml_command=nvml_child(tmp_path), root=tmp_path)
    working = GpuUse("cuda", computes=True, own_pids=frozenset({7}))
    try:
        pids = set()
        for second in (0.0, 10.0, 20.0):
            reader.read(working, NOW, second)
            await_answer(reader)
            pids |= children() - before
        assert len(pids) == 1
        (gpu,) = reader.read(working, NOW + 21, 21.0)
        assert (gpu.name, gpu.temperature_celsius, gpu.foreign_load_percent) == ("a card", 64.0, 30.0)
        assert (gpu.memory_total_bytes, gpu.load_percent, gpu.slowdown_celsius) == (4096, None, None)
        reader.read(GpuUse("cuda", computes=False), NOW + 30, 30.0)
        assert children() == before
    finally:
        reader.close()


def test_a_library_that_hangs_is_killed_on_closing(tmp_path: Path) -> None:
    before = children()
    reader = GpuReader("", nvidia_command=NO_LIBRARY, nvml_command=nvml_child(tmp_path, hangs=True), root=tmp_path)
    reader.read(GpuUse("cuda", computes=True), NOW, 0.0)
    assert reader.waiting
    reader.close()
    assert children() == before


ECHO = "import sys\nfor line in sys.stdin:\n    print(line.strip().upper(), flush=True)"


def test_lines_and_answers() -> None:
    before = children()
    child = LineChild(python(ECHO))
    assert [child.ask(text, 20.0) for text in ("a", "b")] == ["A", "B"]
    assert child.pid in children()
    child.end()
    assert children() == before
    assert child.ask("c", 20.0) == "C"
    child.close()
    child.close()
    assert children() == before
    assert child.ask("d", 20.0) is None


@pytest.mark.parametrize(
    "code",
    [
        "import threading; threading.Event().wait()",
        "import sys; sys.stdin.readline(); sys.stdout.write('half an answer')",
        "import sys; sys.exit(1)",
    ],
)
def test_a_child_that_fails_rests_longer_each_time(code: str) -> None:
    before = children()
    clock = [0.0]
    child = LineChild(python(code), monotonic=lambda: clock[0])
    limit = 0.05 if "wait" in code else 20.0
    rest = FIRST_REST_SECONDS
    for _ in range(9):
        assert child.ask("a", limit) is None
        assert children() == before
        started = child._process
        clock[0] += rest - 1
        assert child.ask("a", limit) is None
        assert child._process is started
        clock[0] += 1
        rest = min(LONGEST_REST_SECONDS, 2 * rest)
    child.close()


def test_no_such_program() -> None:
    child = LineChild(NO_LIBRARY)
    assert child.ask("a", 1.0) is None
    child.close()
