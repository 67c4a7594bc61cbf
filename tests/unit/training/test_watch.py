import os
from pathlib import Path

from engine.training.host import HostTimes, Watch, worker_environment

TIMES = HostTimes(ready_seconds=100.0, ping_seconds=2.0, shortest_silence_seconds=15.0, silence_factor=10.0)


def ready_watch(now: float = 0.0) -> Watch:
    watch = Watch(TIMES, now)
    watch.on_ready()
    return watch


def test_a_worker_that_is_never_ready_is_found_out() -> None:
    watch = Watch(TIMES, 50.0)
    assert watch.next_ping(60.0) is None
    assert watch.problem(150.0) == ""
    assert "was not ready" in watch.problem(150.1)


def test_silence_counts_from_the_oldest_unanswered_ping() -> None:
    watch = ready_watch()
    for now in (0.0, 2.0, 4.0):
        watch.next_ping(now)
    assert watch.problem(15.0) == ""
    assert "did not answer for 16 s" in watch.problem(16.0)


def test_an_answer_covers_all_earlier_pings() -> None:
    watch = ready_watch()
    numbers = [ping.number for now in (0.0, 2.0, 4.0) if (ping := watch.next_ping(now)) is not None]
    watch.on_pong(numbers[1], 5.0)
    assert watch.problem(4.0 + 31.0) != ""
    assert watch.problem(4.0 + 15.0) == ""
    watch.on_pong(numbers[2], 20.0)
    assert watch.problem(1000.0) == ""


def test_long_micro_batches_earn_patience() -> None:
    watch = ready_watch()
    watch.on_accumulated(4.0)
    watch.on_accumulated(12.0)
    assert watch.silence_allowed_seconds() == 80.0
    watch.on_accumulated(1.0)
    assert watch.silence_allowed_seconds() == 80.0


def test_an_engine_that_looked_late_blames_nobody() -> None:
    watch = ready_watch()
    watch.on_beat(0.0)
    watch.next_ping(0.0)
    watch.on_beat(600.0)  # the computer slept
    assert watch.problem(600.0) == ""
    for now in range(602, 614, 2):
        watch.on_beat(float(now))
    assert watch.problem(614.0) == ""
    assert watch.problem(616.0) != ""


def test_sleep_does_not_count_as_starting_time() -> None:
    watch = Watch(TIMES, 0.0)
    watch.on_beat(2.0)
    watch.on_beat(904.0)
    assert watch.problem(904.0) == ""
    assert watch.problem(1010.0) != ""


def test_pongs_nobody_asked_for_change_nothing() -> None:
    watch = ready_watch()
    watch.next_ping(0.0)
    watch.on_pong(99, 1.0)
    assert watch.problem(16.0) != ""


def test_the_environment_keeps_the_worker_off_the_network_and_to_its_threads() -> None:
    environment = worker_environment({"PYTHONPATH": "elsewhere", "HOME": "h"}, 2)
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["OMP_NUM_THREADS"] == "2"
    assert environment["HOME"] == "h"
    first, rest = environment["PYTHONPATH"].split(os.pathsep)
    assert (Path(first) / "engine" / "training").is_dir()
    assert rest == "elsewhere"


def test_the_worker_keeps_the_memory_that_its_next_micro_batch_needs() -> None:
    environment = worker_environment({}, 1)
    block, free = (int(environment[f"MALLOC_{name}_THRESHOLD_"]) for name in ("MMAP", "TRIM"))
    assert 2**20 <= block <= 2**25  # glibc ignores more
    assert block < free < 2**31
