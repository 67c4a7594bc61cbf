"""Named limits of the hub, and the token buckets that hold callers to them. PURE: time is passed in."""

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from engine.manifest.schema import MAX_MANIFEST_BYTES

MAX_BODY_BYTES: Final = 1024 * 1024
"""Request bodies; a manifest of MAX_MANIFEST_BYTES in base64 fits."""

assert MAX_MANIFEST_BYTES * 4 // 3 + 1024 <= MAX_BODY_BYTES

MAX_RECEIPTS_PER_POST: Final = 256
MAX_RECEIPTS_PER_PAGE: Final = 500
MAX_RECEIPTS_PER_CONTRIBUTION: Final = 128
"""Twice the members that a round can have: each may say two different things before nothing more is learnt."""

MAX_CATALOGUE_PAGE_BYTES: Final = 1024 * 1024
"""Manifest payload bytes in one page of the catalogue; a page holds at least one project."""

MAX_BOARD_ROWS: Final = 500
MAX_BOARD_DAYS: Final = 3650
MAX_NAME_CHARS: Final = 40
MAX_NAME_CLOCK_AHEAD_SECONDS: Final = 24 * 3600.0
MAX_TRACKED_ADDRESSES: Final = 10_000
REQUEST_BODY_SECONDS: Final = 20.0
IPV6_SITE_BITS: Final = 64
"""One household has a whole /64 to draw addresses from."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A token bucket's size and filling."""

    per_second: float
    burst: float


@dataclass(frozen=True, slots=True)
class HubLimits:
    """What an operator may set. Rates are per address, unless they say otherwise."""

    reads: Rate = field(default=Rate(per_second=20.0, burst=200.0))
    writes: Rate = field(default=Rate(per_second=5.0, burst=100.0))
    room_messages: Rate = field(default=Rate(per_second=20.0, burst=400.0))  # per peer
    room_bytes: Rate = field(default=Rate(per_second=128 * 1024.0, burst=4 * 1024 * 1024.0))  # per peer
    max_room_peers: int = 256
    max_rooms: int = 1000
    max_connections: int = 10_000
    max_connections_per_address: int = 64
    max_projects: int = 1000
    max_projects_per_publisher: int = 50
    room_auth_seconds: float = 10.0
    room_heartbeat_seconds: float = 15.0


class TokenBucket:
    """Allows `burst` at once and `per_second` in the long run."""

    __slots__ = ("_at", "_rate", "_tokens")

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._tokens = rate.burst
        self._at = now

    def take(self, amount: float, now: float) -> bool:
        """Take `amount` if it is there."""
        elapsed = max(0.0, now - self._at)
        self._at = max(self._at, now)
        self._tokens = min(self._rate.burst, self._tokens + elapsed * self._rate.per_second)
        if amount > self._tokens:
            return False
        self._tokens -= amount
        return True


class AddressLimiter:
    """A bucket for each address; the least recently seen are forgotten beyond MAX_TRACKED_ADDRESSES."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def allow(self, address: str, now: float) -> bool:
        """Whether this address may make one more call."""
        key = site_of(address)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(self._rate, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > MAX_TRACKED_ADDRESSES:
            self._buckets.popitem(last=False)
        return bucket.take(1.0, now)


def site_of(address: str) -> str:
    """What is counted as one caller: an IPv4 address, or an IPv6 /64."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, IPV6_SITE_BITS), strict=False))
