import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from engine.core.errors import UserError
from engine.identity import vault
from engine.identity.keys import Identity
from engine.identity.vault import IdentityStore, load_or_create


class RamKeyring(KeyringBackend):
    """A keyring in memory that can be locked, forgetful or dead silent."""

    priority = 1.0  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[str, str], str] = {}
        self.on_access: Callable[[], None] = lambda: None
        self.keeps = True

    def get_password(self, service: str, username: str) -> str | None:
        self.on_access()
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.on_access()
        if self.keeps:
            self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self.entries.pop((service, username), None)


@pytest.fixture
def ram() -> RamKeyring:
    backend = RamKeyring()
    keyring.set_keyring(backend)
    return backend


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return tmp_path / "profile" / "identity.key"


@pytest.fixture
def silence(ram: RamKeyring, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The keyring waits for somebody who never comes."""
    end = threading.Event()
    monkeypatch.setattr(vault, "KEYRING_TIMEOUT_SECONDS", 0.01)

    def wait_for_nobody() -> None:
        end.wait()

    ram.on_access = wait_for_nobody
    yield
    end.set()
    for thread in threading.enumerate():
        if thread.name == "keyring":
            thread.join(5.0)


def locked() -> None:
    raise KeyringLocked("sealed")


def test_the_key_goes_to_the_keyring_and_comes_back(ram: RamKeyring, key_file: Path) -> None:
    first = load_or_create(key_file, use_keyring=True)
    second = load_or_create(key_file, use_keyring=True)
    assert first.store is IdentityStore.KEYRING
    assert first.notice == ""
    assert first.identity.peer_id == second.identity.peer_id
    assert not key_file.exists()
    assert [service for service, _ in ram.entries] == ["potluck"]


def test_profiles_have_keys_of_their_own(ram: RamKeyring, tmp_path: Path) -> None:
    one = load_or_create(tmp_path / "one" / "identity.key", use_keyring=True)
    two = load_or_create(tmp_path / "two" / "identity.key", use_keyring=True)
    assert one.identity.peer_id != two.identity.peer_id
    assert len(ram.entries) == 2


def test_without_a_keyring_the_file_is_used_and_the_user_told(key_file: Path) -> None:
    first = load_or_create(key_file, use_keyring=True)
    second = load_or_create(key_file, use_keyring=True)
    assert first.store is second.store is IdentityStore.FILE
    assert first.identity.peer_id == second.identity.peer_id
    assert str(key_file) in first.notice
    assert "none is installed" in first.notice
    assert str(key_file) in second.notice


def test_a_file_on_purpose_needs_no_notice(ram: RamKeyring, key_file: Path) -> None:
    loaded = load_or_create(key_file, use_keyring=False)
    assert loaded.store is IdentityStore.FILE
    assert loaded.notice == load_or_create(key_file, use_keyring=False).notice == ""
    assert not ram.entries


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_the_file_is_the_users_alone(key_file: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        load_or_create(key_file, use_keyring=False)
    finally:
        os.umask(before)
    if os.name == "posix":
        assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
        key_file.chmod(0o644)
        load_or_create(key_file, use_keyring=False)
        assert stat.S_IMODE(key_file.stat().st_mode) == 0o600


def test_a_silent_keyring_is_not_waited_for(silence: None, key_file: Path) -> None:
    loaded = load_or_create(key_file, use_keyring=True)
    assert loaded.store is IdentityStore.FILE
    assert "no answer within" in loaded.notice


def test_a_keyring_that_keeps_nothing_is_not_trusted(ram: RamKeyring, key_file: Path) -> None:
    ram.keeps = False
    loaded = load_or_create(key_file, use_keyring=True)
    assert loaded.store is IdentityStore.FILE
    assert "did not keep the key" in loaded.notice


def test_a_locked_keyring_never_costs_the_volunteer_their_name(ram: RamKeyring, key_file: Path) -> None:
    mine = load_or_create(key_file, use_keyring=True).identity.peer_id
    ram.on_access = locked
    with pytest.raises(UserError, match="it is locked") as caught:
        load_or_create(key_file, use_keyring=True)
    assert "Unlock the keyring" in caught.value.action
    ram.on_access = lambda: None
    assert load_or_create(key_file, use_keyring=True).identity.peer_id == mine


def test_a_keyring_that_lost_the_key_is_an_error(ram: RamKeyring, key_file: Path) -> None:
    load_or_create(key_file, use_keyring=True)
    ram.entries.clear()
    with pytest.raises(UserError, match="no longer holds the key"):
        load_or_create(key_file, use_keyring=True)


def test_a_damaged_keyring_entry_is_named(ram: RamKeyring, key_file: Path) -> None:
    load_or_create(key_file, use_keyring=True)
    ram.entries = dict.fromkeys(ram.entries, "garbage")
    with pytest.raises(UserError, match="is damaged: it does not look like a Potluck key"):
        load_or_create(key_file, use_keyring=True)


def good_text() -> str:
    return vault._format(Identity.generate())


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "does not look like a Potluck key"),
        (b"\xff\xfe\x00", "it is not text"),
        (b"potluck-identity-v1 AAAA", "does not look like"),
        (b"potluck-identity-v2 AAAA bbbb", "does not look like"),
        (b"potluck-identity-v1 AAAA bbbb", "has 32 bytes, not 3"),
        (b"potluck-identity-v1 !!!! bbbb", "the secret is not base64"),
        (b"x" * 5000, "too long"),
    ],
)
def test_damaged_key_files_are_named_and_kept(key_file: Path, content: bytes, complaint: str) -> None:
    key_file.parent.mkdir()
    key_file.write_bytes(content)
    with pytest.raises(UserError, match=complaint) as caught:
        load_or_create(key_file, use_keyring=True)
    assert str(key_file) in caught.value.sentence
    assert caught.value.action
    assert key_file.read_bytes() == content


def test_a_flipped_letter_is_noticed(key_file: Path) -> None:
    key_file.parent.mkdir()
    heading, secret, peer_id = good_text().split()
    flipped = ("B" if secret[0] == "A" else "A") + secret[1:]
    key_file.write_text(f"{heading} {flipped} {peer_id}\n")
    with pytest.raises(UserError, match="do not belong together"):
        load_or_create(key_file, use_keyring=False)


def test_an_unreadable_file_is_named(key_file: Path) -> None:
    key_file.mkdir(parents=True)
    with pytest.raises(UserError, match="cannot be read") as caught:
        load_or_create(key_file, use_keyring=False)
    assert "permission" in caught.value.action


def test_an_unwritable_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="cannot be written"):
        load_or_create(tmp_path / "file" / "identity.key", use_keyring=False)


def test_a_full_disk_is_named(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes, mode: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(vault, "write_atomic", full)
    with pytest.raises(UserError, match="No space left on device"):
        load_or_create(key_file, use_keyring=False)
    assert not key_file.exists()
