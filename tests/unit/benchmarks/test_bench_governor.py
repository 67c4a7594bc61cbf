import os

from engine.contract.settings import BOUNDS
from tests.benchmarks.cpu_clock import LastWork, cpu_seconds, tree_cpu_seconds
from tests.benchmarks.governor import HEAT_GOAL_CELSIUS, main
from tests.benchmarks.guest_trials import AWAY_SECONDS, SETTINGS
from tests.benchmarks.held_duty import Held
from tests.benchmarks.simulated_heat import heat_up


def test_the_simulated_computers_are_held_at_their_target() -> None:
    heated = heat_up(1)
    assert heated.worst_mean_error_celsius < HEAT_GOAL_CELSIUS
    assert heated.worst_celsius < heated.hard_stop_celsius


def test_a_process_that_computes_is_seen_to_do_so() -> None:
    work = LastWork(os.getpid())
    before = cpu_seconds(os.getpid())
    while cpu_seconds(os.getpid()) - before < 0.02:
        sum(range(1000))
    assert work.sample() == 0.0
    assert tree_cpu_seconds(os.getpid())[os.getpid()] > 0.0


def test_points_are_of_a_hundred() -> None:
    assert round(Held(0.25, 0.28, 0.1, 20.0).points_off, 6) == 3.0


def test_the_trials_need_the_lifted_bound_and_leave_ours_alone() -> None:
    assert BOUNDS["away_after_seconds"][0] > AWAY_SECONDS
    assert SETTINGS["pause_while_in_use"] is True


def test_without_a_screen_it_says_what_is_missing(monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert main([]) == 1
    assert "Xvfb and xdotool must be installed" in capsys.readouterr().err
