"""A whole window over a toy engine, built anew for each test and let go of at its end."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from PySide6.QtCore import QLocale
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.bootstrap import Options, Parts, build
from app.profile import Profile
from app.shell.main_window import MainWindow
from engine.contract.snapshot import EngineState
from tests.helpers.toy_engine import ToyEngine

WAIT_MILLISECONDS = 10_000


@dataclass
class Desk:
    """What a test has before it."""

    qtbot: QtBot
    engine: ToyEngine
    parts: Parts

    @property
    def window(self) -> MainWindow:
        return self.parts.window

    def until(self, condition: Callable[[], bool]) -> None:
        """Let the event loop run until `condition` holds."""
        self.qtbot.waitUntil(condition, timeout=WAIT_MILLISECONDS)

    def until_connected(self) -> None:
        self.until(lambda: self.parts.context.link.connected)

    def until_params(self, method: str, count: int = 1) -> list[dict[str, object]]:
        """Parameters of the requests of a method, once there are `count`."""
        self.until(lambda: len(self.engine.params(method)) >= count)
        return self.engine.params(method)


MakeDesk = Callable[..., Desk]


@pytest.fixture
def make_desk(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> Iterator[MakeDesk]:
    """`make_desk(state, started=True, connected=True, **options)`."""
    desks: list[Desk] = []
    locale = QLocale()

    def make(
        state: EngineState, *, started: bool = True, connected: bool = True, tray: bool = False, version: int = 0
    ) -> Desk:
        home = tmp_path / "w"
        engine = ToyEngine(home, state, **({"contract_version": version} if version else {}))
        home.mkdir(exist_ok=True)
        if started:
            engine.start()
        parts = build(qapp, Profile(home), Options(start_engine=False, tray=tray))
        parts.closing.finished.disconnect(qapp.quit)
        parts.instance.listen()
        desk = Desk(qtbot, engine, parts)
        desks.append(desk)
        parts.start()
        if started and connected:
            desk.until_connected()
        return desk

    yield make
    for desk in desks:
        desk.parts.end()
        desk.engine.stop()
        desk.window.may_close = True
        desk.window.close()
        for translator in desk.parts.translators:
            qapp.removeTranslator(translator)
        desk.window.deleteLater()
    desks.clear()
    QLocale.setDefault(locale)
    qapp.processEvents()
    gc.collect()
