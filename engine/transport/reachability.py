"""What the answers of STUN and TURN servers say of this computer's reachability, in RFC 4787's terms. PURE.

Where two servers, at different addresses or ports, see one socket come from one address and port, the mapping does not
depend on the destination, and peers can be let in by hole punching. Filtering cannot be told without a server of two
addresses (RFC 5780), which few are, so it is not guessed.
"""

from dataclasses import dataclass
from typing import TypeAlias

from engine.contract.reach import Mapping, Relay
from engine.transport.base import Reachability
from engine.transport.turn import is_inner

Place: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of asking."""

    asked: tuple[Place, ...]
    seen: dict[Place, Place]  # server asked, by resolved address and port: how it saw this computer's socket
    local_port: int
    local_addresses: frozenset[str]
    relay: Relay = Relay.UNKNOWN
    tcp_gets_out: bool = False  # any of the servers was reached over TCP; looked at only where nothing is seen


def mapping_of(what: Observation) -> Mapping:
    """What the routers do to this computer's UDP.

    A server that sees an inner address (RFC 1918, or RFC 6598 within a carrier's network) is on this side of some
    router, and says nothing about it. Silence is the network's doing only where TCP reaches the same servers.
    """
    if not what.seen:
        shut = what.tcp_gets_out and what.relay is not Relay.UDP
        return Mapping.NO_UDP if what.asked and shut else Mapping.UNREADABLE
    outer = [place for place in what.seen.values() if not is_inner(place[0])]
    if not outer:
        return Mapping.UNREADABLE
    if all(host in what.local_addresses and port == what.local_port for host, port in outer):
        return Mapping.NONE
    if len(set(outer)) > 1:
        return Mapping.CHANGING
    return Mapping.STEADY if len(outer) > 1 else Mapping.UNREADABLE


def reachability_of(what: Observation) -> Reachability:
    """Both verdicts."""
    return Reachability(mapping_of(what), what.relay)
