"""What the wire refuses."""

from engine.core.errors import PeerError


class WireError(PeerError):
    """A peer broke the protocol; the text says what and where. The link is closed."""
