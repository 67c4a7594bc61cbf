import pytest

from engine.runtime.residence import (
    LEAVE_GPU_SECONDS,
    MOVE_TO_GPU_SECONDS,
    REST_AFTER_PAUSE_SECONDS,
    Residence,
)


def living(wanted: str, asked: str, device: str, now: float = 0.0) -> Residence:
    place = Residence(wanted)
    place.settled(asked, device, now)
    return place


def test_the_first_worker_looks_for_the_best_device() -> None:
    assert Residence("auto").next_device() == "auto"


def test_nothing_to_do_starts_no_worker() -> None:
    place = Residence("auto")
    place.allow(0.0, 0.0, 5.0)
    assert place.next_device() is None


def test_without_leave_to_use_the_graphics_processor_it_begins_on_the_processor() -> None:
    place = Residence("auto")
    place.allow(0.5, 0.0, 5.0)
    assert place.next_device() == "cpu"


@pytest.mark.parametrize(("cpu", "gpu", "expected"), [(1.0, 1.0, "cuda"), (1.0, 0.0, None), (0.0, 0.5, "cuda")])
def test_a_device_that_the_user_named_is_the_only_one(cpu: float, gpu: float, expected: str | None) -> None:
    place = Residence("cuda")
    place.allow(cpu, gpu, 0.0)
    assert place.next_device() == expected


def test_the_processor_when_the_user_named_that() -> None:
    place = Residence("cpu")
    assert place.next_device() == "cpu"
    place.allow(0.0, 1.0, 0.0)
    assert place.next_device() is None


def test_on_the_processor_a_pause_is_long_before_memory_goes_back() -> None:
    place = living("auto", "auto", "cpu")
    assert place.rest_at() is None
    place.allow(0.0, 0.0, 100.0)
    place.allow(0.0, 0.0, 300.0)
    assert place.rest_at() == 100.0 + REST_AFTER_PAUSE_SECONDS
    place.allow(0.5, 0.0, 400.0)
    assert place.rest_at() is None


def test_a_graphics_processor_is_given_back_soon() -> None:
    place = living("auto", "auto", "cuda:0")
    place.allow(0.25, 0.0, 50.0)
    assert place.duty == 0.0
    assert place.rest_at() == 50.0 + LEAVE_GPU_SECONDS
    place.left()
    assert place.rest_at() is None
    assert place.next_device() == "cpu"
    place.settled("cpu", "cpu", 60.0)
    assert place.duty == 0.25


def test_it_moves_back_when_the_graphics_processor_was_free_for_a_while() -> None:
    place = living("auto", "auto", "cuda:0")
    place.allow(0.25, 0.0, 50.0)
    place.left()
    place.settled("cpu", "cpu", 60.0)
    place.allow(0.5, 1.0, 400.0)
    assert place.duty == 0.5
    assert place.rest_at() == 400.0 + MOVE_TO_GPU_SECONDS
    assert place.next_device() == "auto"


def test_a_computer_without_one_is_not_tried_again() -> None:
    place = Residence("auto")
    place.allow(0.5, 0.0, 0.0)
    place.settled("cpu", "cpu", 0.0)
    place.allow(0.5, 1.0, 10.0)
    assert place.rest_at() is not None
    place.left()
    place.settled("auto", "cpu", 20.0)
    assert place.rest_at() is None
    assert place.next_device() == "cpu"


def test_a_worker_that_is_gone_has_no_place_to_leave() -> None:
    place = living("auto", "auto", "cpu")
    place.allow(0.0, 0.0, 10.0)
    place.left()
    place.allow(0.0, 0.0, 20.0)
    assert place.rest_at() is None
