"""Limits in the window: presets, schedules, programs, overrides, reasons, history, measuring; all of it by keyboard."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QApplication, QLabel, QMenu

from app.pages.machine_history import now
from app.pages.setting_amounts import AmountRow, OptionalAmountRow
from app.pages.setting_apps import AppsRow
from app.pages.setting_choices import ChoiceRow
from app.pages.setting_rows import SettingRow
from app.pages.setting_schedule import ScheduleRow
from app.pages.settings_how_much import PresetRow
from app.widgets.week_grid import WeekGrid
from engine.contract.errors import ErrorBody, ErrorCode
from engine.contract.presets import PRESET_VALUES
from engine.contract.reasons import Reason, ReasonCode, RunState
from engine.contract.snapshot import EngineState, GovernorState, Measurement, Settings, Status
from engine.contract.week import ALL_DAY, NIGHTS
from tests.gui.conftest import Desk, MakeDesk
from tests.helpers import toy_states

pytestmark = pytest.mark.gui


def settings_desk(make_desk: MakeDesk, state: EngineState | None = None) -> Desk:
    desk = make_desk(state or toy_states.training())
    desk.window.show_page("settings")
    return desk


def changes(desk: Desk, count: int) -> Sequence[object]:
    return [params["changes"] for params in desk.until_params("settings.change", count)]


def schedule(desk: Desk, name: str = "compute_schedule") -> ScheduleRow:
    row = desk.window.settings.row(name)
    assert isinstance(row, ScheduleRow)
    return row


# Presets


def test_choosing_a_preset_sets_all_that_it_says(make_desk: MakeDesk) -> None:
    desk = settings_desk(make_desk)
    row = desk.window.settings.row("preset")
    assert isinstance(row, PresetRow)
    assert row.picker.preset == "balanced"
    row.picker.cards["quiet"].click()
    assert changes(desk, 1) == [{"preset": "quiet"}]
    desk.until(lambda: desk.window.settings.cpu.share == PRESET_VALUES["quiet"]["cpu_share_percent"])
    assert row.picker.preset == "quiet"
    desk.engine.change(settings=replace(desk.engine.state.settings, preset="custom", cpu_share_percent=35))
    desk.until(lambda: row.picker.preset == "")
    assert row.effect.text().startswith("You have set limits of your own")


def test_presets_are_a_group_for_the_arrow_keys(make_desk: MakeDesk) -> None:
    desk = settings_desk(make_desk)
    row = desk.window.settings.row("preset")
    assert isinstance(row, PresetRow)
    desk.qtbot.waitExposed(desk.window)
    desk.window.activateWindow()
    desk.until(lambda: QApplication.activeWindow() is desk.window)
    card = row.picker.cards["balanced"]
    card.setFocus()
    desk.qtbot.keyClick(card, Qt.Key.Key_Right)
    assert changes(desk, 1) == [{"preset": "full_when_away"}]
    spoken = QAccessible.queryAccessibleInterface(row.picker.cards["quiet"])
    assert spoken.role() == QAccessible.Role.RadioButton
    assert "25" in spoken.text(QAccessible.Text.Description)


# The week


def test_the_week_by_keyboard(make_desk: MakeDesk) -> None:
    desk = settings_desk(make_desk)
    row = schedule(desk)
    row.more.click()
    grid = row.grid
    desk.until(grid.isVisible)
    grid.setFocus()
    grid.setCurrentIndex(grid.week.index(0, 0))
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Space):
        desk.qtbot.keyClick(grid, key)
    week = (ALL_DAY, ALL_DAY & ~2, *(ALL_DAY,) * 5)
    assert changes(desk, 1) == [{"compute_schedule": list(week)}]
    desk.until(lambda: not row.pending)
    desk.qtbot.keyClick(grid, Qt.Key.Key_Space)
    assert changes(desk, 2)[1] == {"compute_schedule": []}
    desk.until(lambda: not row.pending)
    desk.qtbot.keyClick(grid, Qt.Key.Key_Space, Qt.KeyboardModifier.ShiftModifier)
    assert changes(desk, 3)[2] == {"compute_schedule": [ALL_DAY, 0, *[ALL_DAY] * 5]}
    desk.until(lambda: not row.pending)
    desk.qtbot.keyClick(grid, Qt.Key.Key_Space, Qt.KeyboardModifier.ControlModifier)
    assert changes(desk, 4)[3] == {"compute_schedule": [ALL_DAY, 2, *[ALL_DAY] * 5]}
    desk.until(lambda: row.button.text() == "Own hours")


def test_several_hours_are_switched_at_once(make_desk: MakeDesk) -> None:
    desk = settings_desk(make_desk)
    row = schedule(desk)
    row.open_hours()
    grid = row.grid
    grid.setCurrentIndex(grid.week.index(5, 22))
    shift = Qt.KeyboardModifier.ShiftModifier
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Down):
        desk.qtbot.keyClick(grid, key, shift)
    desk.qtbot.keyClick(grid, Qt.Key.Key_Space)
    late = ALL_DAY & ~(3 << 22)
    assert changes(desk, 1) == [{"compute_schedule": [*[ALL_DAY] * 5, late, late]}]


def centre(grid: WeekGrid, day: int, hour: int) -> QPoint:
    return grid.visualRect(grid.week.index(day, hour)).center()


def test_the_week_with_the_pointer(make_desk: MakeDesk) -> None:
    desk = settings_desk(make_desk)
    row = schedule(desk, "network_schedule")
    row.open_hours()
    grid = row.grid
    desk.until(lambda: grid.isVisible() and grid.height() >= grid.sizeHint().height())
    area = grid.viewport()
    desk.qtbot.mousePress(area, Qt.MouseButton.LeftButton, pos=centre(grid, 0, 8))
    desk.qtbot.mouseMove(area, centre(grid, 6, 20))
    desk.qtbot.mouseMove(area, centre(grid, 4, 17))
    assert desk.engine.params("settings.change") == []
    desk.qtbot.mouseRelease(area, Qt.MouseButton.LeftButton, pos=centre(grid, 4, 17))
    office = ALL_DAY & ~sum(1 << hour for hour in range(8, 18))
    assert changes(desk, 1) == [{"network_schedule": [*[office] * 5, ALL_DAY, ALL_DAY]}]
    desk.until(lambda: row.button.text() == "Outside office hours" and not row.pending)
    head = grid.verticalHeader()
    spot = QPoint(head.width() // 2, head.sectionViewportPosition(6) + 5)
    desk.qtbot.mouseClick(head.viewport(), Qt.MouseButton.LeftButton, pos=spot)
    assert changes(desk, 2)[1] == {"network_schedule": [*[office] * 5, ALL_DAY, 0]}


def test_the_week_is_a_table_to_screen_readers(make_desk: MakeDesk) -> None:
    desk = settings_desk(make_desk, replace(toy_states.training(), settings=Settings(compute_schedule=NIGHTS)))
    row = schedule(desk)
    row.open_hours()
    spoken = QAccessible.queryAccessibleInterface(row.grid)
    assert spoken.role() == QAccessible.Role.Table
    assert spoken.text(QAccessible.Text.Name) == "Training hours. Every day until 07:00 and from 22:00."
    cells = [spoken.child(index) for index in range(spoken.childCount())]
    names = [cell.text(QAccessible.Text.Name) for cell in cells if cell.role() == QAccessible.Role.Cell]
    assert len(names) == 7 * 24
    assert names[24 + 12] == "Tuesday, 12:00 to 13:00: not allowed"


def test_usual_times_need_no_grid(make_desk: MakeDesk) -> None:
    desk = settings_desk(make_desk)
    row = schedule(desk)
    assert not row.hours.isVisible()
    row.button.menu().actions()[1].trigger()
    assert changes(desk, 1) == [{"compute_schedule": list(NIGHTS)}]
    desk.until(lambda: row.effect.text() == "Every day until 07:00 and from 22:00. 63 hours a week.")
    assert row.button.accessibleName() == "Training hours: At night"


def test_an_empty_week_stays_drawn_with_the_reason_until_it_can_be_had(make_desk: MakeDesk) -> None:
    weekend = replace(toy_states.training(), settings=Settings(compute_schedule=(0, 0, 0, 0, 0, 0, 1)))
    desk = settings_desk(make_desk, weekend)
    row = schedule(desk)
    row.open_hours()
    row.grid.setCurrentIndex(row.grid.week.index(6, 0))
    desk.qtbot.keyClick(row.grid, Qt.Key.Key_Space)
    assert "No hour of the week is left for training" in row.error.text()
    desk.engine.change(machine=toy_states.machine(idle_seconds=9.0))
    desk.until(lambda: "here now" in desk.window.settings.row("away_after_seconds").effect.text())
    assert not any(row.grid.week.masks)
    assert desk.engine.params("settings.change") == []
    row.grid.setCurrentIndex(row.grid.week.index(2, 3))
    desk.qtbot.keyClick(row.grid, Qt.Key.Key_Space)
    assert changes(desk, 1) == [{"compute_schedule": [0, 0, 8, 0, 0, 0, 0]}]
    assert row.error.text() == ""


def test_hours_without_an_hour_in_common_are_refused_beside_the_row(make_desk: MakeDesk) -> None:
    desk = settings_desk(make_desk, replace(toy_states.training(), settings=Settings(compute_schedule=NIGHTS)))
    row = schedule(desk, "network_schedule")
    row.open_hours()
    row.grid.week.show(tuple(ALL_DAY & ~mask for mask in NIGHTS))
    row.grid.setCurrentIndex(row.grid.week.index(0, 12))
    desk.qtbot.keyClick(row.grid, Qt.Key.Key_Space)
    assert "have no hour in common" in row.error.text()
    assert desk.engine.params("settings.change") == []


# Programs, amounts, choices


def apps_row(desk: Desk) -> AppsRow:
    row = desk.window.settings.row("exclusive_apps")
    assert isinstance(row, AppsRow)
    return row


def test_programs_are_added_and_removed(make_desk: MakeDesk) -> None:
    desk = settings_desk(make_desk)
    row = apps_row(desk)
    assert not row.add.isEnabled()
    desk.qtbot.keyClicks(row.field, " blender ")
    desk.qtbot.keyClick(row.field, Qt.Key.Key_Return)
    assert changes(desk, 1) == [{"exclusive_apps": ["blender"]}]
    desk.until(lambda: desk.engine.state.settings.exclusive_apps == ("blender",) and not row.pending)
    assert row.field.text() == ""
    assert row.removes["blender"].accessibleName() == "Remove: blender"
    row.removes["blender"].click()
    assert changes(desk, 2)[1] == {"exclusive_apps": []}
    desk.until(lambda: row.apps == () and not row.pending)


def test_a_program_that_always_runs_is_refused_and_stays_in_the_field(make_desk: MakeDesk) -> None:
    desk = settings_desk(make_desk)
    row = apps_row(desk)
    desk.qtbot.keyClicks(row.field, "explorer.exe")
    row.add.click()
    assert "explorer.exe always runs" in row.error.text()
    assert row.field.text() == "explorer.exe"
    assert row.apps == ()
    assert desk.engine.params("settings.change") == []


def test_a_list_refused_by_the_engine_returns_to_what_holds(make_desk: MakeDesk) -> None:
    desk = settings_desk(make_desk)
    row = apps_row(desk)
    body = ErrorBody(code=ErrorCode.BAD_SETTING, params={"name": "exclusive_apps", "detail": "not now"})
    desk.engine.errors["settings.change"] = body
    desk.qtbot.keyClicks(row.field, "blender")
    row.add.click()
    desk.until(lambda: row.error.text() != "")
    assert row.apps == ()


def test_amounts_are_typed_in_their_unit(make_desk: MakeDesk) -> None:
    desk = settings_desk(make_desk)
    row = desk.window.settings.row("disk_limit_bytes")
    assert isinstance(row, AmountRow)
    assert row.field.text() == "20"
    row.field.selectAll()
    desk.qtbot.keyClicks(row.field, "35.5")
    desk.qtbot.keyClick(row.field, Qt.Key.Key_Return)
    assert changes(desk, 1) == [{"disk_limit_bytes": 35_500_000_000}]
    desk.until(lambda: not row.pending)
    row.field.selectAll()
    desk.qtbot.keyClicks(row.field, "0.2")
    desk.qtbot.keyClick(row.field, Qt.Key.Key_Return)
    assert row.error.text() == "Enter a number from 1 to 10,000."
    assert len(desk.engine.params("settings.change")) == 1


def test_a_data_limit_and_a_price_can_be_off(make_desk: MakeDesk) -> None:
    desk = settings_desk(make_desk)
    cap = desk.window.settings.row("data_cap_bytes")
    price = desk.window.settings.row("electricity_price_per_kwh")
    assert isinstance(cap, OptionalAmountRow)
    assert isinstance(price, OptionalAmountRow)
    assert cap.switch.isChecked()
    cap.switch.click()
    assert changes(desk, 1) == [{"data_cap_bytes": None}]
    desk.until(lambda: not cap.field.isEnabled() and not cap.pending)
    days = desk.window.settings.row("data_cap_days")
    assert days.effect.text() == "Has no effect now: there is no data limit."
    price.switch.click()
    assert changes(desk, 2)[1] == {"electricity_price_per_kwh": 0.3}
    desk.until(lambda: "0.13" in price.effect.text())


def test_a_choice_shows_also_what_is_none_of_its_own(make_desk: MakeDesk) -> None:
    desk = settings_desk(make_desk)
    row = desk.window.settings.row("away_after_seconds")
    assert isinstance(row, ChoiceRow)
    row.actions_of[600].trigger()
    assert changes(desk, 1) == [{"away_after_seconds": 600}]
    desk.until(lambda: row.button.text() == "10 min" and not row.pending)
    desk.engine.change(settings=replace(desk.engine.state.settings, away_after_seconds=420))
    desk.until(lambda: row.button.text() == "7 min")
    assert not any(action.isChecked() for action in row.actions_of.values())
    assert row.button.accessibleName() == "Away after: 7 min"


# Search and outlook


def shown_rows(desk: Desk) -> list[str]:
    return [row.name for row in desk.window.settings.rows if row.isVisible()]


def test_searching_settings(make_desk: MakeDesk) -> None:
    desk = settings_desk(make_desk)
    everything = shown_rows(desk)
    assert len(everything) == len(desk.window.settings.rows)
    search = desk.window.settings.search
    desk.qtbot.keyClicks(search, "memory")
    assert shown_rows(desk) == ["memory_away_percent", "memory_in_use_percent", "memory_free_bytes"]
    search.clear()
    desk.qtbot.keyClicks(search, "heat")
    assert shown_rows(desk) == ["heat_target_cpu_celsius", "heat_target_gpu_celsius", ""]
    search.clear()
    desk.qtbot.keyClicks(search, "zebra")
    assert desk.window.settings.nothing.text() == "No setting has these words."
    assert desk.window.settings.nothing.isVisible()
    desk.qtbot.keyClick(search, Qt.Key.Key_Escape)
    assert shown_rows(desk) == everything


def test_what_yesterday_would_have_been_is_asked_for_and_follows_the_settings(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.engine.results["settings.preview"] = toy_states.preview()
    assert desk.engine.params("settings.preview") == []
    desk.window.show_page("settings")
    outlook = desk.window.settings.outlook
    desk.until(lambda: "about 6.5 h yesterday" in outlook.yesterday.text())
    assert outlook.isVisible()
    desk.engine.results["settings.preview"] = replace(toy_states.preview(), worked_seconds=3 * 3600.0)
    desk.engine.change(settings=replace(desk.engine.state.settings, cpu_share_percent=10))
    desk.until(lambda: "about 3.0 h yesterday" in outlook.yesterday.text())


@pytest.mark.parametrize("result", [None, {"worked_seconds": "many"}, [1, 2]])
def test_an_answer_that_is_no_preview_is_no_sentence(make_desk: MakeDesk, result: object) -> None:
    desk = make_desk(toy_states.training())
    desk.engine.results["settings.preview"] = result
    desk.window.show_page("settings")
    desk.until_params("settings.preview")
    desk.engine.change(today=toy_states.training().today)
    desk.until(lambda: not desk.window.settings.outlook.isVisible())


def test_settings_that_can_never_work_here_say_so(make_desk: MakeDesk) -> None:
    desk = settings_desk(make_desk, replace(toy_states.training(), settings=Settings(memory_free_bytes=32 * 10**9)))
    outlook = desk.window.settings.outlook
    assert "not more than what is to stay free" in outlook.impossible.text()
    assert outlook.isVisible()


# Reasons, pause, override


def test_all_reasons_are_listed_and_more_than_two_disclosed(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.held_back())
    reasons = desk.window.header.reasons
    assert len(reasons.sentences) == 4
    assert reasons.shown == list(reasons.sentences[:2])
    assert reasons.more.text() == "2 more reasons"
    reasons.more.click()
    assert reasons.shown == list(reasons.sentences)
    for sentence in reasons.sentences:
        assert sentence in desk.window.header.accessibleName()
    status = Status(state=RunState.PAUSED, reasons=(Reason(code=ReasonCode.ON_BATTERY),))
    desk.engine.change(status=status, governor=GovernorState(reasons=status.reasons))
    desk.until(lambda: desk.window.header.detail.text() == "You are on battery. Resumes when plugged in.")
    assert not reasons.isVisible()
    assert not desk.window.header.anyway_button.isVisible()


def texts(menu: QMenu) -> list[str]:
    return [action.text() for action in menu.actions()]


def test_the_pause_menu_is_the_same_in_window_and_tray(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    menu = desk.window.header.pause_button.menu()
    assert isinstance(menu, QMenu)
    assert texts(menu) == texts(desk.parts.tray.pause_menu)
    assert len(texts(menu)) == 4
    menu.actions()[2].trigger()
    seconds = desk.until_params("training.pause")[0]["seconds"]
    assert isinstance(seconds, float)
    assert 0 < seconds <= 32 * 3600


def test_work_anyway_and_back_from_the_window(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.held_back())
    header, banner = desk.window.header, desk.window.banner
    assert header.anyway_button.isVisible()
    assert not banner.isVisible()
    menu = header.anyway_button.menu()
    assert isinstance(menu, QMenu)
    menu.actions()[1].trigger()
    assert desk.until_params("training.override") == [{"seconds": 3600.0}]
    desk.until(banner.isVisible)
    assert banner.title.text().startswith("Working anyway until ")
    assert not header.anyway_button.isVisible()
    banner.end_button.click()
    assert not banner.end_button.isEnabled()
    assert desk.until_params("training.override_cancel") == [{}]
    desk.until(lambda: not banner.isVisible())


def test_an_override_that_cannot_be_ended_says_why(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.overriding())
    banner = desk.window.banner
    assert "This hour is not one of your training hours." in banner.accessibleName()
    desk.engine.errors["training.override_cancel"] = ErrorBody(code=ErrorCode.INTERNAL, params={"report_id": "r9"})
    banner.end_button.click()
    desk.until(lambda: "r9" in banner.error.text())
    assert banner.end_button.isEnabled()
    desk.engine.change(governor=GovernorState())
    desk.until(lambda: not banner.isVisible())


def test_work_anyway_from_the_tray(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.held_back())
    tray = desk.parts.tray
    assert tray.anyway_menu.menuAction().isVisible()
    assert not tray.limits_action.isVisible()
    assert tray.icon.toolTip().startswith("Potluck: Paused. blender is running.")
    tray.anyway_menu.actions()[0].trigger()
    assert desk.until_params("training.override") == [{"seconds": 1800.0}]
    desk.until(tray.limits_action.isVisible)
    tray.limits_action.trigger()
    assert desk.until_params("training.override_cancel") == [{}]


# Machine


def machine_desk(make_desk: MakeDesk, state: EngineState) -> Desk:
    desk = make_desk(state)
    desk.engine.results["periods.get"] = tuple(
        replace(p, from_at=p.from_at + shift(), to_at=p.to_at + shift()) for p in toy_states.periods()
    )
    desk.engine.results["readings.get"] = tuple(replace(r, at=r.at + shift()) for r in toy_states.readings()[::10])
    desk.window.resize(1120, 900)
    desk.window.show_page("machine")
    return desk


def shift() -> float:
    """From the toy's now to ours."""
    return now() - toy_states.NOW


def test_the_last_day_is_drawn_summed_and_read_by_keyboard(make_desk: MakeDesk) -> None:
    desk = machine_desk(make_desk, toy_states.training())
    card = desk.window.machine.history
    desk.until(lambda: bool(card.history.view.stretches) and bool(card.history.view.warmths))
    asked = desk.engine.params("periods.get")[0]
    assert asked["to_at"] - asked["from_at"] == pytest.approx(24 * 3600)  # type: ignore[operator]
    assert card.summary.text() == "Trained for about 14.3 h in the last 24 hours."
    assert ("You are using this computer.", "7.2 h") in card.causes.facts
    assert ("Potluck was not running.", "1.0 h") in card.causes.facts
    card.history.setFocus(Qt.FocusReason.TabFocusReason)
    desk.qtbot.keyClick(card.history, Qt.Key.Key_Home)
    assert "Training with less" in card.history.reading.text()
    desk.qtbot.keyClick(card.history, Qt.Key.Key_Right)
    assert "Paused\nYou are using this computer." in card.history.reading.text()
    assert "You are using this computer." in card.history.accessibleDescription()
    assert card.history.accessibleName() == card.summary.text()
    desk.window.grab()


def test_the_pointer_reads_the_day_and_leaves_no_trace(make_desk: MakeDesk) -> None:
    desk = machine_desk(make_desk, toy_states.training())
    history = desk.window.machine.history.history
    desk.until(lambda: bool(history.view.stretches) and history.width() > 300)
    desk.qtbot.mouseMove(history, QPoint(history.width() // 2, 20))
    desk.until(lambda: "Potluck was not running." in history.reading.text() or "Paused" in history.reading.text())
    QApplication.sendEvent(history, QEvent(QEvent.Type.Leave))
    assert history.moment is None
    assert not history.reading.isVisible()


@pytest.mark.parametrize("result", [None, [{"level": 3}], {"periods": []}])
def test_records_that_cannot_be_read_are_no_records(make_desk: MakeDesk, result: object) -> None:
    desk = make_desk(toy_states.training())
    desk.engine.results["periods.get"] = result
    desk.window.show_page("machine")
    desk.until_params("readings.get")
    card = desk.window.machine.history
    desk.until(lambda: card.summary.text() == "Nothing was recorded in the last 24 hours.")
    assert not card.history.isVisible()


def test_nothing_is_asked_for_while_the_page_is_not_seen(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.window.machine.history.ask()
    desk.window.show_page("machine")
    desk.until_params("readings.get")
    assert len(desk.engine.params("periods.get")) == 1


def test_measuring_shows_progress_can_be_cancelled_and_ends_with_numbers(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.window.show_page("machine")
    card = desk.window.machine.measure
    card.start_button.click()
    assert not card.start_button.isEnabled()
    assert desk.until_params("machine.measure") == [{}]
    desk.until(lambda: card.cancel_button.isVisible() and card.cancel_button.isEnabled())
    desk.engine.patch(("measurement", "fraction"), 0.42)
    desk.until(lambda: card.meter.accessibleName().endswith("42 %"))
    card.cancel_button.click()
    assert desk.until_params("machine.measure_cancel") == [{}]
    desk.until(lambda: card.start_button.isVisible() and card.text.text() == "The measurement was cancelled.")
    desk.engine.change(measurement=toy_states.measured())
    desk.until(lambda: dict(card.result.facts).get("Free memory") == "8.1 GB")
    assert card.start_button.text() == "Measure again"
    desk.engine.change(measurement=Measurement(state="failed", detail="the worker ended"))
    desk.until(lambda: card.text.text() == "The measurement failed: the worker ended. Try again.")


def test_a_refused_measurement_says_why(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.engine.errors["machine.measure"] = ErrorBody(code=ErrorCode.INTERNAL, params={"report_id": "r3"})
    desk.window.show_page("machine")
    card = desk.window.machine.measure
    card.start_button.click()
    desk.until(lambda: "r3" in card.error.text())
    assert card.start_button.isEnabled()


# Everything at once


@pytest.mark.parametrize("name", ["held_back", "overriding"])
def test_every_setting_has_words_and_a_name_to_speak(make_desk: MakeDesk, name: str) -> None:
    desk = settings_desk(make_desk, toy_states.ALL_STATES[name]())
    names = {row.name for row in desk.window.settings.rows} - {""}
    assert names == set(Settings.__struct_fields__)
    for row in desk.window.settings.rows:
        assert isinstance(row, SettingRow)
        assert row.effect.text(), row.name
        assert row.label, row.name
    for label in desk.window.settings.findChildren(QLabel):
        assert label.textFormat() is Qt.TextFormat.PlainText


def test_hostile_names_of_programs_stay_text_and_keep_the_width(make_desk: MakeDesk) -> None:
    nasty = "<img src='x'>" + "W" * 100
    held = toy_states.held_back()
    machine = replace(held.machine, exclusive_app_running=nasty, idle_source=nasty, power_source=nasty)
    state = replace(held, machine=machine, settings=replace(held.settings, exclusive_apps=(nasty,)))
    desk = settings_desk(make_desk, state)
    for page in ("settings", "machine"):
        desk.window.show_page(page)
        desk.window.grab()
        inner = desk.window.pages[page].column.parentWidget()
        assert inner is not None
        assert inner.width() <= desk.window.width() - desk.window.rail.width(), page
