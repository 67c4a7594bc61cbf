import pytest

from engine.contract import link_words
from engine.contract.reach import Mapping, Relay
from engine.contract.snapshot import SessionState
from engine.transport.base import LinkEnd


def session(**fields: object) -> SessionState:
    return SessionState(project_id="0" * 64, title="Pocket Python", **fields)  # type: ignore[arg-type]


def test_every_end_and_every_mapping_has_words() -> None:
    assert set(link_words.ENDS) == {str(end) for end in LinkEnd}
    assert set(link_words.REACHED) == {str(mapping) for mapping in Mapping}
    assert set(link_words.RELAYED) == {str(relay) for relay in Relay} - {"unknown"}


@pytest.mark.parametrize("template", link_words.all_link_templates())
def test_words_end_with_a_full_stop_and_say_no_jargon(template: str) -> None:
    assert template.endswith(".")
    assert not any(word in template.lower() for word in ("nat", "stun", "ice ", "peer", "socket"))


def test_what_the_router_lets_through() -> None:
    assert link_words.reachability_text(None) == link_words.NOT_KNOWN
    own = session(reachability="none", relay="udp")
    assert link_words.reachability_text(own) == link_words.REACHED["none"]
    closed = session(reachability="changing", relay="udp")
    assert link_words.reachability_text(closed).endswith(link_words.RELAYED["udp"])
    assert link_words.reachability_text(closed, str.upper).isupper()
    steady = session(reachability="steady", relay="not_offered")
    assert link_words.reachability_text(steady).endswith(link_words.RELAYED["not_offered"])


def test_without_udp_the_relay_over_tcp_is_named_once() -> None:
    assert link_words.reachability_text(session(reachability="no_udp", relay="tcp")) == link_words.ONLY_BY_TCP
    cut = link_words.reachability_text(session(reachability="no_udp", relay="failed"))
    assert cut == f"{link_words.REACHED['no_udp']} {link_words.RELAYED['failed']}"


def test_not_checked_is_told_from_cannot_be_told() -> None:
    assert "not checked yet" in link_words.reachability_text(session())
    asked = session(reachability="unreadable", relay="unknown")
    assert link_words.reachability_text(asked) == link_words.REACHED["unreadable"]
    later = session(reachability="of a later version", relay="of a later version")
    assert link_words.reachability_text(later) == link_words.REACHED["unreadable"]


def test_who_sees_the_address() -> None:
    assert link_words.address_text(None, relay_only=False) == link_words.SEEN
    assert link_words.address_text(None, relay_only=True) == link_words.HIDDEN
    assert link_words.address_text(session(lacks_relay=True), relay_only=True) == link_words.HIDDEN_IN_VAIN
    assert link_words.address_text(session(relay="failed"), relay_only=True) == link_words.HIDDEN_AND_CUT
    assert link_words.address_text(session(relay="failed"), relay_only=False) == link_words.SEEN


def test_what_the_network_lets_through_does_not_matter_to_a_hidden_computer() -> None:
    own = session(reachability="none", relay="udp")
    assert link_words.reached_text(own, relay_only=False) == link_words.REACHED["none"]
    assert link_words.reached_text(own, relay_only=True) == link_words.HIDDEN


def test_an_end_of_a_later_version_has_words_too() -> None:
    assert link_words.end_text("moved") == "This computer's address changed."
    assert link_words.end_text("of a later version") == "The connection broke."
