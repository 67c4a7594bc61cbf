"""Every page of every state, and what patches change on it."""

import msgspec
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtWidgets import QLabel

from app.shell.main_window import LEAST_SIZE
from app.widgets.state_header import Control
from app.words import state_sentence
from engine.contract.reasons import Reason, ReasonCode, RunState
from engine.contract.snapshot import CurvePoint, HubStatus, Leaderboard, Status
from tests.gui.conftest import Desk, MakeDesk
from tests.helpers import toy_states

pytestmark = pytest.mark.gui

PAGES = ("home", "projects", "leaderboard", "machine", "settings")


def texts(desk: Desk) -> str:
    """All words that the shown page and the header show."""
    return "\n".join(label.text() for label in desk.window.findChildren(QLabel) if label.isVisible())


@pytest.mark.parametrize("name", toy_states.ALL_STATES)
def test_every_page_of_every_state_is_painted(make_desk: MakeDesk, name: str) -> None:
    desk = make_desk(toy_states.ALL_STATES[name]())
    for page in PAGES:
        desk.window.show_page(page)
        image = desk.window.grab().toImage()
        colours = {
            image.pixelColor(x, y).name() for x in range(0, image.width(), 9) for y in range(0, image.height(), 9)
        }
        assert len(colours) > 4, page
        assert texts(desk)
        assert "{" not in texts(desk)
        assert "%n" not in texts(desk)


def test_without_an_engine_every_page_is_there_and_says_so(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training(), started=False)
    desk.until(lambda: desk.window.header.sentence.text() == "Starting Potluck.")
    assert desk.window.header.control is Control.NONE
    for page in PAGES:
        desk.window.show_page(page)
        assert not desk.window.grab().isNull()
    assert not desk.window.settings.cpu.isEnabled()
    assert desk.window.projects.empty.text == "Projects appear here when Potluck's background part answers."


@pytest.mark.parametrize(
    ("name", "head", "control"),
    [
        ("idle", "Ready.", Control.CHOOSE),
        ("training", "Training with 2 other computers.", Control.PAUSE),
        ("paused", "Paused.", Control.RESUME),
        ("on_battery", "Paused.", Control.PAUSE),
        ("trouble", "Stopped.", Control.NONE),
        ("hub_away", "Training with 2 other computers.", Control.PAUSE),
    ],
)
def test_the_header_says_state_and_offers_one_control(
    make_desk: MakeDesk, name: str, head: str, control: Control
) -> None:
    desk = make_desk(toy_states.ALL_STATES[name]())
    header = desk.window.header
    assert header.sentence.text() == head
    assert header.control is control
    shown = [
        b
        for b in (header.pause_button, header.resume_button, header.choose_button, header.retry_button)
        if b.isVisible()
    ]
    assert len(shown) == (control is not Control.NONE)


def test_home_shows_what_the_engine_counts(make_desk: MakeDesk) -> None:
    home = make_desk(toy_states.training()).window.home
    assert home.today.text == "1.94 million tokens"
    assert home.today.detail == "1.87 million of it in finished rounds"
    assert home.rounds.text == "49"
    assert "with 3 computers" in home.rounds.detail
    assert home.pace.text == "4,120 tokens/s"
    assert home.next_round.text.startswith("62")
    assert home.losses.text() == "training 1.741, held-out 1.803"
    assert home.written.text.toPlainText().startswith("def set_value(self, name, value):")
    rows = [[home.peers_model.index(r, c).data() for c in range(5)] for r in range(2)]
    assert rows == [
        ["Ada's attic", "direct", "64", "46.2", "38 ms"],
        [f"Unnamed ({toy_states.LIN[:6]})", "relayed", "64", "18.9", "112 ms"],
    ]


def test_the_curve_is_drawn_marked_and_read_by_keyboard(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.until(lambda: desk.window.home.chart.plot is not None)
    plot = desk.window.home.chart.plot
    assert plot is not None
    points = toy_states.curve()
    assert plot.view.training.steps == [p.global_step for p in points]
    assert plot.view.mine.steps == [p.global_step for p in points if p.mine]
    assert len(plot.view.held_out.steps) == len(points) // 4
    plot.setFocus()
    desk.qtbot.keyClick(plot, Qt.Key.Key_Home)
    assert plot.reading.text().startswith("Round 1, ")
    desk.qtbot.keyClick(plot, Qt.Key.Key_Right)
    assert plot.reading.text().startswith("Round 2, ")
    assert plot.accessibleDescription().startswith("Round 2, ")
    desk.qtbot.keyClick(plot, Qt.Key.Key_End)
    assert f"Training loss {points[-1].train_loss:.3f}" in plot.reading.text()
    assert "Your work is in it" in plot.reading.text()


def test_the_pointer_reads_the_curve_and_leaves_no_trace(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.until(lambda: desk.window.home.chart.plot is not None)
    plot = desk.window.home.chart.plot
    assert plot is not None
    desk.until(lambda: plot.isVisible() and plot.width() > 300)
    box = plot.plot.getPlotItem().getViewBox()
    spot = box.mapViewToScene(QPointF(30.2, 2.5))
    plot.plot.scene().sigMouseMoved.emit(spot)
    assert plot.reading.isVisible()
    assert plot.reading.text().startswith("Round 30, ")
    plot.plot.scene().sigMouseMoved.emit(QPointF(-50, -50))
    assert not plot.reading.isVisible()


def test_a_round_that_ends_is_on_the_curve(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.until(lambda: desk.window.home.chart.plot is not None)
    plot = desk.window.home.chart.plot
    assert plot is not None
    new = CurvePoint(
        global_step=65, at=toy_states.NOW, train_loss=1.7, held_out_loss=1.79, tokens_total=6_500_000, mine=True
    )
    desk.engine.patch(("curve",), [msgspec.to_builtins(new)], "append")
    desk.until(lambda: plot.view.points[-1] == new)
    assert plot.view.mine.steps[-1] == 65


def test_a_curve_without_points_says_when_there_will_be_some(make_desk: MakeDesk) -> None:
    state = msgspec.structs.replace(toy_states.training(), curve=(), session=toy_states.session(sample=None, peers=()))
    home = make_desk(state).window.home
    assert home.chart.currentWidget() is home.chart.empty
    assert home.chart.empty.text == "The curve begins with the first finished round."
    assert home.written.empty.text == "The first sample comes a few rounds after training begins."
    assert home.peers_empty.text == "Looking for other computers in this project."


def test_patches_move_the_window_from_state_to_state(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.idle())
    assert desk.window.home.welcome.isVisible()
    desk.engine.change(session=toy_states.session(), status=Status(state=RunState.TRAINING))
    desk.until(lambda: desk.window.header.control is Control.PAUSE and not desk.window.home.welcome.isVisible())
    reason = Reason(code=ReasonCode.ON_BATTERY)
    desk.engine.change(status=Status(state=RunState.PAUSED, reasons=(reason,)))
    desk.until(lambda: desk.window.header.detail.text() == "You are on battery. Resumes when plugged in.")
    desk.engine.patch(("session", "my_tokens_per_second"), 55.5)
    desk.until(lambda: desk.window.home.pace.text == "55.5 tokens/s")


def test_the_board_follows_and_keeps_the_selection_while_rows_stay(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    page = desk.window.leaderboard
    desk.window.show_page("leaderboard")
    assert page.model.my_row == 1
    assert page.model.index(1, 1).data() == "Unnamed (you)"
    assert page.place.text() == "You are number 2 of 3, with 1.83 million verified tokens."
    page.show_me.click()
    row = msgspec.structs.replace(toy_states.board().rows[1], verified_tokens=1_900_000, name="Grace")
    rows = (toy_states.board().rows[0], row, toy_states.board().rows[2])
    desk.engine.change(leaderboard=Leaderboard(project_id=toy_states.PROJECT, rows=rows, fetched_at=1.0))
    desk.until(lambda: page.model.index(1, 3).data() == "1,900,000")
    assert page.model.index(1, 1).data() == "Grace (you)"
    assert [index.row() for index in page.table.selectionModel().selectedRows()] == [1]


def test_ten_thousand_rows_make_no_ten_thousand_widgets(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    page = desk.window.leaderboard
    desk.window.show_page("leaderboard")
    before = len(page.findChildren(QLabel))
    asked: list[int] = []
    text = page.model.columns[1].text
    object.__setattr__(page.model.columns[1], "text", lambda row: asked.append(row.rank) or text(row))
    page.model.show_rows(toy_states.board(10_000).rows)
    desk.window.grab()
    assert page.model.rowCount() == 10_000
    assert len(page.findChildren(QLabel)) == before
    assert 0 < len(set(asked)) < 200


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"hub": HubStatus(url="", connected=False)}, "No hub is set."),
        ({"hub": HubStatus(url="http://h", connected=False)}, "The hub cannot be reached."),
        ({}, "The hub has no projects yet."),
    ],
)
def test_an_empty_catalogue_says_why(make_desk: MakeDesk, changes: dict[str, object], text: str) -> None:
    state = msgspec.structs.replace(toy_states.idle(), projects=(), **changes)
    desk = make_desk(state)
    desk.window.show_page("projects")
    assert desk.window.projects.empty.text.startswith(text)
    assert desk.window.projects.settings_button.isVisible() == (text == "No hub is set.")
    if text == "No hub is set.":
        desk.window.projects.settings_button.click()
        assert desk.window.page_name == "settings"


def test_machine_says_what_it_cannot_read(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.on_battery())
    desk.window.show_page("machine")
    readings = desk.window.machine.readings
    assert readings["heat"].figure.text == "cannot read"
    assert readings["idle"].figure.text == "cannot read"
    assert readings["power"].figure.text == "On battery"
    assert dict(desk.window.machine.own.facts)["Engine memory"] == "92.4 MB"
    assert "not checked yet" in dict(desk.window.machine.own.facts)["Reached by others"]
    assert not readings["heat"].meter.isVisible()
    desk.engine.change(machine=toy_states.machine(temperature_celsius=71.4, gpus=()))
    desk.until(lambda: readings["heat"].figure.text == "71 °C")
    assert desk.window.machine.no_gpu.text() == "None found. Training uses the processor."


def test_problems_are_cards_on_home_and_a_badge_on_the_rail(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.trouble())
    assert [card.problem.problem_id for card in desk.window.problems.cards] == ["p1", "p2"]
    assert desk.window.rail.buttons["home"].badge == 2
    assert desk.window.rail.buttons["home"].accessibleDescription() == "2 things need you"
    desk.engine.change(problems=(toy_states.keyring_problem(),))
    desk.until(lambda: len(desk.window.problems.cards) == 1)
    assert desk.window.rail.buttons["home"].accessibleDescription() == "1 thing needs you"
    desk.engine.change(problems=())
    desk.until(lambda: not desk.window.problems.isVisible())


def test_hostile_text_stays_text_and_the_page_keeps_its_width(make_desk: MakeDesk) -> None:
    nasty = "<img src='file:///etc/passwd'><h1>" + "W" * 3000
    card = toy_states.project(title=nasty, summary=nasty, publisher=nasty, licence=nasty, data_summary=nasty)
    sample = msgspec.structs.replace(toy_states.session().sample, text=nasty, prompt="<b>")
    state = msgspec.structs.replace(
        toy_states.training(), projects=(card,), session=toy_states.session(title=nasty, sample=sample)
    )
    desk = make_desk(state)
    for page in PAGES:
        desk.window.show_page(page)
        desk.window.grab()
        for label in desk.window.findChildren(QLabel):
            assert label.textFormat() is Qt.TextFormat.PlainText, label.text()
        inner = desk.window.pages[page].column.parentWidget()
        assert inner is not None
        assert inner.width() <= desk.window.width() - desk.window.rail.width(), page
    assert desk.window.minimumSizeHint().width() <= LEAST_SIZE.width()


def test_the_header_keeps_its_height_from_state_to_state(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.idle())
    heights = set()
    for name in ("idle", "training", "paused", "on_battery", "trouble"):
        state = toy_states.ALL_STATES[name]()
        desk.engine.change(session=state.session, status=state.status)
        shown = state_sentence(state)
        desk.until(lambda s=shown: desk.window.header.accessibleName() == str(s))  # type: ignore[misc]
        desk.window.grab()
        heights.add((desk.window.header.height(), desk.window.header.y()))
    assert len(heights) == 1, heights


def test_a_download_of_the_model_is_called_so(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.idle())
    desk.window.show_page("projects")
    assert "Model download" in texts(desk)
