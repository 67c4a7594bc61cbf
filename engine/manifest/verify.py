"""Signing and checking manifests. The project's id is the hash of the payload, so nothing in it can change unseen."""

import hashlib
from dataclasses import dataclass

import msgspec

from engine.identity.keys import Identity, peer_id_of
from engine.identity.signing import verify
from engine.manifest.errors import ManifestError
from engine.manifest.parse import parse
from engine.manifest.schema import MAX_MANIFEST_BYTES, SIGNING_CONTEXT, Manifest, SignedManifest


@dataclass(frozen=True, slots=True)
class VerifiedManifest:
    """A manifest whose signature, bounds and meaning were checked."""

    manifest: Manifest
    manifest_hash: bytes  # SHA-256 of the payload, 32 bytes
    project_id: str  # the same in hex
    publisher_id: str  # id of the key that signed


def seal(manifest: Manifest, identity: Identity) -> SignedManifest:
    """Sign a manifest as its publisher.

    Raises:
        ManifestError: it is one that `open_signed` would refuse.
    """
    payload = msgspec.json.encode(manifest)
    parse(payload)
    signature = identity.sign(SIGNING_CONTEXT + payload)
    return SignedManifest(payload=payload, public_key=identity.public_key, signature=signature)


def open_signed(signed: SignedManifest) -> VerifiedManifest:
    """Check the signature first, then everything that the payload says.

    Raises:
        ManifestError: naming the field and what is wrong with it.
    """
    if len(signed.payload) > MAX_MANIFEST_BYTES:
        raise ManifestError("payload", f"{len(signed.payload)} bytes, at most {MAX_MANIFEST_BYTES}")
    if not verify(signed.public_key, SIGNING_CONTEXT + signed.payload, signed.signature):
        raise ManifestError("signature", "does not belong to this payload and key")
    manifest = parse(signed.payload)
    digest = hashlib.sha256(signed.payload).digest()
    return VerifiedManifest(
        manifest=manifest,
        manifest_hash=digest,
        project_id=digest.hex(),
        publisher_id=peer_id_of(signed.public_key),
    )
