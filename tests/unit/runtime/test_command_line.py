"""The command line: options, the words that answers come in, and errors without a traceback."""

import argparse
import asyncio
import datetime
import os
import signal
from pathlib import Path

import msgspec
import pytest

from engine.contract import commands as c
from engine.contract import link_words
from engine.contract.errors import ControlError, ErrorCode
from engine.contract.settings import parsed, shown
from engine.contract.snapshot import GovernorState
from engine.core.errors import UserError
from engine.core.paths import Paths
from engine.runtime import cli
from engine.runtime.cli import _duration, _port, _positive, _stun, _volunteers, build_parser, main
from engine.runtime.hub_command import _hub_lock
from engine.runtime.lifetime import stop_event
from engine.runtime.requests import _ASK, _set
from engine.runtime.status_text import clock_time, number, projects_text, status_text
from tests.helpers import toy_states

ARGUMENT_ERROR = argparse.ArgumentTypeError
NOW = 1_760_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("30m", 1800.0),
        ("1h", 3600.0),
        ("45", 2700.0),
        ("1.5h", 5400.0),
        ("7d", None),
        ("168h", 604800.0),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    if seconds is None:
        with pytest.raises(ARGUMENT_ERROR):
            _duration(text)
    else:
        assert _duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "h", "0", "0s", "-1h", "nan", "inf", "infh", "169h", "soon", "1 2"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ARGUMENT_ERROR, match="at most a week"):
        _duration(text)


def test_ports_and_minutes() -> None:
    assert [_port(text) for text in ("0", "8470", "65535")] == [0, 8470, 65535]
    for text in ("", "-1", "65536", "http", "1.5", "²"):
        with pytest.raises(ARGUMENT_ERROR, match="0 to 65535"):
            _port(text)
    assert _positive("0.5") == 0.5
    for text in ("0", "-1", "nan", "inf", "1441", "three"):
        with pytest.raises(ARGUMENT_ERROR, match="1440"):
            _positive(text)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("cpu_share_percent", "25", 25),
        ("upload_limit_bytes_per_second", "none", None),
        ("upload_limit_bytes_per_second", "1e6", 1_000_000),
        ("pause_while_in_use", "False", False),
        ("pause_on_battery", "yes", True),
        ("display_name", "Ada", "Ada"),
        ("display_name", "42", "42"),
        ("display_name", "none", "none"),
        ("hub_url", "http://127.0.0.1:1", "http://127.0.0.1:1"),
    ],
)
def test_values_of_settings(name: str, text: str, value: object) -> None:
    assert parsed(name, text) == value
    assert type(parsed(name, text)) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "detail"),
    [
        ("cpu_share_percent", "half", "must be a whole number from 5 to 100"),
        ("cpu_share_percent", "inf", "must be a whole number from 5 to 100"),
        ("cpu_share_percent", "nan", "must be a whole number from 5 to 100"),
        ("cpu_share_percent", "25.5", "must be a whole number from 5 to 100"),
        ("cpu_share_percent", "true", "must be a whole number from 5 to 100"),
        ("upload_limit_bytes_per_second", "-inf", "or none"),
        ("pause_on_battery", "2", "must be true or false"),
        ("pause_on_battery", "none", "must be true or false"),
        ("no_such_setting", "x", "there is no such setting"),
    ],
)
def test_no_values_of_settings(name: str, text: str, detail: str) -> None:
    with pytest.raises(ControlError) as caught:
        parsed(name, text)
    assert (caught.value.code, caught.value.params["name"]) == (ErrorCode.BAD_SETTING, name)
    assert detail in str(caught.value.params["detail"])


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (False, "false"), (None, "none"), ("", "empty"), (25, "25"), ("Ada", "Ada")]
)
def test_settings_are_shown_as_they_are_typed(value: str | int | bool | None, text: str) -> None:
    assert shown(value) == text


class Kept:
    """Answers as an engine does that kept a setting in its own form."""

    def __init__(self) -> None:
        self.asked: list[c.Command] = []

    async def request(self, command: c.Command) -> object:
        self.asked.append(command)
        if isinstance(command, c.GetState):
            return msgspec.to_builtins(toy_states.empty())
        return None


async def test_setting_says_what_the_engine_kept() -> None:
    client = Kept()
    options = argparse.Namespace(name="hub_url", value="http://127.0.0.1:8470///")
    text = await _set(client, options)  # type: ignore[arg-type]
    assert client.asked[0] == c.ChangeSettings(changes={"hub_url": "http://127.0.0.1:8470///"})
    assert text == f"hub_url is now {toy_states.empty().settings.hub_url or 'empty'}."
    with pytest.raises(ControlError):
        await _set(client, argparse.Namespace(name="cpu_share_percent", value="inf"))  # type: ignore[arg-type]
    assert len(client.asked) == 2


@pytest.mark.parametrize("port", ["1" * 5000, "99999", "http"])
def test_refusals_of_options_say_what_is_wanted(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, wanted in (
        (["hub", "--port", port], "must be a number from 0 to 65535"),
        (["demo", "--volunteers", port], "must be a number from 1 to 8"),
        (["run", "--stun", port], "must look like stun:host:port"),
    ):
        with pytest.raises(SystemExit):
            main(arguments)
        assert wanted in capsys.readouterr().err


def test_stun_servers_and_volunteers() -> None:
    for text in ("stun:a:1", "stun:stun.example.org", "stun:[::1]:3478"):
        assert _stun(text) == text
    for text in ("", "garbage", "stun:", "stun:a:0", "stun:a:65536", "http://a", "stun:a:1?x"):
        with pytest.raises(ARGUMENT_ERROR, match="stun:host:port"):
            _stun(text)
    assert [_volunteers("1"), _volunteers("8")] == [1, 8]
    for text in ("0", "9", "two"):
        with pytest.raises(ARGUMENT_ERROR):
            _volunteers(text)


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--name", "x" * 41, "--name must be text of at most 40 printable characters."),
        ("--name", "a\nb", "--name must be text of at most 40 printable characters."),
        ("--hub", "ftp://x", "--hub: The hub address 'ftp://x' is not one that can be used."),
    ],
)
def test_options_of_run_are_checked_before_it_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, sentence: str
) -> None:
    folder = tmp_path / "one"
    assert main(["--data-dir", str(folder), "run", option, value]) == 1
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.splitlines()) == 2
    assert not folder.exists()


def test_a_demonstration_in_a_file_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("mine", encoding="utf-8")
    for kept in (file, file / "below"):
        assert main(["demo", "--headless", "--keep", str(kept)]) == 1
        assert f"cannot use the folder {kept}" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == "mine"


def test_a_second_hub_on_a_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with _hub_lock(Paths(tmp_path)):
        assert main(["--data-dir", str(tmp_path), "hub", "--port", "0"]) == 1
        assert f"A hub is already running on {tmp_path}." in capsys.readouterr().err
    with _hub_lock(Paths(tmp_path)):
        pass


def test_a_time_of_another_day_names_the_day() -> None:
    now = datetime.datetime.fromisoformat("2026-12-01T04:35").timestamp()
    assert clock_time(now + 3600, now) == "05:35"
    assert clock_time(now + 6 * 24 * 3600, now) == "Mon 7 Dec, 04:35"


def test_every_command_has_its_options() -> None:
    parser = build_parser()
    options = parser.parse_args(["pause", "1h"])
    assert (options.command, options.duration) == ("pause", 3600.0)
    assert parser.parse_args(["pause"]).duration is None
    assert parser.parse_args(["--data-dir", "/tmp/x", "leave", "--now"]).now
    run = parser.parse_args(["run", "--hub", "http://h", "--join", "tides", "--stun", "stun:a:1", "--stun", "stun:b:2"])
    assert (run.hub, run.join, run.stun, run.device) == ("http://h", "tides", ["stun:a:1", "stun:b:2"], "auto")
    for command in _ASK:
        extra = {"join": ["x"], "set": ["a", "b"], "override": ["1h"]}.get(command, [])
        assert parser.parse_args([command, *extra]).command == command


@pytest.mark.parametrize("arguments", [[], ["fly"], ["join"], ["hub", "--port", "99999"], ["pause", "soon"]])
def test_a_line_that_makes_no_sense_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_request_without_an_engine_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data-dir", str(tmp_path / "none"), "status"]) == 1
    error = capsys.readouterr().err
    assert error == (
        f"potluck: Potluck is not running on {tmp_path / 'none'}.\n         Start it with `potluck run`.\n"
    )


def test_exporting_nothing_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data-dir", str(tmp_path), "export", str(tmp_path / "out")]) == 1
    assert "No project was trained" in capsys.readouterr().err


def test_interrupting_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_options: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupt)
    assert main(["status"]) == 130


def test_an_action_stands_on_its_own_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_options: argparse.Namespace) -> int:
        raise UserError("The port is taken.")

    monkeypatch.setattr(cli, "_run", fail)
    assert main(["status"]) == 1
    assert capsys.readouterr().err == "potluck: The port is taken.\n"


# Words.


@pytest.mark.parametrize("name", toy_states.ALL_STATES)
def test_every_state_has_its_lines(name: str) -> None:
    text = status_text(toy_states.ALL_STATES[name](), NOW)
    lines = text.splitlines()
    assert lines[0].endswith(".")
    assert "None" not in text
    assert "nan" not in text
    assert all(line.strip() for line in lines)


def test_a_training_state_in_words() -> None:
    state = toy_states.training()
    text = status_text(state, NOW)
    assert "Pocket Python" in text
    assert "step 64, 49 rounds shared here, 1 discarded" in text
    assert "1.741 nats in training, 1.803 nats on held-out text" in text
    assert "Ada's attic, direct, step 64" in text
    assert "m2ht7c5v, relayed, step 64" in text
    assert "1,943,552 tokens trained" in text
    assert "(connected)" in text


def test_what_is_not_known_is_said_as_such() -> None:
    state = msgspec.structs.replace(
        toy_states.training(), session=toy_states.session(my_tokens_per_second=None, held_out_loss=None)
    )
    assert "not yet" in status_text(state, NOW)
    assert (number(None, "x"), number(1234.56, "x"), number(1.5, "nats", 2)) == ("not yet", "1,235 x", "1.50 nats")
    assert "hub at" in projects_text(toy_states.empty())


def test_how_others_reach_this_computer_in_words() -> None:
    state = toy_states.training()
    assert "Reached    What your router lets through was not checked yet." in status_text(state, NOW)
    shut = msgspec.structs.replace(state, session=toy_states.session(reachability="no_udp", relay="tcp"))
    assert f"Reached    {link_words.ONLY_BY_TCP}" in status_text(shut, NOW)
    hidden = msgspec.structs.replace(shut, settings=msgspec.structs.replace(state.settings, relay_only=True))
    assert f"Reached    {link_words.HIDDEN}" in status_text(hidden, NOW)
    assert link_words.ONLY_BY_TCP not in status_text(hidden, NOW)


def test_the_catalogue_in_words() -> None:
    text = projects_text(toy_states.training())
    assert text.count("potluck join ") == 3
    assert "Pocket Python (joined)" in text
    assert "Not on this computer: it needs 21.0 GB of memory, and this computer has 16.0 GB" in text


# The end of a process.


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
async def test_signals_ask_for_the_end(name: str) -> None:
    stop = stop_event()
    try:
        assert not stop.is_set()
        os.kill(os.getpid(), getattr(signal, name))
        async with asyncio.timeout(10):
            await stop.wait()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(number)


def test_an_override_is_told_with_the_status() -> None:
    state = msgspec.structs.replace(toy_states.training(), governor=GovernorState(override_until=NOW + 1200))
    assert f"Override   until {clock_time(NOW + 1200, NOW)}" in status_text(state, NOW)
