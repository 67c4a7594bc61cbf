"""Named limits of the peer protocol. Spec: docs/specs/wire.md."""

from typing import Final

MAX_BULK_BYTES: Final = 64 * 1024 * 1024
"""Largest bulk message; equals `engine.transport.base.MAX_MESSAGE_BYTES`, to which a test holds it."""

MIN_FRAME_PAYLOAD_BYTES: Final = 1024
"""Every frame but a message's last carries at least this much, so that frames cannot be all header."""

MAX_FRAME_PAYLOAD_BYTES: Final = 60 * 1024
"""With header and digest a frame stays below the 64 KiB that every WebRTC implementation takes (RFC 8841)."""

LANE_WINDOW_BYTES: Final = (1024 * 1024, 4 * 1024 * 1024)
"""Frame bytes that may be on their way, by lane (control, bulk): sent and not yet granted back by the receiver."""

INITIAL_GRANT_BYTES: Final = 256 * 1024
"""Bulk payload that may be sent before the receiver's first report; below the window so that a download cap holds from
the start."""

MAX_MESSAGES_AHEAD: Final = 1024
"""A bulk message may overtake an unfinished one by fewer numbers than this."""

MAX_LANES: Final = 16
"""Associations of one link, the first one included."""

MAX_LANE_SIGNAL_BYTES: Final = 24 * 1024
"""Session description in a lane's offer or answer."""

MAX_UNDELIVERED_BYTES: Final = 2 * 1024 * 1024
"""What one association may hold of data-channel messages that are not whole or not in turn, before the link is closed;
twice the window that SCTP itself advertises."""

MAX_UNDELIVERED_CHUNKS: Final = 8192
"""The same in chunks, since a chunk of one byte costs as much memory as a full one."""

MAX_BACKLOG_BYTES: Final = (1024 * 1024, 4 * 1024 * 1024)
"""Whole messages of one peer that wait to be consumed, by lane; above it the receiver grants nothing."""

MAX_MESSAGES_PER_SECOND: Final = 200.0
"""Sustained rate of one peer's messages on a link."""

MAX_CONTROL_BYTES_PER_SECOND: Final = 1024.0 * 1024.0
"""Sustained rate of one peer's control bytes; bulk is bounded by what rounds and transfers ask for."""

BUDGET_BURST_SECONDS: Final = 10.0
"""A peer may spend this many seconds of its budget at once."""

HELLO_DEADLINE_SECONDS: Final = 10.0
"""A link whose peer has not said hello by then is closed."""

MAX_EARLY_BULK_BYTES: Final = MAX_BULK_BYTES
"""Bulk that overtook the hello in its own lane is held up to this much."""
