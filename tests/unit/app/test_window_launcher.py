import sys
from pathlib import Path

from app.link.launcher import MAX_STARTS, PATIENCE_SECONDS, RESTART_REST_SECONDS, EngineLauncher, engine_command
from engine.runtime.cli import build_parser


class Starts:
    """Records starts; its clock stands still until told."""

    def __init__(self, works: bool = True) -> None:
        self.commands: list[list[str]] = []
        self.now = 100.0
        self.works = works

    def __call__(self, command: list[str]) -> bool:
        self.commands.append(command)
        return self.works


def launcher(starts: Starts, *, enabled: bool = True) -> EngineLauncher:
    return EngineLauncher(Path("/data"), enabled=enabled, start=starts, monotonic=lambda: starts.now)


def test_the_command_is_one_that_the_command_line_takes() -> None:
    command = engine_command(Path("/data"))
    assert command[:3] == [sys.executable, "-m", "engine.runtime.cli"]
    options = build_parser().parse_args(command[3:])
    assert (options.command, options.data_dir, options.detached) == ("run", Path("/data"), True)


def test_one_engine_is_started_and_given_time() -> None:
    starts = Starts()
    starter = launcher(starts)
    for _ in range(5):
        starter.on_nobody_answers()
    assert len(starts.commands) == 1
    starts.now += PATIENCE_SECONDS
    starter.on_nobody_answers()
    assert len(starts.commands) == 2


def test_after_a_few_that_never_answer_it_gives_up_until_asked() -> None:
    starts, gave_up = Starts(), []
    starter = launcher(starts)
    starter.gave_up.connect(lambda: gave_up.append(True))
    for _ in range(MAX_STARTS + 3):
        starter.on_nobody_answers()
        starts.now += PATIENCE_SECONDS
    assert len(starts.commands) == MAX_STARTS
    assert starter.has_given_up
    assert gave_up == [True]
    starter.reset()
    starter.on_nobody_answers()
    assert len(starts.commands) == MAX_STARTS + 1


def test_an_engine_that_cannot_be_started_at_all_is_not_tried_again() -> None:
    starts = Starts(works=False)
    starter = launcher(starts)
    starter.on_nobody_answers()
    starts.now += 10 * PATIENCE_SECONDS
    starter.on_nobody_answers()
    assert len(starts.commands) == 1
    assert starter.has_given_up


def test_an_engine_that_answered_is_started_anew_when_it_is_lost() -> None:
    starts = Starts()
    starter = launcher(starts)
    starter.on_nobody_answers()
    starter.on_connected()
    starter.on_nobody_answers()
    assert len(starts.commands) == 2


def test_nothing_is_started_where_it_is_not_wanted() -> None:
    starts = Starts()
    launcher(starts, enabled=False).on_nobody_answers()
    starter = launcher(starts)
    starter.disable()
    starter.on_nobody_answers()
    assert starts.commands == []


def test_an_engine_that_vanishes_again_soon_is_left_to_the_user() -> None:
    starts, restarted = Starts(), []
    starter = launcher(starts)
    starter.restarted.connect(lambda: restarted.append(True))
    starter.on_nobody_answers()
    starter.on_connected()
    assert restarted == []
    starter.on_nobody_answers()
    starter.on_connected()
    assert (len(starts.commands), restarted) == (2, [True])
    starter.on_nobody_answers()
    assert len(starts.commands) == 2
    assert starter.has_given_up
    starter.reset()
    starter.on_nobody_answers()
    assert (len(starts.commands), restarted) == (3, [True])


def test_an_engine_that_vanishes_long_after_its_restart_is_restarted_again() -> None:
    starts = Starts()
    starter = launcher(starts)
    for expected in (1, 2, 3):
        starter.on_nobody_answers()
        starter.on_connected()
        assert len(starts.commands) == expected
        starts.now += RESTART_REST_SECONDS
