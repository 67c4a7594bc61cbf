"""The command line: options, the words that answers come in, and errors without a traceback."""

import argparse
import asyncio
import os
import signal
from pathlib import Path

import msgspec
import pytest

from engine.core.errors import UserError
from engine.runtime import cli
from engine.runtime.cli import _duration, _port, _positive, build_parser, main
from engine.runtime.lifetime import stop_event
from engine.runtime.requests import _ASK, _value
from engine.runtime.status_text import number, projects_text, status_text
from tests.helpers import toy_states

ARGUMENT_ERROR = argparse.ArgumentTypeError


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
        ("upload_limit_bytes_per_second", "1e6", 1e6),
        ("pause_while_in_use", "False", False),
        ("pause_on_battery", "yes", True),
        ("display_name", "Ada", "Ada"),
        ("display_name", "42", "42"),
        ("display_name", "none", "none"),
        ("hub_url", "http://127.0.0.1:1", "http://127.0.0.1:1"),
        ("no_such_setting", "x", "x"),
    ],
)
def test_values_of_settings(name: str, text: str, value: object) -> None:
    assert _value(name, text) == value
    assert type(_value(name, text)) is type(value)


def test_every_command_has_its_options() -> None:
    parser = build_parser()
    options = parser.parse_args(["pause", "1h"])
    assert (options.command, options.duration) == ("pause", 3600.0)
    assert parser.parse_args(["pause"]).duration is None
    assert parser.parse_args(["--data-dir", "/tmp/x", "leave", "--now"]).now
    run = parser.parse_args(["run", "--hub", "http://h", "--join", "tides", "--stun", "stun:a:1", "--stun", "stun:b:2"])
    assert (run.hub, run.join, run.stun, run.device) == ("http://h", "tides", ["stun:a:1", "stun:b:2"], "auto")
    for command in _ASK:
        extra = {"join": ["x"], "set": ["a", "b"]}.get(command, [])
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
    text = status_text(toy_states.ALL_STATES[name]())
    lines = text.splitlines()
    assert lines[0].endswith(".")
    assert "None" not in text
    assert "nan" not in text
    assert all(line.strip() for line in lines)


def test_a_training_state_in_words() -> None:
    state = toy_states.training()
    text = status_text(state)
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
    assert "not yet" in status_text(state)
    assert (number(None, "x"), number(1234.56, "x"), number(1.5, "nats", 2)) == ("not yet", "1,235 x", "1.50 nats")
    assert "hub at" in projects_text(toy_states.empty())


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
