"""What each control asks of the engine, and what it does while the answer is awaited."""

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt

from engine.contract.errors import ErrorBody, ErrorCode
from engine.contract.links import JoinLink, build_link
from engine.contract.reasons import RunState
from engine.contract.snapshot import Status
from tests.gui.conftest import Desk, MakeDesk
from tests.helpers import toy_states

pytestmark = pytest.mark.gui


@pytest.mark.parametrize(("index", "seconds"), [(0, 1800.0), (1, 3600.0), (3, None)])
def test_pause_asks_for_a_time(make_desk: MakeDesk, index: int, seconds: float | None) -> None:
    desk = make_desk(toy_states.training())
    desk.window.header.pause_button.menu().actions()[index].trigger()
    assert desk.until_params("training.pause") == [{"seconds": seconds}]
    desk.until(desk.window.header.resume_button.isVisible)


def test_resume(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.paused())
    desk.window.header.resume_button.click()
    assert desk.until_params("training.resume") == [{}]
    desk.until(desk.window.header.pause_button.isVisible)


def test_a_refused_pause_says_why_beside_the_button(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.engine.errors["training.pause"] = ErrorBody(code=ErrorCode.INTERNAL, params={"report_id": "r7"})
    desk.window.header.pause_button.menu().actions()[0].trigger()
    desk.until(lambda: "r7" in desk.window.header.error.text())
    assert desk.window.header.error.isVisible()


def test_joining_first_says_what_it_means(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.idle())
    desk.window.header.choose_button.click()
    assert desk.window.page_name == "projects"
    cards = {view.card.name: view for view in desk.window.projects.cards}
    assert not cards["folk-songs"].join_button.isEnabled()
    cards["tide-tables"].join_button.click()
    sheet = desk.window.projects.sheet
    assert sheet is not None
    assert desk.engine.params("project.join") == []
    meaning = sheet.accessibleDescription()
    for fact in ("58.0 MB", "network address", "public on the hub", "1.9 GB", "CC-BY-4.0", "pause or leave"):
        assert fact in meaning
    sheet.act_button.click()
    assert not sheet.act_button.isEnabled()
    assert desk.until_params("project.join") == [{"project": "a1" * 32}]
    desk.until(lambda: not sheet.isVisible())


def test_joining_says_who_sees_a_hidden_address(make_desk: MakeDesk) -> None:
    state = toy_states.idle()
    desk = make_desk(replace(state, settings=replace(state.settings, relay_only=True)))
    desk.window.header.choose_button.click()
    cards = {view.card.name: view for view in desk.window.projects.cards}
    cards["tide-tables"].join_button.click()
    sheet = desk.window.projects.sheet
    assert sheet is not None
    assert "other computers do not" in sheet.accessibleDescription()
    assert "Other computers in the project see" not in sheet.accessibleDescription()
    sheet.reject()


def test_a_refused_join_stays_open_with_the_reason(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.idle())
    params = {"url": toy_states.HUB, "detail": "connection refused"}
    desk.engine.errors["project.join"] = ErrorBody(code=ErrorCode.HUB_UNREACHABLE, params=dict(params))
    desk.window.show_page("projects")
    desk.window.projects.cards[0].join_button.click()
    sheet = desk.window.projects.sheet
    assert sheet is not None
    sheet.act_button.click()
    desk.until(lambda: "connection refused" in sheet.error.text())
    assert sheet.isVisible()
    assert sheet.act_button.isEnabled()
    sheet.cancel_button.click()
    assert not sheet.isVisible()


def test_joining_another_project_names_the_one_that_is_left(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.window.show_page("projects")
    desk.window.projects.cards[1].join_button.click()
    sheet = desk.window.projects.sheet
    assert sheet is not None
    assert "You leave Pocket Python" in sheet.accessibleDescription()
    sheet.reject()


@pytest.mark.parametrize(("index", "when"), [(0, "after_round"), (1, "now")])
def test_leaving(make_desk: MakeDesk, index: int, when: str) -> None:
    desk = make_desk(toy_states.training())
    desk.window.show_page("projects")
    view = desk.window.projects.cards[0]
    view.leave_button.menu().actions()[index].trigger()
    assert not view.leave_button.isEnabled()
    assert desk.until_params("project.leave") == [{"when": when}]
    desk.until(view.leave_button.isEnabled)


def test_searching_a_long_catalogue(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.idle())
    cards = [toy_states.project(project_id=f"{i:064x}", title=f"Project {i}") for i in range(100)]
    desk.engine.change(projects=tuple(cards))
    desk.window.show_page("projects")
    desk.until(lambda: len(desk.window.projects.cards) == 60)
    assert desk.window.projects.more.text() == "40 more. Search to find them."
    desk.qtbot.keyClicks(desk.window.projects.search, "project 73")
    assert [view.card.title for view in desk.window.projects.cards] == ["Project 73"]
    desk.qtbot.keyClicks(desk.window.projects.search, "x")
    assert desk.window.projects.empty.text == "No project has these words."


@pytest.mark.parametrize(
    ("state", "index", "method", "params"),
    [
        ("hub_away", 0, "hub.refresh", {}),
        ("trouble", 0, "worker.restart", {}),
        ("trouble", 1, "problem.dismiss", {"problem_id": "p2"}),
    ],
)
def test_a_problem_cards_button(
    make_desk: MakeDesk, state: str, index: int, method: str, params: dict[str, object]
) -> None:
    desk = make_desk(toy_states.ALL_STATES[state]())
    button = desk.window.problems.cards[index].button
    button.click()
    assert not button.isEnabled()
    assert desk.until_params(method) == [params]
    desk.until(button.isEnabled)


# Settings


def drag_to(desk: Desk, share: int) -> None:
    desk.window.settings.cpu.slider.setValue(share // 5)


def test_the_share_takes_effect_at_once_and_says_what_it_is(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.window.show_page("settings")
    row = desk.window.settings.cpu
    assert row.effect.text() == "about 6 of 12 cores, at the lowest priority"
    for share in (55, 60, 65, 75):
        drag_to(desk, share)
    assert row.effect.text() == "about 9 of 12 cores, at the lowest priority"
    assert desk.until_params("settings.change") == [{"changes": {"cpu_share_percent": 75}}]
    desk.until(lambda: desk.engine.state.settings.cpu_share_percent == 75 and not row.pending)
    assert row.share == 75


def test_switches_send_and_follow(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.window.show_page("settings")
    page = desk.window.settings
    page.in_use.switch.click()
    page.battery.switch.click()
    page.upload.switch.click()
    assert desk.until_params("settings.change", 3) == [
        {"changes": {"pause_while_in_use": False}},
        {"changes": {"pause_on_battery": False}},
        {"changes": {"upload_limit_bytes_per_second": None}},
    ]
    desk.until(lambda: page.upload.effect.text() == "Potluck uses what your line has free.")
    assert page.in_use.effect.text() == "Trains while you work, within the smaller share for that time."
    assert not page.upload.field.isEnabled()


def test_downloads_can_be_limited_too(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.window.show_page("settings")
    row = desk.window.settings.download
    assert row.effect.text() == "Others send as fast as both lines allow."
    row.switch.click()
    (sent,) = desk.until_params("settings.change")
    assert set(sent["changes"]) == {"download_limit_bytes_per_second"}


def test_the_upload_limit_is_a_line_rate(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.window.show_page("settings")
    row = desk.window.settings.upload
    assert row.field.text() == "10.0"
    row.field.selectAll()
    desk.qtbot.keyClicks(row.field, "2.4")
    desk.qtbot.keyClick(row.field, Qt.Key.Key_Return)
    assert desk.until_params("settings.change") == [{"changes": {"upload_limit_bytes_per_second": 300_000}}]
    desk.until(lambda: row.effect.text().startswith("At most 2.40 Mbit/s"))
    for nonsense in ("much", "0", "-3", "1e99"):
        row.field.selectAll()
        desk.qtbot.keyClicks(row.field, nonsense)
        desk.qtbot.keyClick(row.field, Qt.Key.Key_Return)
        assert row.error.text().startswith("Enter a number"), nonsense
    assert len(desk.engine.params("settings.change")) == 1


def test_a_name_is_sent_with_enter_and_a_bad_address_is_refused_here(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.window.show_page("settings")
    page = desk.window.settings
    desk.qtbot.keyClicks(page.name.field, "  Grace ")
    assert page.name.save.isEnabled()
    desk.qtbot.keyClick(page.name.field, Qt.Key.Key_Return)
    assert desk.until_params("settings.change") == [{"changes": {"display_name": "Grace"}}]
    desk.until(lambda: desk.engine.state.settings.display_name == "Grace" and not page.name.save.isEnabled())
    page.hub.field.selectAll()
    desk.qtbot.keyClicks(page.hub.field, "ftp://hub")
    page.hub.save.click()
    assert page.hub.error.text().startswith("Hub address was not changed: must begin with http")
    assert len(desk.engine.params("settings.change")) == 1


def test_a_refused_setting_returns_to_what_holds_and_says_why(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.window.show_page("settings")
    body = ErrorBody(code=ErrorCode.BAD_SETTING, params={"name": "pause_on_battery", "detail": "not here"})
    desk.engine.errors["settings.change"] = body
    row = desk.window.settings.battery
    row.switch.click()
    desk.until(row.error.isVisible)
    assert row.error.text() == "Pause on battery was not changed: not here. Choose another value."
    assert row.switch.isChecked()


def test_a_change_from_elsewhere_is_shown_but_not_over_what_is_typed(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.window.show_page("settings")
    page = desk.window.settings
    desk.qtbot.keyClicks(page.name.field, "Half a na")
    changed = {"cpu_share_percent": 25, "pause_on_battery": False}
    desk.engine.change(settings=replace(desk.engine.state.settings, **changed))
    desk.until(lambda: page.cpu.share == 25 and not page.battery.switch.isChecked())
    assert page.name.field.text() == "Half a na"
    assert desk.engine.params("settings.change") == []


# Links


LINK = build_link(JoinLink(hub="http://127.0.0.1:9", project=toy_states.PROJECT))


def test_a_link_waits_for_the_engine_and_asks_before_it_joins(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.idle(), started=False)
    desk.parts.open_link(LINK)
    assert desk.parts.links.sheet is None
    desk.engine.start()
    desk.until(lambda: desk.parts.links.sheet is not None)
    sheet = desk.parts.links.sheet
    assert sheet is not None
    assert desk.window.page_name == "projects"
    assert sheet.windowTitle() == "Join Pocket Python?"
    assert "http://127.0.0.1:9" in sheet.accessibleDescription()
    assert "public on the hub" in sheet.accessibleDescription()
    assert desk.engine.params("link.open") == []
    sheet.act_button.click()
    assert desk.until_params("link.open") == [{"link": LINK}]
    desk.until(lambda: not sheet.isVisible())


@pytest.mark.parametrize("link", ["potluck://join?hub=x", "https://example.org", "potluck://rm?-rf", "x" * 5000])
def test_a_bad_link_is_refused_in_words(make_desk: MakeDesk, link: str) -> None:
    desk = make_desk(toy_states.idle())
    desk.parts.open_link(link)
    assert desk.window.header.error.text().startswith("This link cannot be used")
    assert desk.parts.links.sheet is None


@pytest.mark.parametrize("way", ["page", "time", "success", "good link", "loss"])
def test_a_refusal_does_not_stay_for_ever(make_desk: MakeDesk, way: str) -> None:
    desk = make_desk(toy_states.training())
    error = desk.window.header.error
    desk.window.settings.fill()
    desk.parts.open_link("https://example.org")
    assert error.isVisible()
    if way == "page":
        desk.window.show_page("home")
    elif way == "time":
        assert error.timer.isActive()
        error.timer.timeout.emit()
    elif way == "success":
        desk.window.settings.battery.switch.click()
        desk.until(lambda: not error.text())
    elif way == "good link":
        desk.parts.open_link(LINK)
    else:
        desk.engine.stop()
        desk.until(lambda: not error.text())
    assert not error.isVisible()
    assert error.text() == ""
    assert not error.timer.isActive()


def test_a_link_can_be_pasted_and_goes_through_the_same_sheet(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.idle())
    desk.window.show_page("projects")
    card = desk.window.projects.link
    assert not card.button.isEnabled()
    card.field.setText("https://example.org")
    card.button.click()
    assert desk.window.header.error.text().startswith("This link cannot be used")
    assert card.field.text() == "https://example.org"
    card.field.setText(f"  {LINK} ")
    desk.qtbot.keyClick(card.field, Qt.Key.Key_Return)
    sheet = desk.parts.links.sheet
    assert sheet is not None
    assert sheet.isVisible()
    assert card.field.text() == ""
    assert not desk.window.header.error.isVisible()
    sheet.act_button.click()
    assert desk.until_params("link.open") == [{"link": LINK}]


# Tray


def test_the_tray_pauses_resumes_and_tells_the_state_by_shape(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    tray = desk.parts.tray
    assert tray.icon_name == "mark"
    assert tray.status_action.text() == "Training \N{EN DASH} about 4,120 tokens/s"
    tray.pause_menu.actions()[1].trigger()
    assert desk.until_params("training.pause") == [{"seconds": 3600.0}]
    desk.until(lambda: tray.icon_name == "mark-paused")
    assert tray.status_action.text() == "Paused \N{EN DASH} You paused it."
    tray.resume_action.trigger()
    assert desk.until_params("training.resume") == [{}]
    desk.until(lambda: tray.icon_name == "mark")
    desk.engine.change(status=Status(state=RunState.PROBLEM))
    desk.until(lambda: tray.icon_name == "mark-problem")
    desk.engine.stop()
    desk.until(lambda: tray.icon_name == "mark-waiting")
    assert not tray.icon.icon().pixmap(16, 16).isNull()
