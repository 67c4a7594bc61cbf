"""Short-lived credentials for a TURN server, in the scheme of "A REST API For Access To TURN Services" (coturn's
`use-auth-secret`): the user name is the moment it expires and whom it is for, the password an HMAC over that. PURE.
"""

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final

from engine.signaling.messages import IceServer

LIFETIME_SECONDS: Final = 24 * 3600
NAME_CHARS: Final = 16
MIN_SECRET_CHARS: Final = 8


@dataclass(frozen=True, slots=True)
class TurnAccess:
    """A TURN server that shares a secret with this hub."""

    urls: tuple[str, ...]
    secret: str = field(repr=False)
    lifetime_seconds: int = LIFETIME_SECONDS

    def __post_init__(self) -> None:
        if not self.urls or any(not url.startswith(("turn:", "turns:")) for url in self.urls):
            raise ValueError("a TURN server's address begins with turn: or turns:")
        if len(self.secret) < MIN_SECRET_CHARS:
            raise ValueError(f"the secret shared with the TURN server needs {MIN_SECRET_CHARS} characters at least")

    def server_for(self, peer_id: str, now: float) -> IceServer:
        """With a credential for one peer, from `now` (seconds since the epoch) on."""
        username = f"{int(now) + self.lifetime_seconds}:{peer_id[:NAME_CHARS]}"
        digest = hmac.new(self.secret.encode(), username.encode(), hashlib.sha1).digest()
        return IceServer(urls=self.urls, username=username, credential=base64.b64encode(digest).decode())
