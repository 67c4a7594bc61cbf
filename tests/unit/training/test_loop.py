import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.strategies.collaborative.kernel import CollaborativeKernel
from engine.training.loop import KeepsFailing, TrainingLoop
from engine.training.protocol import (
    Accumulated,
    Carried,
    Evaluate,
    Evaluated,
    Freeze,
    FromWorker,
    Frozen,
    Pong,
    Stop,
    Throttle,
    Train,
    WorkerPing,
    Write,
    Written,
)
from tests.helpers.tiny_kernel import initial_weights, make_kernel
from tests.helpers.tiny_project import tiny_manifest


class Bench:
    """A loop on a clock that says that every look at it took a second."""

    def __init__(self, folder: Path) -> None:
        self.kernel, self.vectors = make_kernel(folder, tiny_manifest())
        self.now = 0.0
        self.sent: list[FromWorker] = []
        self.cores: list[tuple[int, bool]] = []
        self.cpu = 0.0
        self.loop = TrainingLoop(self.kernel, self.sent.append, self.clock, self.use_cores)

    def use_cores(self, threads: int, gentle: bool) -> None:
        self.cores.append((threads, gentle))

    def cpu_clock(self) -> float:
        self.cpu += 2.0
        return self.cpu

    def clock(self) -> float:
        self.now += 1.0
        return self.now

    def take(self) -> list[FromWorker]:
        sent = list(self.sent)
        self.sent.clear()
        return sent

    def run_jobs(self) -> list[FromWorker]:
        for _ in range(100):
            if any(isinstance(message, Evaluated | Written) for message in self.sent):
                break
            self.loop.turn()
        return self.take()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_nothing_happens_before_train(bench: Bench) -> None:
    assert bench.loop.wait_seconds() is None


def test_train_accumulates_and_freeze_flushes(bench: Bench) -> None:
    bench.loop.on_message(Train(global_step=2))
    assert bench.loop.wait_seconds() == 0.0
    bench.loop.turn()
    bench.loop.turn()
    bench.loop.on_message(Freeze())
    first, second, frozen = bench.take()
    assert isinstance(first, Accumulated)
    assert isinstance(second, Accumulated)
    assert (first.samples, second.samples) == (4, 8)
    assert second.busy_seconds > first.busy_seconds > 0.0
    assert frozen == Frozen(global_step=2, samples=8, tokens=second.tokens, loss_sum=second.loss_sum)
    assert bench.vectors.gradients.any()
    assert bench.loop.wait_seconds() is None


def test_keep_goes_on_and_otherwise_it_begins_anew(bench: Bench) -> None:
    for message, samples in (
        (Train(global_step=0), 4),
        (Train(global_step=0, keep=True), 8),
        (Train(global_step=1), 4),
    ):
        bench.loop.on_message(message)
        bench.loop.turn()
        bench.loop.on_message(Freeze())
        frozen = bench.take()[-1]
        assert isinstance(frozen, Frozen)
        assert frozen.samples == samples


def test_freezing_an_idle_worker_answers_zero(bench: Bench) -> None:
    bench.loop.on_message(Freeze())
    assert bench.take() == [Frozen(global_step=0, samples=0, tokens=0, loss_sum=0.0)]


def test_half_duty_rests_as_long_as_it_works(bench: Bench) -> None:
    bench.loop.on_message(Throttle(duty=0.5, threads=3, gentle=True))
    bench.loop.on_message(Train(global_step=0))
    begun = bench.now
    bench.loop.turn()
    worked = bench.now - begun - 1.0  # the clock's first look is the begin
    earned = (bench.now - begun) / 2
    wait = bench.loop.wait_seconds()
    assert wait == pytest.approx((worked - earned) * 2 - 1.0)
    assert bench.cores == [(3, True)]


def test_on_the_processor_the_duty_is_a_share_of_compute_time(bench: Bench) -> None:
    loop = TrainingLoop(bench.kernel, bench.sent.append, bench.clock, bench.use_cores, bench.cpu_clock)
    loop.on_message(Throttle(duty=0.25, threads=4))
    loop.on_message(Train(global_step=0))
    begun = bench.now
    loop.turn()  # two compute seconds of four threads: half a second of each
    assert (bench.now - begun) * 0.25 > 0.5
    assert loop.wait_seconds() == 0.0
    loop.on_message(Throttle(duty=0.25, threads=1))
    begun = bench.now
    loop.turn()
    assert loop.wait_seconds() == pytest.approx(2.0 / 0.25 - (bench.now - begun), abs=1.01)


def test_a_new_worker_goes_on_from_what_another_left_in_the_buffer(bench: Bench, tmp_path: Path) -> None:
    bench.loop.on_message(Train(global_step=3))
    for _ in range(3):
        bench.loop.turn()
    bench.loop.on_message(Freeze())
    whole = bench.take()[-1]
    expected = bench.vectors.gradients.copy()

    first = Bench(tmp_path / "first")
    first.loop.on_message(Train(global_step=3))
    first.loop.turn()
    first.loop.on_message(Freeze())
    left = first.take()[-1]
    assert isinstance(left, Frozen)
    second = Bench(tmp_path / "second")
    second.vectors.gradients[:] = first.vectors.gradients
    carried = Carried(samples=left.samples, tokens=left.tokens, loss_sum=left.loss_sum)
    second.loop.on_message(Train(global_step=3, carried=carried))
    second.loop.turn()
    second.loop.turn()
    second.loop.on_message(Freeze())
    assert second.take()[-1] == whole
    assert np.array_equal(second.vectors.gradients, expected)


def test_duty_zero_pauses_keeps_what_is_there_and_still_answers(bench: Bench) -> None:
    bench.loop.on_message(Train(global_step=0))
    bench.loop.turn()
    bench.take()
    bench.loop.on_message(Throttle(duty=0.0, threads=1))
    assert bench.loop.wait_seconds() is None
    bench.loop.on_message(WorkerPing(number=8))
    bench.loop.on_message(Freeze())
    pong, frozen = bench.take()
    assert pong == Pong(number=8)
    assert isinstance(frozen, Frozen)
    assert frozen.samples == 4
    bench.loop.on_message(Train(global_step=0, keep=True))
    bench.loop.on_message(Throttle(duty=1.0, threads=1))
    assert bench.loop.wait_seconds() == 0.0


def test_more_duty_ends_the_rest_at_once(bench: Bench) -> None:
    bench.loop.on_message(Throttle(duty=0.2, threads=1))
    bench.loop.on_message(Train(global_step=0))
    bench.loop.turn()
    assert bench.loop.wait_seconds() != 0.0
    bench.loop.on_message(Throttle(duty=1.0, threads=1))
    assert bench.loop.wait_seconds() == 0.0


def test_evaluation_while_frozen_takes_the_weights_from_the_buffer(bench: Bench) -> None:
    bench.vectors.weights[:] = 0.0
    bench.loop.on_message(Evaluate(global_step=9))
    (answer,) = bench.run_jobs()
    assert isinstance(answer, Evaluated)
    assert answer.loss == pytest.approx(np.log(256), rel=1e-5)
    assert (answer.global_step, answer.tokens) == (9, 8 * 32)


def test_jobs_while_training_leave_the_gradients_alone(bench: Bench, tmp_path: Path) -> None:
    bench.loop.on_message(Train(global_step=0))
    bench.loop.turn()
    bench.loop.on_message(Evaluate(global_step=0))
    bench.loop.on_message(Write(global_step=0, prompt="x", max_tokens=9))
    bench.run_jobs()
    answers = bench.run_jobs()
    assert isinstance(answers[-1], Written)
    assert answers[-1].prompt == "x"
    bench.loop.turn()
    bench.loop.on_message(Freeze())
    plain = Bench(tmp_path / "plain")
    plain.loop.on_message(Train(global_step=0))
    plain.loop.turn()
    plain.loop.turn()
    plain.loop.on_message(Freeze())
    assert np.array_equal(bench.vectors.gradients, plain.vectors.gradients)


def test_freeze_and_ping_do_not_wait_for_a_job(bench: Bench) -> None:
    bench.loop.on_message(Train(global_step=0))
    bench.loop.on_message(Write(global_step=0, prompt="x", max_tokens=100))
    bench.loop.turn()
    assert bench.take() == []
    bench.loop.on_message(WorkerPing(number=1))
    bench.loop.on_message(Freeze())
    assert [type(message) for message in bench.take()] == [Pong, Frozen]
    assert isinstance(bench.run_jobs()[-1], Written)


def test_train_waits_for_a_running_job_and_freeze_overtakes_it(bench: Bench) -> None:
    bench.loop.on_message(Evaluate(global_step=0))
    bench.loop.turn()
    bench.loop.on_message(Train(global_step=5))
    bench.loop.on_message(Freeze())
    frozen = bench.take()[-1]
    assert isinstance(frozen, Frozen)
    assert (frozen.global_step, frozen.samples) == (5, 0)
    assert isinstance(bench.run_jobs()[-1], Evaluated)
    assert bench.loop.wait_seconds() is None


def test_training_begins_when_the_job_before_it_is_done(bench: Bench) -> None:
    bench.loop.on_message(Evaluate(global_step=0))
    bench.loop.on_message(Train(global_step=5))
    assert isinstance(bench.run_jobs()[-1], Evaluated)
    bench.loop.turn()
    (accumulated,) = bench.take()
    assert isinstance(accumulated, Accumulated)
    assert accumulated.global_step == 5


def poison(bench: Bench) -> None:
    bench.vectors.weights[0] = np.nan


def test_one_bad_micro_batch_is_reported_as_nothing_accumulated(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, expect_log: Callable[..., Any]
) -> None:
    expect_log("engine.training.loop", level=logging.ERROR)
    bench.loop.on_message(Train(global_step=0))
    bench.loop.turn()
    poison(bench)
    bench.loop.on_message(Train(global_step=0, keep=True))
    bench.loop.turn()
    dropped = bench.take()[-1]
    assert isinstance(dropped, Accumulated)
    assert (dropped.samples, dropped.tokens, dropped.loss_sum) == (0, 0, 0.0)
    bench.vectors.weights[:] = initial_weights(tiny_manifest())
    bench.loop.on_message(Train(global_step=0, keep=True))
    bench.loop.turn()
    again = bench.take()[-1]
    assert isinstance(again, Accumulated)
    assert again.samples == 4


def test_three_bad_micro_batches_in_a_row_are_a_failure(bench: Bench, expect_log: Callable[..., Any]) -> None:
    expect_log("engine.training.loop", level=logging.ERROR)
    poison(bench)
    bench.loop.on_message(Train(global_step=0))
    bench.loop.turn()
    bench.loop.turn()
    with pytest.raises(KeepsFailing, match="3 micro-batches in a row"):
        bench.loop.turn()


def test_messages_of_other_places_are_our_fault(bench: Bench) -> None:
    with pytest.raises(ValueError, match="Stop"):
        bench.loop.on_message(Stop())


def test_the_kernel_is_the_real_one(bench: Bench) -> None:
    assert isinstance(bench.kernel, CollaborativeKernel)
