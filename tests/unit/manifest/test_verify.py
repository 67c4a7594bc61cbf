import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.identity.keys import Identity
from engine.manifest.errors import ManifestError
from engine.manifest.schema import MAX_MANIFEST_BYTES, SIGNING_CONTEXT, SignedManifest
from engine.manifest.verify import open_signed, seal
from tests.helpers.tiny_project import tiny_manifest, tiny_training

PUBLISHER = Identity.from_private_bytes(b"\x01" * 32)
OTHER = Identity.from_private_bytes(b"\x02" * 32)


def test_a_sealed_manifest_opens_and_its_id_is_the_payloads_hash() -> None:
    signed = seal(tiny_manifest(), PUBLISHER)
    opened = open_signed(signed)
    assert opened.manifest == tiny_manifest()
    assert opened.manifest_hash == hashlib.sha256(signed.payload).digest()
    assert opened.project_id == opened.manifest_hash.hex()
    assert opened.publisher_id == PUBLISHER.peer_id


def test_another_publishers_key_is_refused() -> None:
    signed = msgspec.structs.replace(seal(tiny_manifest(), PUBLISHER), public_key=OTHER.public_key)
    with pytest.raises(ManifestError, match="signature"):
        open_signed(signed)


def test_a_signature_without_its_context_is_refused() -> None:
    payload = msgspec.json.encode(tiny_manifest())
    signed = SignedManifest(payload=payload, public_key=PUBLISHER.public_key, signature=PUBLISHER.sign(payload))
    with pytest.raises(ManifestError, match="signature"):
        open_signed(signed)


@given(st.integers(min_value=0), st.integers(1, 255))
def test_any_changed_byte_of_the_payload_is_noticed(place: int, change: int) -> None:
    signed = seal(tiny_manifest(), PUBLISHER)
    payload = bytearray(signed.payload)
    payload[place % len(payload)] ^= change
    with pytest.raises(ManifestError, match="signature"):
        open_signed(msgspec.structs.replace(signed, payload=bytes(payload)))


def test_a_signature_does_not_excuse_nonsense() -> None:
    payload = b'{"manifest_version": 1}'
    signature = PUBLISHER.sign(SIGNING_CONTEXT + payload)
    signed = SignedManifest(payload=payload, public_key=PUBLISHER.public_key, signature=signature)
    with pytest.raises(ManifestError):
        open_signed(signed)


def test_an_oversized_payload_is_refused_before_its_signature_is_computed() -> None:
    signed = seal(tiny_manifest(), PUBLISHER)
    with pytest.raises(ManifestError, match="at most"):
        open_signed(msgspec.structs.replace(signed, payload=b" " * (MAX_MANIFEST_BYTES + 1)))


def test_nobody_seals_what_others_would_refuse() -> None:
    with pytest.raises(ManifestError, match="micro_batch_samples"):
        seal(tiny_manifest(training=tiny_training(micro_batch_samples=100)), PUBLISHER)
