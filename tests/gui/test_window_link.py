"""The link to the engine over a real local socket: losses, nonsense, versions, deadlines."""

from collections.abc import Callable

import msgspec
import pytest

from app.format import clock
from app.link import operations
from app.link.client import LinkDetail, LinkState, LinkStatus
from app.link.operation import Failure, FailureKind
from app.widgets.state_header import Control
from engine.contract.codec import Patch, encode
from engine.contract.commands import Ping
from engine.contract.errors import ErrorBody, ErrorCode
from engine.contract.snapshot import Today
from engine.contract.version import CONTRACT_VERSION
from tests.gui.conftest import Desk, MakeDesk
from tests.helpers import toy_states

pytestmark = pytest.mark.gui


def until_resynchronised(desk: Desk) -> None:
    """A change made now arrives: the link is whole."""
    desk.until(lambda: desk.engine.hellos >= 2 and desk.parts.context.link.connected)
    desk.engine.change(today=Today(tokens_trained=77))
    desk.until(lambda: desk.window.home.today.text == "77 tokens")


def test_an_engine_that_comes_back_is_found_and_its_state_taken(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.engine.stop()
    desk.until(lambda: desk.window.header.sentence.text() == "Potluck's background part does not answer.")
    assert desk.window.home.today.text == "1.94 million tokens"  # the last it said
    assert desk.window.header.control is Control.NONE
    desk.window.show_page("settings")
    assert not desk.window.settings.cpu.isEnabled()
    desk.engine.state = msgspec.structs.replace(toy_states.paused(), today=Today(tokens_trained=5))
    desk.engine.start()
    desk.until(lambda: desk.window.header.control is Control.RESUME)
    desk.until(lambda: desk.window.home.today.text == "5 tokens")
    until_resynchronised(desk)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda engine: engine.send_raw(b"\x00\xff garbage\n"),
        lambda engine: engine.send_raw(b'{"type":"patch","rev":1}\n'),
        lambda engine: engine.send_raw(b"x" * (1024 * 1024 + 10)),
        lambda engine: engine.send_raw(encode(Patch(rev=99, path=("today",), value={}))),
        lambda engine: engine.patch(("status",), {"state": "dancing"}),
        lambda engine: engine.patch(("session", "peers"), "none"),
        lambda engine: engine.patch(("a", "b", "c"), 1),
        lambda engine: (engine.skip_revision(), engine.change(today=Today())),
    ],
    ids=["bytes", "half a patch", "endless line", "gap", "unknown word", "wrong type", "long path", "skipped"],
)
def test_nonsense_leads_to_a_fresh_snapshot(make_desk: MakeDesk, spoil: Callable[..., object]) -> None:
    desk = make_desk(toy_states.training())
    spoil(desk.engine)
    until_resynchronised(desk)
    assert desk.window.header.sentence.text() == "Training with 2 other computers."


@pytest.mark.parametrize(
    ("version", "detail", "head"),
    [
        (CONTRACT_VERSION + 1, LinkDetail.ENGINE_NEWER, "Potluck's background part is newer than this window."),
        (CONTRACT_VERSION - 1, LinkDetail.ENGINE_OLDER, "Potluck's background part is older than this window."),
    ],
)
def test_an_engine_of_another_version_is_named(
    make_desk: MakeDesk, version: int, detail: LinkDetail, head: str
) -> None:
    desk = make_desk(toy_states.training(), connected=False, started=False)
    desk.engine.contract_version = version
    desk.engine.start()
    desk.until(lambda: desk.parts.context.link.status.state is LinkState.INCOMPATIBLE)
    assert desk.parts.context.link.status.detail is detail
    assert desk.window.header.sentence.text() == head
    assert desk.window.header.control is Control.RETRY
    desk.engine.contract_version = CONTRACT_VERSION
    desk.window.header.retry_button.click()
    desk.until_connected()
    assert desk.window.header.control is Control.PAUSE


def test_a_wrong_token_is_turned_away_until_the_endpoint_is_right(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training(), started=False)
    desk.engine.start()
    address = str(desk.engine.endpoint_file.parent / "engine.sock")
    desk.engine.write_endpoint(address, token="stale")
    desk.until(lambda: desk.window.header.sentence.text() == "Potluck's background part did not let this window in.")
    desk.engine.write_endpoint(address)
    desk.until_connected()


def test_a_stale_endpoint_file_is_nobody(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training(), started=False)
    asked: list[bool] = []
    desk.parts.context.link.nobody_answers.connect(lambda: asked.append(True))
    desk.engine.write_endpoint(str(desk.engine.endpoint_file.parent / "gone.sock"))
    desk.until(lambda: len(asked) >= 2)
    assert desk.parts.context.link.status.state is LinkState.ABSENT
    desk.engine.start()
    desk.until_connected()


def failure_of(desk: Desk, deadline_milliseconds: int = 15_000) -> Failure:
    operation = desk.parts.context.link.request(Ping(), deadline_milliseconds)
    with desk.qtbot.waitSignal(operation.failed, timeout=5_000) as blocker:
        pass
    failure = blocker.args[0]
    assert isinstance(failure, Failure)
    return failure


def test_requests_end_by_themselves(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.engine.silent.add("ping")
    assert failure_of(desk, deadline_milliseconds=20).kind is FailureKind.TIMED_OUT
    operation = desk.parts.context.link.request(Ping())
    with desk.qtbot.waitSignal(operation.failed, timeout=5_000) as blocker:
        desk.engine.stop()
    assert blocker.args[0].kind is FailureKind.LOST
    desk.until(lambda: not desk.parts.context.link.connected)
    assert failure_of(desk).kind is FailureKind.NOT_CONNECTED


def test_a_request_too_long_for_a_line_is_refused_here(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    operation = operations.change_setting(desk.parts.context.link, "display_name", "x" * (1024 * 1024))
    with desk.qtbot.waitSignal(operation.failed, timeout=5_000) as blocker:
        pass
    assert blocker.args[0].kind is FailureKind.REFUSED
    assert desk.parts.context.link.connected


def test_a_refusal_carries_its_code(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.engine.errors["ping"] = ErrorBody(code=ErrorCode.NO_PROJECT)
    failure = failure_of(desk)
    assert failure.kind is FailureKind.REFUSED
    assert failure.error is not None
    assert failure.error.code is ErrorCode.NO_PROJECT


def test_an_engine_that_was_stopped_stays_stopped_until_start_is_pressed(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    link, header = desk.parts.context.link, desk.window.header
    asked: list[bool] = []
    link.nobody_answers.connect(lambda: asked.append(True))
    desk.engine.stop_in_order()
    desk.until(lambda: link.status == LinkStatus(LinkState.ABSENT, LinkDetail.STOPPED))
    assert header.sentence.text() == "Potluck is stopped."
    assert desk.parts.tray.status_action.text() == "Potluck is stopped."
    assert header.control is Control.START
    assert asked == []
    header.start_button.click()
    desk.until(lambda: bool(asked))
    assert header.sentence.text() == "Starting Potluck."
    desk.engine.start()
    desk.until(lambda: header.control is Control.PAUSE)


def test_a_stopped_engine_that_somebody_else_starts_is_found(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.engine.stop_in_order()
    desk.until(lambda: desk.window.header.control is Control.START)
    desk.engine.start()
    desk.until_connected()
    assert desk.window.header.control is Control.PAUSE


def test_an_engine_that_vanished_is_looked_for_and_its_return_is_noted(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    with desk.qtbot.waitSignal(desk.parts.context.link.nobody_answers, timeout=10_000):
        desk.engine.stop()
    desk.parts.context.launcher.restarted.emit()
    desk.engine.start()
    desk.until_connected()
    assert "ended by itself and was started again" in desk.window.header.error.text()


def test_an_engine_that_says_nothing_is_not_taken_for_current(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.window.show_page("settings")
    link, header = desk.parts.context.link, desk.window.header
    desk.engine.silent.add("ping")
    link.heartbeat.patience_milliseconds = 20
    link.heartbeat.beat()
    desk.until(lambda: link.status.state is LinkState.SILENT)
    assert header.sentence.text() == "Potluck's background part does not answer."
    assert header.detail.text().startswith(f"Shown is the state of {clock(link.status.heard_at)}.")
    assert header.control is Control.NONE
    assert not desk.window.settings.cpu.isEnabled()
    desk.engine.silent.clear()
    link.heartbeat.beat()
    desk.until(lambda: header.control is Control.PAUSE)
    assert desk.engine.hellos == 1
