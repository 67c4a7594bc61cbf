"""The words for links: what the network lets through, and what became of a link."""

from collections.abc import Mapping
from typing import Final

from engine.contract.snapshot import SessionState
from engine.contract.words import Translate

REACHED: Final[Mapping[str, str]] = {
    "none": "This computer has an address of its own: others reach it directly.",
    "steady": "Your router lets most other computers reach this one directly.",
    "changing": "Your router opens a new door for each connection: few others reach this computer directly.",
    "no_udp": "Your network lets no UDP out, which direct connections need.",
    "unknown": "It is not known yet what your router lets through.",
}
WITH_RELAY: Final = "The hub's relay stands in where that fails."
WITHOUT_RELAY: Final = "The hub offers no relay for where that fails."
HIDDEN: Final = "Others see the relay's address instead of this computer's. That is slower."
HIDDEN_IN_VAIN: Final = "The hub offers no relay, so no other computer can be reached."
SEEN: Final = "Computers in the same project see this computer's address."
NOT_KNOWN: Final = "It is found out when a project is joined."

ENDS: Final[Mapping[str, str]] = {
    "left": "This computer left.",
    "dropped": "This computer ended it.",
    "closed": "The other computer ended it.",
    "silence": "No sign of life came any more.",
    "moved": "This computer's address changed.",
    "rerouted": "Another way is taken.",
    "failed": "The connection broke.",
    "protocol": "The other computer broke the protocol.",
    "slow": "The other computer began a message and did not go on.",
    "memory": "The other computer made this one hold too much.",
}
"""Why a link went down: the transport's `LinkEnd`."""


def same(text: str) -> str:
    """No translation."""
    return text


def reachability_text(session: SessionState | None, translate: Translate = same) -> str:
    """What the network lets through, in one or two sentences."""
    if session is None:
        return translate(NOT_KNOWN)
    told = translate(REACHED.get(session.reachability, REACHED["unknown"]))
    if session.reachability == "none":
        return told
    return f"{told} {translate(WITH_RELAY if session.relay_offered else WITHOUT_RELAY)}"


def address_text(session: SessionState | None, *, relay_only: bool, translate: Translate = same) -> str:
    """Who sees this computer's address."""
    if not relay_only:
        return translate(SEEN)
    return translate(HIDDEN_IN_VAIN if session is not None and session.lacks_relay else HIDDEN)


def end_text(code: str, translate: Translate = same) -> str:
    """Why a link went down."""
    return translate(ENDS.get(code, ENDS["failed"]))


def all_link_templates() -> tuple[str, ...]:
    """Every text that `translate` may be given here."""
    notes = (WITH_RELAY, WITHOUT_RELAY, HIDDEN, HIDDEN_IN_VAIN, SEEN, NOT_KNOWN)
    return (*REACHED.values(), *notes, *ENDS.values())
