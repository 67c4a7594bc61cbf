"""Closing, quitting, coming back, and the one window a profile."""

import os
import signal
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QProcess, QProcessEnvironment
from PySide6.QtGui import QGuiApplication
from PySide6.QtNetwork import QLocalSocket

from app.profile import Profile
from app.shell.closing import Closing
from app.timing import USABLE
from app.timing import VARIABLE as TIMING
from engine.contract.links import JoinLink, build_link
from tests.gui.conftest import Desk, MakeDesk
from tests.helpers import toy_states
from tests.helpers.toy_engine import ToyEngine

pytestmark = pytest.mark.gui

LINK = build_link(JoinLink(hub="http://127.0.0.1:9", project=toy_states.PROJECT))


class Ending:
    """Whether the process would have ended."""

    def __init__(self, closing: Closing) -> None:
        self.ended = False
        closing.finished.connect(self._finish)

    def _finish(self) -> None:
        self.ended = True


def test_closing_says_once_that_training_goes_on(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    ending = Ending(desk.parts.closing)
    desk.window.close()
    note = desk.parts.closing.note
    assert note is not None
    assert note.isVisible()
    assert "only once" in note.accessibleDescription()
    note.reject()
    assert desk.window.isVisible()
    assert not desk.parts.context.preferences.closing_note_shown
    desk.window.close()
    assert desk.parts.closing.note is not None
    desk.parts.closing.note.close_button.click()
    desk.until(lambda: ending.ended)
    assert desk.engine.params("engine.stop") == []
    assert desk.parts.context.preferences.closing_note_shown


def test_the_second_close_says_nothing(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.parts.context.preferences.closing_note_shown = True
    ending = Ending(desk.parts.closing)
    desk.window.close()
    assert desk.parts.closing.note is None
    desk.until(lambda: ending.ended)
    assert desk.engine.params("engine.stop") == []


def test_with_a_tray_closing_hides_and_the_tray_brings_back(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training(), tray=True)
    desk.parts.context.preferences.closing_note_shown = True
    ending = Ending(desk.parts.closing)
    desk.window.close()
    assert not desk.window.isVisible()
    assert not ending.ended
    desk.parts.tray.open_action.trigger()
    assert desk.window.isVisible()


def test_nothing_goes_on_so_nothing_is_said(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.idle())
    ending = Ending(desk.parts.closing)
    desk.window.close()
    assert desk.parts.closing.note is None
    desk.until(lambda: ending.ended)


@pytest.mark.parametrize("way", ["tray", "note", "keys"])
def test_stop_and_quit_asks_the_engine_to_end(make_desk: MakeDesk, way: str) -> None:
    desk = make_desk(toy_states.training())
    ending = Ending(desk.parts.closing)
    if way == "tray":
        desk.parts.tray.quit_action.trigger()
    elif way == "keys":
        desk.window.quit_wanted.emit()
    else:
        desk.window.close()
        assert desk.parts.closing.note is not None
        desk.parts.closing.note.stop_button.click()
    assert desk.until_params("engine.stop") == [{}]
    desk.until(lambda: ending.ended)
    assert not desk.window.isVisible()


def test_stop_and_quit_without_an_engine_ends_at_once(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training(), started=False)
    ending = Ending(desk.parts.closing)
    desk.parts.tray.quit_action.trigger()
    assert ending.ended


def test_an_engine_that_goes_before_it_answers_has_ended_too(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.engine.silent.add("engine.stop")
    ending = Ending(desk.parts.closing)
    desk.parts.tray.quit_action.trigger()
    desk.until_params("engine.stop")
    desk.engine.stop()
    desk.until(lambda: ending.ended)


def test_the_window_remembers_its_size(make_desk: MakeDesk) -> None:
    first = make_desk(toy_states.idle())
    first.window.resize(780, 600)
    first.window.close()
    second = make_desk(toy_states.idle(), started=False)
    assert (second.window.width(), second.window.height()) == (780, 600)


def test_garbled_preferences_mean_defaults(make_desk: MakeDesk, tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "window.ini").write_bytes(b"\x00\xff[window\ngeometry=@ByteArray(nonsense)\nclosing_note_shown=7")
    desk = make_desk(toy_states.idle())
    assert not desk.parts.context.preferences.closing_note_shown
    assert desk.window.isVisible()


def test_nonsense_on_the_windows_own_socket_is_ignored(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.idle())
    called: list[str] = []
    desk.parts.instance.called.connect(called.append)
    for data in (b"\xff\x00\n", b"[]\n", b'{"type":"show","link":5}\n', b"y" * 100_000):
        socket = QLocalSocket()
        socket.connectToServer(desk.parts.context.profile.window_address)
        socket.write(data)
        desk.until(lambda s=socket: s.state() is QLocalSocket.LocalSocketState.UnconnectedState)  # type: ignore[misc]
    assert called == []


@pytest.mark.parametrize("tray", [False, True])
def test_a_polite_kill_ends_the_window_without_a_question(make_desk: MakeDesk, tray: bool) -> None:
    desk = make_desk(toy_states.training(), tray=tray)
    ending = Ending(desk.parts.closing)
    desk.parts.closing.end_now()
    assert ending.ended
    assert desk.window.close()
    assert desk.parts.closing.note is None
    assert desk.engine.params("engine.stop") == []


@pytest.mark.parametrize("request_name", ["commitDataRequest", "saveStateRequest"])
def test_a_log_out_closes_the_window_without_a_question(make_desk: MakeDesk, request_name: str) -> None:
    desk = make_desk(toy_states.training(), tray=True)
    ending = Ending(desk.parts.closing)
    assert not desk.window.close()
    assert desk.parts.closing.note is not None
    desk.parts.closing.note.reject()
    app = QGuiApplication.instance()
    assert app is not None
    assert app.receivers(f"2{request_name}(QSessionManager&)") > 0  # 2: Qt's mark of a signal
    desk.parts.closing.on_log_out()  # a session manager cannot be made from here
    assert desk.window.close()
    assert desk.parts.closing.note is None
    assert ending.ended
    assert desk.engine.params("engine.stop") == []


def spawn(home: Path, *arguments: str) -> QProcess:
    process = QProcess()
    environment = QProcessEnvironment.systemEnvironment()
    environment.insert("QT_QPA_PLATFORM", "offscreen")
    environment.insert(TIMING, "1")
    process.setProcessEnvironment(environment)
    process.setWorkingDirectory(str(Path(__file__).resolve().parents[2]))
    process.setProcessChannelMode(QProcess.ProcessChannelMode.MergedChannels)
    process.start(sys.executable, ["-m", "app", "--data-dir", str(home), *arguments])
    return process


def output(process: QProcess) -> str:
    return process.readAll().data().decode()


def test_a_second_start_raises_the_first_window_and_hands_its_link_over(make_desk: MakeDesk) -> None:
    desk: Desk = make_desk(toy_states.idle())
    desk.window.hide()
    second = spawn(desk.parts.context.profile.data_dir, LINK)
    desk.until(lambda: second.state() is QProcess.ProcessState.NotRunning)
    assert second.exitCode() == 0, output(second)
    assert desk.window.isVisible()
    assert desk.parts.links.sheet is not None
    desk.parts.links.sheet.reject()


@pytest.mark.parametrize("ask", [signal.SIGTERM, signal.SIGINT])
def test_the_program_itself_starts_attaches_and_ends_when_asked(
    make_desk: MakeDesk, tmp_path: Path, ask: signal.Signals
) -> None:
    desk = make_desk(toy_states.idle(), started=False)
    home = tmp_path / "own"
    engine = ToyEngine(home, toy_states.training())
    engine.start()
    program = spawn(home, "--attach")
    with desk.qtbot.waitSignal(engine.greeted, timeout=25_000):
        pass
    said: list[str] = []

    def usable() -> bool:
        said.append(output(program))
        return USABLE in "".join(said)

    desk.until(usable)  # a joined project is shown: closing by hand would ask
    assert Profile(home).preferences_file.parent.is_dir()
    with desk.qtbot.waitSignal(engine.lost, timeout=25_000):
        os.kill(program.processId(), ask)
    desk.until(lambda: program.state() is QProcess.ProcessState.NotRunning)
    assert program.exitCode() == 0, output(program)
    assert output(program) == ""
    engine.stop()
