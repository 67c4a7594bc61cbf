import pytest
from PySide6.QtCore import QLocale, QTranslator
from PySide6.QtWidgets import QApplication

from app.language import ENGLISH, TRANSLATIONS, install_translations, say
from app.models.projects import MAX_SHOWN, matches, shown
from app.pages.setting_rows import LEAST_MEGABITS, MOST_MEGABITS, upload_effect
from app.pages.settings_how_much import cores_effect
from app.pages.settings_power import battery_effect
from app.pages.settings_when import in_use_effect
from app.widgets.text import breakable
from app.widgets.written import MAX_SHOWN_CHARS, shown_text
from engine.contract.settings import (
    MAX_UPLOAD_LIMIT_BYTES_PER_SECOND,
    MIN_UPLOAD_LIMIT_BYTES_PER_SECOND,
)
from tests.helpers import toy_states
from tests.helpers.translations import Found, found_texts

PLURALS = [found for found in found_texts() if found.plural]


@pytest.fixture
def _english(qapp: QApplication):  # type: ignore[no-untyped-def]
    translators = install_translations(qapp, QLocale("en_GB"))
    yield translators
    for translator in translators:
        qapp.removeTranslator(translator)


def test_every_text_with_a_number_is_marked_as_one() -> None:
    assert PLURALS
    for found in found_texts():
        assert found.plural == ("%n" in found.text), found


@pytest.mark.usefixtures("_english")
@pytest.mark.parametrize("found", PLURALS, ids=lambda found: found.text)
def test_english_has_a_singular_and_a_plural_of_each(found: Found) -> None:
    one, many = (say(found.context, found.text, None, n) for n in (1, 3))
    assert "%n" not in one + many
    assert one.replace("1", "#") != many.replace("3", "#")


def test_a_language_without_a_file_falls_back_to_english(qapp: QApplication) -> None:
    translators = install_translations(qapp, QLocale("eo"))
    assert len(translators) == 1
    for translator in translators:
        qapp.removeTranslator(translator)
    assert QTranslator().load(str(TRANSLATIONS / ENGLISH))


def test_texts_hold_no_markup_no_exclamations_and_no_jargon() -> None:
    for found in found_texts():
        assert not set("!<>") & set(found.text), found
        assert not {"epoch", "all-reduce", "SCTP"} & set(found.text.split()), found


def test_the_share_is_told_in_cores_of_this_computer() -> None:
    machine = toy_states.machine(cores_logical=4)
    assert cores_effect(50, machine) == "about 2 of %n cores, at the lowest priority".replace("%n", "4")
    assert cores_effect(5, machine).startswith("about 0.2 of 4")
    assert "processor" in cores_effect(50, toy_states.machine(cores_logical=None))


def test_a_switch_without_effect_says_so() -> None:
    assert "no effect" in in_use_effect(toy_states.on_battery())
    assert "keyboard" in in_use_effect(toy_states.training())
    assert "No battery" in battery_effect(toy_states.empty())


def test_the_upload_field_offers_only_what_the_engine_takes() -> None:
    assert LEAST_MEGABITS * 125_000 >= MIN_UPLOAD_LIMIT_BYTES_PER_SECOND
    assert round(MOST_MEGABITS * 125_000) <= MAX_UPLOAD_LIMIT_BYTES_PER_SECOND
    assert upload_effect(1_250_000) == "At most 10.0 Mbit/s over all connections, about 1.3 MB each second."
    assert "free" in upload_effect(None)


def test_the_joined_project_is_first_and_unusable_ones_are_last() -> None:
    cards = toy_states.catalogue(joined=True)
    assert [card.name for card in shown(cards)] == ["pocket-python", "tide-tables", "folk-songs"]
    assert [card.name for card in shown(cards, "harbour gauges")] == ["tide-tables"]
    assert not matches(cards[0], "harbour")
    many = tuple(toy_states.project(project_id=f"{i:064x}") for i in range(500))
    assert len(shown(many)) == MAX_SHOWN


def test_what_the_model_writes_cannot_do_more_than_be_read() -> None:
    assert shown_text("a\tb\nc\x1b[31m\x00\u202e") == "a\tb\nc\ufffd[31m\ufffd\ufffd"
    assert len(shown_text("x" * 10**6)) == MAX_SHOWN_CHARS


def test_long_words_get_places_to_break_and_stay_the_same_otherwise() -> None:
    word = "a1" * 40
    assert breakable(f"id {word} end").replace("\u200b", "") == f"id {word} end"
    assert max(map(len, breakable(word).split("\u200b"))) <= 10
    assert breakable("short words only") == "short words only"
