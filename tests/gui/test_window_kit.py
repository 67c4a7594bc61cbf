"""The training kit in the window: what is shown of it, and its buttons."""

import pytest
from msgspec.structs import replace

from engine.contract.errors import ErrorBody, ErrorCode
from engine.contract.reasons import Problem, ProblemAction, ProblemCode
from engine.contract.snapshot import KitState
from tests.gui.conftest import MakeDesk
from tests.helpers import toy_states

pytestmark = pytest.mark.gui

MISSING = KitState(
    state="missing", name="linux-cpu", version="2.13.0", computes_on="cpu", total_bytes=249_000_000, space_bytes=10**9
)


def test_where_torch_is_included_there_is_no_card(make_desk: MakeDesk) -> None:
    desk = make_desk(toy_states.training())
    desk.window.show_page("machine")
    assert not desk.window.machine.kit.isVisible()


def test_it_is_fetched_paused_and_ready(make_desk: MakeDesk) -> None:
    desk = make_desk(replace(toy_states.training(), kit=MISSING))
    desk.window.show_page("machine")
    card = desk.window.machine.kit
    desk.until(lambda: card.isVisible() and card.get_button.isVisible())
    assert card.text.text() == "The part of Potluck that computes: 249 MB, fetched once."
    card.get_button.click()
    assert desk.until_params("kit.get") == [{}]
    desk.engine.change(kit=replace(MISSING, state="fetching", done_bytes=124_500_000, bytes_per_second=2e6))
    desk.until(lambda: card.pause_button.isVisible() and card.meter.accessibleName().endswith("50 %"))
    assert not card.get_button.isVisible()
    card.pause_button.click()
    assert desk.until_params("kit.pause") == [{}]
    desk.engine.change(kit=replace(MISSING, state="paused", done_bytes=124_500_000))
    desk.until(lambda: card.text.text().startswith("Paused.") and card.get_button.isVisible())
    for state, text in (
        ("unpacking", "It is being unpacked."),
        ("testing", "It is being tried on this computer."),
        ("ready", "Installed, with PyTorch 2.13.0."),
        ("failed", "It could not be installed. What was fetched stays."),
        ("unusable", "There is none that fits this computer."),
    ):
        desk.engine.change(kit=replace(MISSING, state=state))
        desk.until(lambda text=text: card.text.text() == text)


@pytest.mark.parametrize(
    ("passed_over", "says"),
    [
        ("driver_old", "RTX 3060 is not used: its driver 470.1 is older than 525.60. Update it, then get the kit."),
        ("driver_unreadable", "RTX 3060 is not used: its driver's version cannot be read."),
        ("no_kit_for_card", "RTX 3060 is not used: there is no kit for it."),
    ],
)
def test_a_graphics_card_that_is_passed_over_is_explained(make_desk: MakeDesk, passed_over: str, says: str) -> None:
    kit = replace(MISSING, passed_over=passed_over, card="RTX 3060", driver_version="470.1", driver_needed="525.60")
    desk = make_desk(replace(toy_states.training(), kit=kit))
    desk.window.show_page("machine")
    desk.until(lambda: desk.window.machine.kit.note.text() == says)
    assert desk.window.machine.kit.note.isVisible()


def test_a_refusal_is_told_on_the_card(make_desk: MakeDesk) -> None:
    desk = make_desk(replace(toy_states.training(), kit=MISSING))
    desk.engine.errors["kit.get"] = ErrorBody(code=ErrorCode.INTERNAL, params={"report_id": "r3"})
    desk.window.show_page("machine")
    card = desk.window.machine.kit
    desk.until(card.get_button.isVisible)
    card.get_button.click()
    desk.until(lambda: card.error.isVisible() and "r3" in card.error.text())


def test_the_problem_card_gets_it_too(make_desk: MakeDesk) -> None:
    problem = Problem(
        problem_id="kit", code=ProblemCode.KIT_MISSING, action=ProblemAction.GET_KIT, at=1.0, params={"gigabytes": 0.2}
    )
    desk = make_desk(replace(toy_states.training(), kit=MISSING, problems=(problem,)))
    (card,) = desk.window.problems.cards
    card.button.click()
    assert desk.until_params("kit.get") == [{}]
