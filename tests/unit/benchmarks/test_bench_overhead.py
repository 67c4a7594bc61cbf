import pytest

from app import timing
from tests.benchmarks import windows
from tests.benchmarks.overhead import throughput_figures
from tests.benchmarks.plain_protocol import Answer
from tests.benchmarks.throughput import EngineTurn


def answer(tokens_per_second: int, step_seconds: float = 0.5) -> Answer:
    return Answer(
        tokens=4 * tokens_per_second, seconds=4.0, cpu_seconds=4.0, others_cpu_seconds=1.0, step_seconds=step_seconds
    )


def turn(tokens_per_second: int, pause_seconds: float = 0.25, worker_cpu: float = 1.0) -> EngineTurn:
    return EngineTurn(
        tokens=5 * tokens_per_second,
        seconds=5.0,
        tokens_with_round=6 * tokens_per_second,
        seconds_with_round=6.0 + pause_seconds,
        round_seconds=0.125,
        engine_cpu=0.03,
        worker_cpu=worker_cpu,
        others_cpu=0.5,
    )


def test_a_slow_moment_slows_both_sides_of_a_ratio() -> None:
    figures = throughput_figures([answer(1000), answer(100)], [turn(980), turn(98)], 6000)
    ratio = figures["tokens_per_second_ratio"]
    assert (ratio.min, ratio.max) == (0.98, 0.98)
    assert figures["tokens_per_second_plain"].max == 1000.0
    assert figures["tokens_per_second_engine"].min == 98.0


def test_rounds_and_steps_are_counted_in() -> None:
    figures = throughput_figures([answer(1000, 0.5)], [turn(1000, 0.25)], 5500)
    assert figures["tokens_per_second_plain_with_steps"].median == pytest.approx(5500 / 6.0, rel=1e-4)
    assert figures["tokens_per_second_engine_with_rounds"].median == pytest.approx(6000 / 6.25, rel=1e-4)
    assert figures["tokens_per_second_ratio_with_rounds"].median == pytest.approx(6000 / 6.25 / (5500 / 6.0), rel=1e-4)
    assert figures["round_pause_seconds"].median == pytest.approx(0.25)
    assert figures["round_seconds"].median == 0.125
    assert figures["plain_step_seconds"].median == 0.5


def test_what_others_took_does_not_count_per_processor_second() -> None:
    figures = throughput_figures([answer(1000)], [turn(500, worker_cpu=0.5)], 6000)
    assert figures["tokens_per_second_ratio"].median == 0.5
    assert figures["tokens_per_cpu_second_ratio"].median == 1.0
    assert figures["others_busy_processors_beside_plain"].median == 0.25
    assert figures["others_busy_processors_beside_engine"].median == 0.5


def test_the_window_says_what_the_benchmark_listens_for() -> None:
    assert (windows.VARIABLE, windows.PAINTED, windows.USABLE) == (timing.VARIABLE, timing.PAINTED, timing.USABLE)
