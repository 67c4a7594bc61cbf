"""Asks the known STUN and TURN servers what `reachability` judges: at most CHECK_SECONDS, and cancellable at any time.

One socket asks every STUN server (RFC 8489). The TURN server that links would use is asked for an address (RFC 8656),
which is given back at once: over UDP first, over TCP only where that fails.
"""

import asyncio
import logging
from typing import Any, Final

from aioice import stun, turn
from aiortc.rtcicetransport import connection_kwargs

from engine.contract.reach import Relay
from engine.signaling.messages import IceServer
from engine.transport.addresses import local_addresses
from engine.transport.base import Reachability
from engine.transport.ice import configuration
from engine.transport.reachability import Observation, Place, reachability_of
from engine.transport.servers import a_stun_socket, has_relay, over_tcp, over_udp, tcp_places, udp_places

log = logging.getLogger(__name__)

UDP_SECONDS: Final = 3.0
TCP_SECONDS: Final = 2.0
CHECK_SECONDS: Final = UDP_SECONDS + TCP_SECONDS
SEND_AGAIN_SECONDS: Final = 0.5
GIVE_BACK_SECONDS: Final = 0.5

_TROUBLE: Final = (OSError, UnicodeError, TimeoutError, stun.TransactionError)


async def check_reachability(servers: tuple[IceServer, ...]) -> Reachability:
    """How others can reach this computer, as far as these servers tell."""
    what = await observe(servers)
    found = reachability_of(what)
    log.info("%d of %d STUN servers answered: %s; relay: %s", len(what.seen), len(what.asked), *_words(found))
    return found


def _words(found: Reachability) -> tuple[str, str]:
    return str(found.mapping), str(found.relay)


async def observe(servers: tuple[IceServer, ...]) -> Observation:
    """Ask them all."""
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(_ask_stun(udp_places(servers)))
        relaying = tasks.create_task(_is_given_address(over_udp(servers), UDP_SECONDS))
    seen, port = asking.result()
    relay = Relay.UDP if relaying.result() else Relay.FAILED if has_relay(servers) else Relay.NOT_OFFERED
    tcp_gets_out = False
    if relay is Relay.FAILED or not seen:
        async with asyncio.TaskGroup() as tasks:
            given = tasks.create_task(_is_given_address(over_tcp(servers), TCP_SECONDS, wanted=relay is Relay.FAILED))
            reached = tasks.create_task(_reaches_any(tcp_places(servers) if not seen else ()))
        relay = Relay.TCP if given.result() else relay
        tcp_gets_out = reached.result() or given.result()
    addresses = await asyncio.to_thread(local_addresses)
    return Observation(udp_places(servers), seen, port, addresses, relay, tcp_gets_out)


async def _ask_stun(places: tuple[Place, ...]) -> tuple[dict[Place, Place], int]:
    """How each server saw the socket, and its port; ends sooner than UDP_SECONDS when all have answered."""
    if not places:
        return {}, 0
    try:
        transport, asker = await a_stun_socket()
    except OSError as error:
        log.info("no UDP socket: %s", error)
        return {}, 0
    port = int(transport.get_extra_info("sockname")[1])
    try:
        async with asyncio.timeout(UDP_SECONDS):
            while not asker.all_answered:
                await asker.ask(transport, places)
                await asker.answers_within(SEND_AGAIN_SECONDS)
    except TimeoutError:
        log.debug("%d of %d STUN servers answered", len(asker.seen), len(places))
    finally:
        transport.close()
    return dict(asker.seen), port


class _Given(asyncio.DatagramProtocol):
    """What the relay gave; `gone` is set when that is given back."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.DatagramProtocol`."""
        self.gone.set()


async def _is_given_address(servers: tuple[IceServer, ...], seconds: float, *, wanted: bool = True) -> bool:
    """Whether the first TURN server of these, which is the one that the library would use, lets itself be used."""
    found: dict[str, Any] = connection_kwargs(configuration(servers).iceServers or [])
    if not wanted or "turn_server" not in found:
        return False
    try:
        async with asyncio.timeout(seconds):
            endpoint, given = await turn.create_turn_endpoint(
                _Given,
                server_addr=found["turn_server"],
                username=found["turn_username"],
                password=found["turn_password"],
                ssl=found["turn_ssl"],
                transport=found["turn_transport"],
            )
    except _TROUBLE as error:
        log.info("no address from the relay by %s: %s", found["turn_transport"], str(error) or type(error).__name__)
        return False
    endpoint.close()
    await _within(GIVE_BACK_SECONDS, given.gone)
    return True


async def _within(seconds: float, event: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        log.debug("the relay did not confirm that it took its address back")


async def _reaches_any(places: tuple[Place, ...]) -> bool:
    """Whether a TCP connection to any of them comes about within TCP_SECONDS."""
    tries = [asyncio.create_task(_reaches(host, port)) for host, port in places]
    try:
        async with asyncio.timeout(TCP_SECONDS):
            for attempt in asyncio.as_completed(tries):
                if await attempt:
                    return True
    except TimeoutError:
        log.debug("none of %d servers was reached over TCP", len(places))
    finally:
        for one in tries:
            one.cancel()
        await asyncio.gather(*tries, return_exceptions=True)
    return False


async def _reaches(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port, family=2)  # IPv4, as is asked over UDP
    except (OSError, UnicodeError):
        return False
    writer.close()
    return True
