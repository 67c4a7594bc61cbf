"""What aioice sends through a TURN relay: nothing to addresses of other homes' inner networks."""

import ipaddress
from typing import Any, Final

import aioice.turn

_INNER: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),  # RFC 1918
            "100.64.0.0/10",  # RFC 6598, carriers' own
            *("169.254.0.0/16", "fe80::/10"),  # link-local
            "fc00::/7",  # RFC 4193
            *("127.0.0.0/8", "::1/128"),
        ),
    )
)


def is_inner(host: str) -> bool:
    """Whether packets to `host` mean different computers in different places. PURE."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return any(address.version == network.version and address in network for network in _INNER)


def may_relay(server_host: str, peer_host: str) -> bool:
    """Whether a relay at `server_host` can have a way to `peer_host`. PURE."""
    return not is_inner(peer_host) or is_inner(server_host)


_library_sendto = aioice.turn.TurnTransport.sendto


def _sendto(self: Any, data: bytes, addr: tuple[str, int]) -> None:
    server = self._TurnTransport__inner_protocol.server
    if may_relay(server[0], addr[0]):
        _library_sendto(self, data, addr)


# WORKAROUND: aioice 0.13 checks every pair of candidates, so it binds channels from the relay to the peer's inner
# addresses (192.168.x.x) too. A relay that has no route there fails to send, and coturn 4.6.1 then ends the whole
# session: every later request is answered with 438 (wrong nonce) and 400 (no allocation), so that two homes behind
# routers of the "symmetric" kind never meet although both hold a relay. Such pairs can never work from a public relay.
aioice.turn.TurnTransport.sendto = _sendto  # type: ignore[method-assign]
