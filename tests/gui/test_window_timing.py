"""The two lines that a benchmark listens for."""

import pytest

from app.timing import PAINTED, USABLE, StartTeller
from tests.gui.conftest import MakeDesk
from tests.helpers import toy_states

pytestmark = pytest.mark.gui


def test_painted_comes_before_the_engine_and_usable_once_its_state_is_shown(
    make_desk: MakeDesk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = make_desk(toy_states.training(), started=False)
    StartTeller(desk.window, desk.parts.context.link)
    lines: list[str] = []

    def said(line: str) -> bool:
        lines.extend(capsys.readouterr().err.splitlines())
        return line in lines

    desk.until(lambda: said(PAINTED))
    assert lines == [PAINTED]
    desk.engine.start()
    desk.until(lambda: said(USABLE))
    assert desk.parts.context.link.connected
    assert desk.window.home.today.text == "1.94 million tokens"
    desk.window.repaint()
    desk.engine.stop()
    desk.engine.start()
    desk.until(lambda: desk.engine.hellos == 2 and desk.parts.context.link.connected)
    said("")
    assert lines == [PAINTED, USABLE]
