"""Which addresses this computer has, and which links cannot go on when one of them is gone."""

import asyncio
from collections.abc import Callable
from typing import Final

from aiortc import RTCPeerConnection

from engine.transport.ice import library_addresses

LOOK_SECONDS: Final = 1.0


def local_addresses() -> frozenset[str]:
    """Addresses of this computer's interfaces, without loopback."""
    # Without the bound that candidates have: an address that no candidate has may still be in use.
    return frozenset(library_addresses(use_ipv4=True, use_ipv6=True))


def base_address_of(connection: RTCPeerConnection) -> str:
    """The address of its own from which a connected `connection` sends; empty where a relay stands between."""
    # WORKAROUND: aiortc does not tell the selected candidate pair, so it is read from aioice's private state.
    sctp = connection.sctp
    pairs = list(sctp.transport.transport._connection._nominated.values()) if sctp is not None else []
    if not pairs or pairs[0].local_candidate.type != "host":
        return ""
    return str(pairs[0].local_candidate.host)


def has_moved(base_address: str, before: frozenset[str], now: frozenset[str]) -> bool:
    """Whether a link from `base_address` ("": over a relay) is cut off by the change. PURE.

    A relay knows its client by address and port (RFC 8656 section 3.1), and which of the addresses leads to it is not
    known here: any that is gone may have been it.
    """
    if base_address:
        return base_address in before and base_address not in now
    return bool(before - now)


class AddressWatch:
    """Looks now and then. The interfaces are read in a thread, since a system may take its time over them."""

    def __init__(
        self,
        on_change: Callable[[frozenset[str], frozenset[str]], None],
        read: Callable[[], frozenset[str]] = local_addresses,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._on_change = on_change
        self._read = read
        self._look_seconds = look_seconds

    async def run(self) -> None:
        """Until cancelled."""
        before = await asyncio.to_thread(self._read)
        while True:
            await asyncio.sleep(self._look_seconds)
            now = await asyncio.to_thread(self._read)
            if now != before:
                before, changed_from = now, before
                self._on_change(changed_from, now)
