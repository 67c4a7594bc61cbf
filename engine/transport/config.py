"""What a WebRtcNetwork is told at its start."""

from dataclasses import dataclass
from typing import Final

from engine.signaling.messages import IceServer
from engine.transport.base import MAX_MESSAGE_BYTES

DEFAULT_FRAME_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class WebRtcConfig:
    """Servers, timings and bounds. The servers that the hub names in its room are used as well."""

    ice_servers: tuple[IceServer, ...] = ()
    loopback_only: bool = False  # neither gather nor send on any other interface; no servers either
    connect_timeout_seconds: float = 20.0
    keep_alive_seconds: float = 2.0
    silence_seconds: float = 8.0  # without a sign of life for so long, a link is down
    close_timeout_seconds: float = 5.0
    max_links: int = 64
    max_bulk_bytes: int = MAX_MESSAGE_BYTES  # largest bulk message that a peer may send here
    frame_bytes: int = DEFAULT_FRAME_BYTES  # payload of one data-channel message
