import pytest

from engine.contract import link_words
from engine.contract.snapshot import SessionState
from engine.transport.base import LinkEnd, Mapping


def session(**fields: object) -> SessionState:
    return SessionState(project_id="0" * 64, title="Pocket Python", **fields)  # type: ignore[arg-type]


def test_every_end_and_every_mapping_has_words() -> None:
    assert set(link_words.ENDS) == {str(end) for end in LinkEnd}
    assert set(link_words.REACHED) == {str(mapping) for mapping in Mapping}


@pytest.mark.parametrize("template", link_words.all_link_templates())
def test_words_end_with_a_full_stop_and_say_no_jargon(template: str) -> None:
    assert template.endswith(".")
    assert not any(word in template.lower() for word in ("nat", "stun", "ice ", "peer", "socket"))


def test_what_the_router_lets_through() -> None:
    assert link_words.reachability_text(None) == link_words.NOT_KNOWN
    own = session(reachability="none")
    assert link_words.reachability_text(own) == link_words.REACHED["none"]
    closed = session(reachability="changing", relay_offered=True)
    assert link_words.reachability_text(closed).endswith(link_words.WITH_RELAY)
    assert link_words.reachability_text(session(reachability="steady")).endswith(link_words.WITHOUT_RELAY)
    assert link_words.reachability_text(session(reachability="of a later version")).startswith("It is not known")
    assert link_words.reachability_text(closed, str.upper).isupper()


def test_who_sees_the_address() -> None:
    assert link_words.address_text(None, relay_only=False) == link_words.SEEN
    assert link_words.address_text(None, relay_only=True) == link_words.HIDDEN
    assert link_words.address_text(session(lacks_relay=True), relay_only=True) == link_words.HIDDEN_IN_VAIN


def test_an_end_of_a_later_version_has_words_too() -> None:
    assert link_words.end_text("moved") == "This computer's address changed."
    assert link_words.end_text("of a later version") == "The connection broke."
