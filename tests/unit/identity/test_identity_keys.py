import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.identity.keys import Identity, peer_id_of, public_key_of
from engine.identity.signing import verify

# RFC 8032 section 7.1, test 2.
SECRET = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
PUBLIC = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
SIGNATURE = bytes.fromhex(
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)


def test_the_rfc_vector() -> None:
    identity = Identity.from_private_bytes(SECRET)
    assert identity.public_key == PUBLIC
    assert identity.sign(b"\x72") == SIGNATURE
    assert identity.private_bytes() == SECRET
    assert verify(PUBLIC, b"\x72", SIGNATURE)


def test_new_identities_differ_and_sign() -> None:
    one, two = Identity.generate(), Identity.generate()
    assert one.peer_id != two.peer_id
    assert verify(one.public_key, b"x", one.sign(b"x"))
    assert not verify(two.public_key, b"x", one.sign(b"x"))
    assert not verify(one.public_key, b"y", one.sign(b"x"))


def test_the_repr_does_not_show_the_secret() -> None:
    identity = Identity.from_private_bytes(SECRET)
    assert repr(identity) == f"Identity({identity.peer_id})"


@given(st.binary(min_size=32, max_size=32))
def test_peer_ids_stand_for_exactly_one_key(key: bytes) -> None:
    peer_id = peer_id_of(key)
    assert len(peer_id) == 52
    assert peer_id == peer_id.lower()
    assert public_key_of(peer_id) == key


@pytest.mark.parametrize("size", [0, 31, 33])
def test_keys_of_a_wrong_length_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"not {size}"):
        peer_id_of(bytes(size))
    with pytest.raises(ValueError, match=f"not {size}"):
        Identity.from_private_bytes(bytes(size))


@pytest.mark.parametrize(
    "peer_id",
    ["", "a" * 51, "a" * 53, "1" * 52, "A" * 52, "a" * 51 + "=", "a" * 51 + "b", "ä" * 52, "a" * 51 + "\n"],
)
def test_misspelt_peer_ids_are_refused(peer_id: str) -> None:
    with pytest.raises(ValueError, match="peer id"):
        public_key_of(peer_id)


@given(key=st.binary(max_size=40), data=st.binary(max_size=20), signature=st.binary(max_size=70))
def test_random_signatures_are_false_and_nothing_worse(key: bytes, data: bytes, signature: bytes) -> None:
    assert not verify(key, data, signature)


@pytest.mark.parametrize("position", [0, 31, 32, 63])
def test_a_changed_signature_is_false(position: int) -> None:
    changed = bytearray(SIGNATURE)
    changed[position] ^= 1
    assert not verify(PUBLIC, b"\x72", bytes(changed))
