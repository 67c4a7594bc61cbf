"""What the routers on the way do to this computer's UDP: asked of STUN servers (RFC 8489), told in RFC 4787's terms.

One socket asks every server that is known. Where two of them, at different addresses or ports, see it come from one
address and port, the mapping does not depend on the destination and peers can be let in by hole punching. Filtering
cannot be told without a server of two addresses (RFC 5780), which few are, so it is not guessed.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final, TypeAlias

from engine.signaling.messages import IceServer
from engine.transport.addresses import local_addresses
from engine.transport.base import Mapping
from engine.transport.servers import a_stun_socket, udp_places

log = logging.getLogger(__name__)

ASK_SECONDS: Final = 3.0
SEND_AGAIN_SECONDS: Final = 0.5

Place: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of asking."""

    asked: tuple[Place, ...]
    seen: dict[Place, Place]  # server asked, by resolved address and port: how it saw this computer's socket
    local_port: int
    local_addresses: frozenset[str]


def mapping_of(what: Observation) -> Mapping:
    """PURE."""
    if not what.asked:
        return Mapping.UNKNOWN
    if not what.seen:
        return Mapping.NO_UDP
    seen = set(what.seen.values())
    if all(host in what.local_addresses and port == what.local_port for host, port in seen):
        return Mapping.NONE
    if len(seen) > 1:
        return Mapping.CHANGING
    return Mapping.STEADY if len(what.seen) > 1 else Mapping.UNKNOWN


async def observe(servers: tuple[IceServer, ...]) -> Observation:
    """Ask for at most ASK_SECONDS; ends sooner when all have answered."""
    places = udp_places(servers)
    nothing = Observation(places, {}, 0, frozenset())
    if not places:
        return nothing
    try:
        transport, asker = await a_stun_socket()
    except OSError as error:
        log.info("no UDP socket: %s", error)
        return nothing
    try:
        async with asyncio.timeout(ASK_SECONDS):
            while not asker.all_answered:
                await asker.ask(transport, places)
                await asker.answers_within(SEND_AGAIN_SECONDS)
    except TimeoutError:
        log.debug("%d of %d STUN servers answered", len(asker.seen), len(places))
    finally:
        port = transport.get_extra_info("sockname")[1]
        transport.close()
    addresses = await asyncio.to_thread(local_addresses)
    return Observation(places, dict(asker.seen), port, addresses)
