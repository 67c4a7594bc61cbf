import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.governor.policy import share_of
from engine.manifest.parse import parse
from engine.runtime.bundled import bundled_manifests
from tests.benchmarks.loads import lone_project, whole_threads


@given(st.integers(min_value=1, max_value=256))
def test_the_governor_lets_exactly_these_threads_run_all_the_time(cores: int) -> None:
    threads, share = whole_threads(cores)
    allowed, duty = share_of(share, cores)
    assert (allowed, duty) == (threads, pytest.approx(1.0))


@pytest.mark.parametrize(
    ("cores", "expected"), [(1, (1, 100)), (2, (1, 50)), (4, (1, 25)), (8, (2, 25)), (3, (3, 100))]
)
def test_as_few_threads_as_can_be(cores: int, expected: tuple[int, int]) -> None:
    assert whole_threads(cores) == expected


def test_no_cores_are_refused() -> None:
    with pytest.raises(ValueError, match="cores_logical"):
        whole_threads(0)


@given(st.floats(min_value=0.5, max_value=1e5))
def test_a_lone_volunteer_steps_about_as_often_as_asked(samples_per_second: float) -> None:
    bundled = bundled_manifests()[0]
    project = lone_project(bundled, samples_per_second, 6.0)
    micro_batch = bundled.training.micro_batch_samples
    missing = project.training.target_batch_samples - 6.0 * samples_per_second
    assert missing + 1e-6 >= 0
    assert missing < micro_batch + 1e-6
    assert project.training.target_batch_samples % micro_batch == 0


def test_it_is_a_valid_project_that_differs_in_nothing_else() -> None:
    bundled = bundled_manifests()[0]
    project = lone_project(bundled, 200.0, 6.0)
    assert parse(msgspec.json.encode(project)) == project
    assert project.training.minimum_peers == 1
    back = msgspec.structs.replace(
        project.training,
        minimum_peers=bundled.training.minimum_peers,
        target_batch_samples=bundled.training.target_batch_samples,
    )
    assert msgspec.structs.replace(project, name=bundled.name, training=back) == bundled


@pytest.mark.parametrize(("rate", "seconds"), [(0.0, 6.0), (10.0, 0.0), (-1.0, 6.0)])
def test_what_is_no_pace_is_refused(rate: float, seconds: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        lone_project(bundled_manifests()[0], rate, seconds)
