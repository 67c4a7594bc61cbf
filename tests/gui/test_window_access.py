"""The window without a mouse, without sight of colour, and through a screen reader."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QColor, QFont, QFontDatabase
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSlider,
    QApplication,
    QLineEdit,
    QPlainTextEdit,
    QRadioButton,
    QTableView,
    QWidget,
)

from app.desktop.roles import DARK, LIGHT, contrast
from app.widgets.join_sheet import JoinSheet
from tests.gui.conftest import Desk, MakeDesk
from tests.helpers import toy_states

pytestmark = pytest.mark.gui

CONTROLS = (QAbstractButton, QAbstractSlider, QLineEdit, QPlainTextEdit, QTableView)
PAGES = ("home", "projects", "leaderboard", "machine", "settings")


def controls(root: QWidget) -> list[QWidget]:
    found = [child for kind in CONTROLS for child in root.findChildren(kind)]
    return [control for control in found if control.focusPolicy() is not Qt.FocusPolicy.NoFocus]


@pytest.mark.parametrize("name", ["idle", "training", "trouble", "held_back"])
def test_every_control_has_a_name(make_desk: MakeDesk, name: str) -> None:
    desk = make_desk(toy_states.ALL_STATES[name]())
    sheet = JoinSheet(desk.parts.context, toy_states.project(), replaced="", parent=desk.window)
    desk.window.settings.fill()
    names = []
    for control in controls(desk.window):
        interface = QAccessible.queryAccessibleInterface(control)
        spoken = interface.text(QAccessible.Text.Name)
        assert spoken.strip(), f"{type(control).__name__} in {control.parent()} has no name"
        assert "&" not in spoken
        names.append(spoken)
    assert len(names) > 15
    sheet.reject()


def by_arrows(control: QWidget) -> bool:
    """Whether it is one of a group that Tab enters at the chosen one, and that arrows lead through."""
    return isinstance(control, QRadioButton) and control.group() is not None and not control.isChecked()


def tab_stops(desk: Desk) -> list[QWidget]:
    """Where Tab leads, from the top of the window until it comes round."""
    stops: list[QWidget] = []
    for _ in range(60):
        desk.qtbot.keyClick(QApplication.focusWidget() or desk.window, Qt.Key.Key_Tab)
        focus = QApplication.focusWidget()
        assert focus is not None
        if focus in stops:
            return stops
        stops.append(focus)
    raise AssertionError("Tab does not come round")


@pytest.mark.parametrize("page", PAGES)
def test_tab_reaches_every_control_rail_first_then_header_then_page(make_desk: MakeDesk, page: str) -> None:
    desk = make_desk(toy_states.training())
    desk.until(lambda: desk.window.home.chart.plot is not None)
    desk.window.show_page(page)
    desk.qtbot.waitExposed(desk.window)
    desk.window.activateWindow()
    desk.until(lambda: QApplication.activeWindow() is desk.window)
    stops = tab_stops(desk)
    expected = {c for c in controls(desk.window) if c.isVisible() and c.isEnabled() and not by_arrows(c)}
    assert expected <= set(stops), expected - set(stops)
    rail = [stop for stop in stops if desk.window.rail.isAncestorOf(stop)]
    assert [button.accessibleName() for button in rail] == ["Home", "Projects", "Leaderboard", "Machine", "Settings"]
    order = [stops.index(rail[0]), stops.index(desk.window.header.pause_button)]
    on_page = [stops.index(stop) for stop in stops if desk.window.pages[page].isAncestorOf(stop)]
    assert order + sorted(on_page) == sorted(order + on_page)


def test_pages_are_reached_by_keys(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.qtbot.waitExposed(desk.window)
    desk.window.activateWindow()
    desk.until(lambda: QApplication.activeWindow() is desk.window)
    for number, page in enumerate(PAGES, start=1):
        desk.qtbot.keyClick(desk.window, Qt.Key(Qt.Key.Key_0.value + number), Qt.KeyboardModifier.ControlModifier)
        desk.until(lambda page=page: desk.window.page_name == page)  # type: ignore[misc]
        assert desk.window.rail.buttons[page].isChecked()


def test_the_header_keeps_the_focus_when_its_control_changes(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.paused())
    desk.qtbot.waitExposed(desk.window)
    desk.window.activateWindow()
    desk.until(lambda: QApplication.activeWindow() is desk.window)
    desk.window.header.resume_button.setFocus()
    desk.qtbot.keyClick(desk.window.header.resume_button, Qt.Key.Key_Space)
    desk.until(desk.window.header.pause_button.isVisible)
    assert desk.window.header.pause_button.hasFocus()


@pytest.mark.parametrize(("scheme", "roles"), [(Qt.ColorScheme.Light, LIGHT), (Qt.ColorScheme.Dark, DARK)])
def test_the_window_turns_light_and_dark_while_it_runs(
    make_desk: MakeDesk, scheme: Qt.ColorScheme, roles: object
) -> None:
    desk = make_desk(toy_states.training())
    other = Qt.ColorScheme.Dark if scheme is Qt.ColorScheme.Light else Qt.ColorScheme.Light
    desk.parts.context.theme.force(other)
    desk.window.grab()
    desk.parts.context.theme.force(scheme)
    assert desk.parts.context.theme.roles is roles
    image = desk.window.grab().toImage()
    ground = image.pixelColor(desk.window.rail.width() + 4, image.height() - 4).name().upper()
    assert ground == desk.parts.context.theme.roles.background
    ink = desk.window.header.sentence.palette().windowText().color()
    assert contrast(QColor(ink).name(), ground) >= 4.5


def test_large_system_text_makes_large_text(make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QFontDatabase, "systemFont", staticmethod(lambda _kind: QFont("Sans Serif", 16)))
    desk = make_desk(toy_states.training())
    assert desk.parts.context.theme.pixels(14) == 25
    for page in PAGES:
        desk.window.show_page(page)
        assert not desk.window.grab().isNull()
