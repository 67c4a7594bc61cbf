"""Checking Ed25519 signatures (RFC 8032)."""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from engine.identity.keys import KEY_BYTES, SIGNATURE_BYTES


def verify(public_key: bytes, data: bytes, signature: bytes) -> bool:
    """Whether `signature` was made over exactly `data` by the holder of `public_key` (raw bytes).

    Anything malformed (a wrong length, bytes that are no point on the curve) is simply not a good signature.
    """
    if len(public_key) != KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True
