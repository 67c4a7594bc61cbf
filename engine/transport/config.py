"""What a WebRtcNetwork is told at its start."""

from dataclasses import dataclass
from typing import Final

from engine.signaling.messages import IceServer
from engine.transport.base import MAX_MESSAGE_BYTES
from engine.transport.ledbat import TARGET_SECONDS

SCTP_PAYLOAD_BYTES: Final = 1160
"""What aiortc puts into one packet. Frames are whole numbers of it, so that no packet is sent half empty."""
DEFAULT_FRAME_BYTES: Final = 14 * SCTP_PAYLOAD_BYTES


@dataclass(frozen=True, slots=True)
class WebRtcConfig:
    """Servers, timings and bounds. The servers that the hub names in its room are used as well."""

    ice_servers: tuple[IceServer, ...] = ()
    loopback_only: bool = False  # neither gather nor send on any other interface; no servers either
    relay_only: bool = False  # peers see the address of a relay instead of this computer's; not with `loopback_only`
    connect_timeout_seconds: float = 20.0
    keep_alive_seconds: float = 2.0
    silence_seconds: float = 8.0  # without a sign of life for so long, a link is down
    close_timeout_seconds: float = 5.0
    max_links: int = 64
    max_bulk_bytes: int = MAX_MESSAGE_BYTES  # largest bulk message that a peer may send here
    frame_bytes: int = DEFAULT_FRAME_BYTES  # largest data-channel message that this end sends
    max_lanes: int = 12  # associations of one link, the first one included
    max_loopback_lanes: int = 2  # nothing is lost within a computer: one for control, one for bulk
    max_relayed_lanes: int = 2  # the same where a server carries them
    lane_idle_seconds: float = 300.0  # further lanes are closed after so long without bulk
    old_peer_seconds: float = 1.5  # a peer that did not probe by then knows of one lane only
    cap_local_links: bool = False  # the user's caps hold on loopback and in the local network too
    delay_target_seconds: float | None = TARGET_SECONDS  # queueing delay that bulk may add; None does not look at it
