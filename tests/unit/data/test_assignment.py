import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.data.assignment import held_out_offsets, is_held_out, sample_offsets

PEER, OTHER = "a" * 52, "b" * 52


def test_golden_offsets_never_change() -> None:
    assert sample_offsets(7, PEER, 3, 1, 5, 1_000_000) == (213746, 631792, 510901, 791717, 217272)


@given(st.integers(0, 2**53), st.integers(0, 10**9), st.integers(0, 10**6), st.integers(1, 64), st.integers(1, 2**40))
def test_offsets_are_in_range_and_recomputable(seed: int, step: int, micro: int, count: int, choices: int) -> None:
    offsets = sample_offsets(seed, PEER, step, micro, count, choices)
    assert len(offsets) == count
    assert all(0 <= offset < choices for offset in offsets)
    assert offsets == sample_offsets(seed, PEER, step, micro, count, choices)


@given(st.integers(1, 30), st.integers(1, 30))
def test_fewer_samples_are_the_beginning_of_more(few: int, more: int) -> None:
    all_of_them = sample_offsets(1, PEER, 2, 3, few + more, 10**9)
    assert sample_offsets(1, PEER, 2, 3, few, 10**9) == all_of_them[:few]


def test_every_coordinate_changes_the_draw() -> None:
    draws = {
        sample_offsets(seed, peer, step, micro, 8, 2**40)
        for seed in (0, 1)
        for peer in (PEER, OTHER)
        for step in (0, 11)
        for micro in (0, 11)
    }
    assert len(draws) == 16


def test_coordinates_cannot_run_into_one_another() -> None:
    assert sample_offsets(1, PEER, 11, 1, 4, 2**40) != sample_offsets(1, PEER, 1, 11, 4, 2**40)


def test_streams_of_two_peers_share_no_more_than_chance() -> None:
    choices = 10_000_000
    mine = {offset for step in range(50) for offset in sample_offsets(5, PEER, step, 0, 40, choices)}
    theirs = {offset for step in range(50) for offset in sample_offsets(5, OTHER, step, 0, 40, choices)}
    assert len(mine & theirs) <= 5  # 2000 * 2000 / 10**7 = 0.4 expected


def test_draws_spread_evenly() -> None:
    counts = [0] * 10
    for step in range(500):
        for offset in sample_offsets(9, PEER, step, 0, 20, 10):
            counts[offset] += 1
    assert all(abs(count - 1000) < 150 for count in counts)


@pytest.mark.parametrize(
    "bad", [(-1, 0, 0, 1, 1), (0, -1, 0, 1, 1), (0, 0, -1, 1, 1), (0, 0, 0, 0, 1), (0, 0, 0, 1, 0)]
)
def test_impossible_coordinates_are_refused(bad: tuple[int, int, int, int, int]) -> None:
    seed, step, micro, count, choices = bad
    with pytest.raises(ValueError, match="positive"):
        sample_offsets(seed, PEER, step, micro, count, choices)


@given(st.integers(1, 500), st.integers(1, 10**7))
def test_held_out_offsets_are_in_range_and_ascending(count: int, choices: int) -> None:
    offsets = held_out_offsets(count, choices)
    assert len(offsets) == count
    assert list(offsets) == sorted(offsets)
    assert offsets[-1] < choices


def test_held_out_offsets_refuse_nothing_to_choose_from() -> None:
    with pytest.raises(ValueError, match="positive"):
        held_out_offsets(1, 0)


def test_about_the_asked_share_of_names_is_held_out_and_more_percent_keeps_the_fewer() -> None:
    names = [f"package/module_{number}.py" for number in range(2000)]
    five = {name for name in names if is_held_out(name, 5)}
    twenty = {name for name in names if is_held_out(name, 20)}
    assert five < twenty
    assert 60 < len(five) < 140
    assert 330 < len(twenty) < 470
