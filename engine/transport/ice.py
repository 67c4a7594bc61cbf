"""Which addresses and servers a connection uses, and which way its packets go (RFC 8445)."""

import contextlib
import ipaddress
import re
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Final

import aioice.ice
from aiortc import RTCConfiguration, RTCIceServer, RTCPeerConnection
from aiortc.rtcconfiguration import RTCIceTransportPolicy

from engine.signaling.messages import IceServer
from engine.transport.base import PathKind
from engine.transport.turn import is_inner

MAX_HOST_ADDRESSES: Final = 8
"""A computer with many virtual interfaces would otherwise offer more candidates than peers accept."""
LOOPBACK_ADDRESS: Final = "127.0.0.1"

_SERVER: Final = re.compile(
    r"(stuns?:[^?:\s]{1,253}(:[0-9]{1,5})?|turns?:[^?:\s]{1,253}(:[0-9]{1,5})?(\?transport=(udp|tcp))?)"
)
_loopback_only: ContextVar[bool] = ContextVar("loopback_only", default=False)
library_addresses = aioice.ice.get_host_addresses


def _host_addresses(use_ipv4: bool, use_ipv6: bool) -> list[str]:
    if _loopback_only.get():
        return [LOOPBACK_ADDRESS]
    addresses: list[str] = library_addresses(use_ipv4, use_ipv6)
    usable = [address for address in addresses if not ipaddress.ip_address(address).is_link_local]
    return usable[:MAX_HOST_ADDRESSES]


# WORKAROUND: aioice gathers on every interface except loopback and has no setting for it, while tests and the
# demonstration must send on loopback only. The replacement asks a context variable, so it is per gathering and alters
# nothing for other users of the library but the bound above.
aioice.ice.get_host_addresses = _host_addresses


@contextlib.contextmanager
def gathering(*, loopback_only: bool) -> Iterator[None]:
    """Candidates gathered inside are on loopback only, or on real interfaces only."""
    token = _loopback_only.set(loopback_only)
    try:
        yield
    finally:
        _loopback_only.reset(token)


def configuration(servers: tuple[IceServer, ...], *, relay_only: bool = False) -> RTCConfiguration:
    """aiortc's configuration. Without servers none is asked: aiortc's own default would be a server of Google's.

    `relay_only` gathers and tells no address of this computer's own (RFC 9429 section 3.5.3).

    Addresses of servers that make no sense (they come from the hub) are left out.
    """
    usable = []
    for server in servers:
        urls = [url for url in server.urls if _SERVER.fullmatch(url)]
        if urls:
            usable.append(RTCIceServer(urls=urls, username=server.username, credential=server.credential))
    policy = RTCIceTransportPolicy.RELAY if relay_only else RTCIceTransportPolicy.ALL
    return RTCConfiguration(iceServers=usable, iceTransportPolicy=policy)


def path_of(connection: RTCPeerConnection) -> PathKind:
    """Which way the packets of a connected `connection` go."""
    # WORKAROUND: aiortc does not tell the selected candidate pair, so it is read from aioice's private state.
    sctp = connection.sctp
    pairs = list(sctp.transport.transport._connection._nominated.values()) if sctp is not None else []
    if not pairs:
        return PathKind.DIRECT
    local, remote = pairs[0].local_candidate, pairs[0].remote_candidate
    return classify(local.type, remote.type, remote.host)


def classify(local_kind: str, remote_kind: str, remote_host: str) -> PathKind:
    """The path between candidates of these kinds (host, srflx, prflx, relay). PURE."""
    if "relay" in (local_kind, remote_kind):
        return PathKind.RELAYED
    address = ipaddress.ip_address(remote_host)
    if address.is_loopback:
        return PathKind.LOOPBACK
    if is_inner(remote_host) and remote_kind in ("host", "prflx"):
        return PathKind.LAN
    return PathKind.DIRECT
