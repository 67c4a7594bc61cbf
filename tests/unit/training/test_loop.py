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
        self.threads: list[int] = []
        self.loop = TrainingLoop(self.kernel, self.sent.append, self.clock, self.threads.append)

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
    bench.loop.on_message(Throttle(duty=0.5, threads=3))
    bench.loop.on_message(Train(global_step=0))
    begun = bench.now
    bench.loop.turn()
    worked = bench.now - begun - 1.0  # the clock's first look is the begin
    assert bench.loop.wait_seconds() == pytest.approx(worked - 1.0)
    assert bench.threads == [3]


def test_rest_has_an_end_however_small_the_duty(bench: Bench) -> None:
    bench.loop.on_message(Throttle(duty=0.001, threads=1))
    bench.loop.on_message(Train(global_step=0))
    bench.loop.turn()
    wait = bench.loop.wait_seconds()
    assert wait is not None
    assert wait <= 5.0


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
