"""The words for links: what the network lets through, and what became of a link."""

from collections.abc import Mapping
from typing import Final

from engine.contract.reach import Mapping as Reach
from engine.contract.reach import Relay
from engine.contract.snapshot import SessionState
from engine.contract.words import Translate

REACHED: Final[Mapping[str, str]] = {
    Reach.NONE: "This computer has an address of its own: others reach it directly.",
    Reach.STEADY: "Your router lets most other computers reach this one directly.",
    Reach.CHANGING: "Your router opens a new door for each connection: few others reach this computer directly.",
    Reach.NO_UDP: "Your network lets no UDP out, which direct connections need.",
    Reach.UNREADABLE: "What your router lets through cannot be told from what the hub's servers answer.",
    Reach.UNKNOWN: "What your router lets through was not checked yet.",
}
RELAYED: Final[Mapping[str, str]] = {
    Relay.UDP: "The hub's relay stands in where that fails.",
    Relay.TCP: "The hub's relay stands in where that fails, over TCP, which is slower.",
    Relay.FAILED: "The hub's relay cannot be used from here.",
    Relay.NOT_OFFERED: "The hub offers no relay for where that fails.",
}
"""What follows on a sentence of REACHED; nothing while the relay was not tried."""
ONLY_BY_TCP: Final = "Your network lets no UDP out: the hub's relay is used, over TCP, which is slower."
HIDDEN: Final = "Others see the relay's address instead of this computer's. That is slower."
HIDDEN_IN_VAIN: Final = "The hub offers no relay, so no other computer can be reached."
HIDDEN_AND_CUT: Final = "The hub's relay cannot be used from here, so no other computer can be reached."
SEEN: Final = "Computers in the same project see this computer's address."
NOT_KNOWN: Final = "What your router lets through is found out when a project is joined."

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
    if (session.reachability, session.relay) == (Reach.NO_UDP, Relay.TCP):
        return translate(ONLY_BY_TCP)
    told = translate(REACHED.get(session.reachability, REACHED[Reach.UNREADABLE]))
    if session.reachability in (Reach.NONE, Reach.UNKNOWN) or session.relay not in RELAYED:
        return told
    return f"{told} {translate(RELAYED[session.relay])}"


def address_text(session: SessionState | None, *, relay_only: bool, translate: Translate = same) -> str:
    """Who sees this computer's address."""
    if not relay_only:
        return translate(SEEN)
    if session is not None and session.lacks_relay:
        return translate(HIDDEN_IN_VAIN)
    return translate(HIDDEN_AND_CUT if session is not None and session.relay == Relay.FAILED else HIDDEN)


def reached_text(session: SessionState | None, *, relay_only: bool, translate: Translate = same) -> str:
    """How others reach this computer: what its network lets through counts for nothing while only the relay is used."""
    if relay_only:
        return address_text(session, relay_only=True, translate=translate)
    return reachability_text(session, translate)


def end_text(code: str, translate: Translate = same) -> str:
    """Why a link went down."""
    return translate(ENDS.get(code, ENDS["failed"]))


def all_link_templates() -> tuple[str, ...]:
    """Every text that `translate` may be given here."""
    notes = (ONLY_BY_TCP, HIDDEN, HIDDEN_IN_VAIN, HIDDEN_AND_CUT, SEEN, NOT_KNOWN)
    return (*REACHED.values(), *RELAYED.values(), *notes, *ENDS.values())
