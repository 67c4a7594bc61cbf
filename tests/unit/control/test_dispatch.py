import asyncio
import logging
from typing import Any

import pytest

from engine.contract.codec import MAX_LINE_BYTES, Reply, Request
from engine.contract.commands import MAX_OVERRIDE_SECONDS, ChangeSettings, Command, Join, Pause
from engine.contract.errors import ControlError, ErrorCode
from engine.contract.reasons import RunState
from engine.contract.snapshot import EngineInfo, EngineState, HubStatus, Status
from engine.control.auth import new_token, token_matches
from engine.control.dispatch import MAX_TEXT_CHARS, Face, outcome, parse_command

FACE = Face(face_id=1, kind="test", wants_samples=False)
STATE = EngineState(
    engine=EngineInfo(version="0", pid=1, started_at=0.0, peer_id="p", identity_store="file", data_dir="/d"),
    status=Status(state=RunState.IDLE),
    hub=HubStatus(url="", connected=False),
)


async def answered(method: str, params: dict[str, Any], handler: Any = None) -> Reply:
    async def echo(command: Command, face: Face) -> Any:
        return command

    return await outcome(Request(id=5, method=method, params=params), FACE, handler or echo, lambda: STATE)


def test_commands_are_decoded():
    assert parse_command(Request(id=1, method="training.pause", params={"seconds": 60})) == Pause(seconds=60.0)
    assert parse_command(Request(id=1, method="project.join", params={"project": "x", "later": 1})) == Join(project="x")
    changes: dict[str, Any] = {"cpu_share_percent": 20, "display_name": "", "upload_limit_bytes_per_second": None}
    assert parse_command(Request(id=1, method="settings.change", params={"changes": changes})) == ChangeSettings(
        changes=changes
    )


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("project.join", {}, "project"),
        ("project.join", {"project": 7}, "$.project"),
        ("project.join", {"project": None}, "$.project"),
        ("project.leave", {"when": "tomorrow"}, "$.when"),
        ("training.pause", {"seconds": "3600"}, "$.seconds"),
        ("training.pause", {"seconds": 0}, "$.seconds"),
        ("training.pause", {"seconds": -5}, "$.seconds"),
        ("training.pause", {"seconds": 1e12}, "$.seconds"),
        ("training.pause", {"seconds": float("nan")}, "$.seconds"),
        ("settings.change", {"changes": {"display_name": {"a": "b"}}}, "$.changes"),
        ("settings.change", {"changes": {"exclusive_apps": ["a", 1.5]}}, "$.changes"),
        ("training.override", {"seconds": 0}, "$.seconds"),
        ("training.override", {"seconds": MAX_OVERRIDE_SECONDS + 1}, "$.seconds"),
        ("training.override", {"seconds": float("nan")}, "$.seconds"),
        ("training.override", {}, "`seconds`"),
    ],
)
def test_a_bad_field_is_named(method, params, field):
    with pytest.raises(ControlError) as refused:
        parse_command(Request(id=1, method=method, params=params))
    assert refused.value.code is ErrorCode.BAD_REQUEST
    assert field in str(refused.value.params["detail"])
    assert method in str(refused.value.params["detail"])


@pytest.mark.parametrize(
    ("method", "params", "what"),
    [
        ("project.join", {"project": "x" * (MAX_TEXT_CHARS + 1)}, "project"),
        ("link.open", {"link": "x" * (MAX_TEXT_CHARS + 1)}, "link"),
        ("settings.change", {"changes": {"display_name": "a" * (MAX_TEXT_CHARS + 1)}}, "display name"),
        ("settings.change", {"changes": {"exclusive_apps": ["a" * (MAX_TEXT_CHARS + 1)]}}, "exclusive apps"),
    ],
)
def test_a_text_that_is_too_long_is_told_in_words(method, params, what):
    with pytest.raises(ControlError) as refused:
        parse_command(Request(id=1, method=method, params=params))
    assert refused.value.code is ErrorCode.BAD_REQUEST
    assert refused.value.params["detail"] == f"the {what} is longer than {MAX_TEXT_CHARS} characters"
    assert len(str(refused.value.params["detail"])) <= 300


async def test_an_unknown_method_is_named():
    reply = await answered("project.destroy" * 20, {})
    assert reply.error is not None
    assert reply.error.code is ErrorCode.UNKNOWN_METHOD
    assert len(str(reply.error.params["method"])) == 60


async def test_results_are_plain_data():
    assert await answered("training.pause", {"seconds": 3}) == Reply(id=5, result={"seconds": 3.0})


async def test_ping_and_state_need_no_handler():
    async def refuse(command: Command, face: Face) -> Any:
        raise AssertionError(command)

    assert await answered("ping", {}, refuse) == Reply(id=5)
    reply = await answered("state.get", {}, refuse)
    assert reply.result["status"]["state"] == "idle"


async def test_a_refusal_keeps_its_code_and_parameters():
    async def refuse(command: Command, face: Face) -> Any:
        raise ControlError(ErrorCode.UNKNOWN_PROJECT, project="x")

    reply = await answered("project.join", {"project": "x"}, refuse)
    assert reply.error is not None
    assert (reply.error.code, reply.error.params) == (ErrorCode.UNKNOWN_PROJECT, {"project": "x"})


async def failing(command: Command, face: Face) -> Any:
    raise ZeroDivisionError("secret detail")


async def unsendable(command: Command, face: Face) -> Any:
    return {"result": object()}


async def too_large(command: Command, face: Face) -> Any:
    return "x" * MAX_LINE_BYTES


@pytest.mark.parametrize("handler", [failing, unsendable, too_large])
async def test_a_fault_is_a_report_number_that_finds_the_log_line(handler, expect_log, caplog):
    expect_log("engine.control.dispatch", level=logging.ERROR)
    reply = await answered("training.resume", {}, handler)
    assert reply.result is None
    assert reply.error is not None
    assert reply.error.code is ErrorCode.INTERNAL
    assert set(reply.error.params) == {"report_id"}
    assert str(reply.error.params["report_id"]) in caplog.text


async def test_a_handler_that_never_ends_is_ended(expect_log, monkeypatch):
    ended = asyncio.Event()

    async def stuck(command: Command, face: Face) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr("engine.control.dispatch.REQUEST_SECONDS", 0.0)
    expect_log("engine.control.dispatch", level=logging.ERROR)
    reply = await answered("training.resume", {}, stuck)
    assert ended.is_set()
    assert reply.error is not None
    assert reply.error.code is ErrorCode.INTERNAL


async def test_cancellation_passes_through():
    started = asyncio.Event()

    async def stuck(command: Command, face: Face) -> Any:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(answered("training.resume", {}, stuck))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_tokens():
    token = new_token()
    assert len(token) >= 43
    assert token != new_token()
    assert token_matches(token, token)
    assert not token_matches(token, token[:-1])
    assert not token_matches(token, "")
    assert not token_matches(token, "\udcff\u00e4")
