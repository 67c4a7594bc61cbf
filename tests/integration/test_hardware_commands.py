"""Probes that ask other programs, with real ones: time limits, nothing left running."""

import os
import sys
from pathlib import Path

import psutil
import pytest

from engine.hardware.command import MAX_OUTPUT_BYTES, RunningCommand, run_command
from engine.hardware.gpus import LIMIT_SECONDS, GpuReader
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


def await_answer(reader: GpuReader) -> None:
    running = reader._running
    assert isinstance(running, RunningCommand)
    running._process.wait(20)


def test_a_gpu_that_is_not_used_is_asked_once(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    code = f"open({str(asked)!r}, 'a').write('x'); print({NVIDIA_LINE!r})"
    reader = GpuReader("", nvidia_command=python(code), drm=tmp_path / "drm", is_mac=False)
    try:
        assert reader.read("", 0.0) == ()
        await_answer(reader)
        for second in (1.0, 2.0, 3.0):
            (gpu,) = reader.read("cpu", second)
            assert gpu.name == "NVIDIA GeForce RTX 3060"
            assert (gpu.usable, gpu.load_percent) == (False, None)
            assert not reader.waiting
        assert asked.read_text() == "x"
    finally:
        reader.close()


def test_a_gpu_in_use_is_asked_again(tmp_path: Path) -> None:
    reader = GpuReader("", nvidia_command=python(f"print({NVIDIA_LINE!r})"), drm=tmp_path / "drm", is_mac=False)
    try:
        reader.read("cuda", 0.0)
        await_answer(reader)
        (gpu,) = reader.read("cuda", 1.0)
        assert (gpu.usable, gpu.load_percent, gpu.temperature_celsius) == (True, 7.0, 41.0)
        assert reader.waiting
    finally:
        reader.close()
    assert not reader.waiting


def test_a_driver_that_hangs_is_given_up(tmp_path: Path) -> None:
    before = children()
    reader = GpuReader(
        "", nvidia_command=python("import threading; threading.Event().wait()"), drm=tmp_path / "drm", is_mac=False
    )
    assert reader.read("cuda", 0.0) == ()
    assert reader.read("cuda", LIMIT_SECONDS) == ()
    assert reader.waiting
    assert reader.read("cuda", LIMIT_SECONDS + 0.1) == ()
    assert not reader.waiting
    assert children() == before
