"""A peer's Ed25519 key (RFC 8032) and the id that is derived from it."""

import base64
import binascii
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
PEER_ID_CHARS: Final = 52


class Identity:
    """A private key with its public half and peer id. Immutable; its `repr` names only the peer id."""

    __slots__ = ("_private", "_public_key")

    _private: Ed25519PrivateKey
    _public_key: bytes

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self._public_key = private.public_key().public_bytes_raw()

    @staticmethod
    def generate() -> "Identity":
        """A new random identity."""
        return Identity(Ed25519PrivateKey.generate())

    @staticmethod
    def from_private_bytes(raw: bytes) -> "Identity":
        """The identity of a private key of KEY_BYTES bytes.

        Raises:
            ValueError: the length is wrong.
        """
        if len(raw) != KEY_BYTES:
            raise ValueError(f"an Ed25519 private key has {KEY_BYTES} bytes, not {len(raw)}")
        return Identity(Ed25519PrivateKey.from_private_bytes(raw))

    @property
    def public_key(self) -> bytes:
        """KEY_BYTES raw bytes."""
        return self._public_key

    @property
    def peer_id(self) -> str:
        """Lower-case base32 of the public key without padding, PEER_ID_CHARS characters."""
        return peer_id_of(self._public_key)

    def private_bytes(self) -> bytes:
        """KEY_BYTES secret bytes, for the vault only."""
        return self._private.private_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        """The Ed25519 signature of `data`, SIGNATURE_BYTES bytes. Callers prefix a context of their own."""
        return self._private.sign(data)

    def __repr__(self) -> str:
        return f"Identity({self.peer_id})"


def peer_id_of(public_key: bytes) -> str:
    """The peer id of a raw public key.

    Raises:
        ValueError: the length is wrong.
    """
    if len(public_key) != KEY_BYTES:
        raise ValueError(f"an Ed25519 public key has {KEY_BYTES} bytes, not {len(public_key)}")
    return base64.b32encode(public_key).decode("ascii").rstrip("=").lower()


def public_key_of(peer_id: str) -> bytes:
    """The raw public key that a peer id stands for.

    Raises:
        ValueError: it is not a peer id in its one canonical spelling.
    """
    if len(peer_id) != PEER_ID_CHARS or not peer_id.isascii():
        raise ValueError(f"a peer id has {PEER_ID_CHARS} letters and digits")
    try:
        key = base64.b32decode(peer_id.upper() + "====")
    except binascii.Error as error:
        raise ValueError("a peer id has only the letters a to z and the digits 2 to 7") from error
    if peer_id_of(key) != peer_id:
        raise ValueError("the peer id is not spelt canonically")
    return key
