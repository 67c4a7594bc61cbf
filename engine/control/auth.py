"""The secret that lets a face in: made anew at every start, readable only by the user through the endpoint file."""

import hmac
import secrets
from typing import Final

TOKEN_BYTES: Final = 32


def new_token() -> str:
    """A fresh secret of 32 random bytes, URL-safe base64."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def token_matches(expected: str, given: str) -> bool:
    """Compare in a time that does not depend on where the two differ."""
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "surrogatepass"))
