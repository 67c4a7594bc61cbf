"""Where the private key rests: the system's keyring, or a file that only the user can read where there is none.

A peer id is a volunteer's name on the leaderboard, so a key that exists is never silently replaced: once the keyring
holds it, a marker file says so, and a keyring that cannot be opened is then an error rather than a new identity.
"""

import base64
import binascii
import contextlib
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from engine.core.errors import UserError
from engine.core.files import write_atomic
from engine.core.paths import hash_of
from engine.identity.keys import Identity

log = logging.getLogger(__name__)

KEYRING_SERVICE: Final = "potluck"
KEYRING_TIMEOUT_SECONDS: Final = 5.0
MAX_KEY_FILE_BYTES: Final = 1024
_HEADING: Final = "potluck-identity-v1"
_MARKER_SUFFIX: Final = ".in-keyring"


class IdentityStore(StrEnum):
    """Where the key was found or put."""

    KEYRING = "keyring"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class LoadedIdentity:
    """An identity and where it rests. `notice` is empty, or a sentence that says why a file holds it."""

    identity: Identity
    store: IdentityStore
    notice: str


class KeyringUnavailable(Exception):
    """There is no keyring, or it did not answer; the text says which."""


def load_or_create(key_file: Path, *, use_keyring: bool) -> LoadedIdentity:
    """The profile's identity, made on the first call. Waits at most KEYRING_TIMEOUT_SECONDS for each keyring access.

    A key file that exists is used. Otherwise the keyring's entry of this profile is used or made; without a keyring
    the key goes to `key_file` with mode 0600.

    Raises:
        UserError: the key file cannot be read, understood or written, or the keyring that holds the key cannot be
            opened.
    """
    if _exists(key_file):
        identity = _read_key_file(key_file)
        notice = f"Your key is kept in the file {key_file}, not in this system's keyring." if use_keyring else ""
        return LoadedIdentity(identity, IdentityStore.FILE, notice)
    if not use_keyring:
        return LoadedIdentity(_create_key_file(key_file), IdentityStore.FILE, "")
    marker = key_file.with_name(key_file.name + _MARKER_SUFFIX)
    try:
        identity = _load_or_create_in_keyring(_keyring_user(key_file), must_exist=_exists(marker))
    except KeyringUnavailable as error:
        if _exists(marker):
            raise UserError(
                f"Your Potluck key is in this system's keyring, which could not be opened ({error}).",
                f"Unlock the keyring and start Potluck again, or delete {marker} to begin with a new identity.",
            ) from error
        notice = f"This system's keyring could not be used ({error}), so your key is kept in the file {key_file}."
        return LoadedIdentity(_create_key_file(key_file), IdentityStore.FILE, notice)
    _write(marker, f"{identity.peer_id}\n")
    return LoadedIdentity(identity, IdentityStore.KEYRING, "")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise UserError(
            f"The folder {path.parent} cannot be read: {error.strerror or error}.",
            "Give your user account permission to read it.",
        ) from error


def _keyring_user(key_file: Path) -> str:
    return f"identity-{hash_of(key_file.absolute()):016x}"


def _load_or_create_in_keyring(user: str, *, must_exist: bool) -> Identity:
    """Raises KeyringUnavailable."""
    import keyring  # slow to import, and not needed when the key is in a file

    stored = _within_deadline(lambda: keyring.get_password(KEYRING_SERVICE, user))
    if stored is not None:
        try:
            return _parse(stored)
        except ValueError as error:
            raise UserError(
                f"The Potluck key in this system's keyring (entry {user}) is damaged: {error}.",
                f'Delete the entry "{KEYRING_SERVICE}" / "{user}" to begin with a new identity.',
            ) from error
    if must_exist:
        raise KeyringUnavailable("it no longer holds the key")
    identity = Identity.generate()
    text = _format(identity)
    _within_deadline(lambda: keyring.set_password(KEYRING_SERVICE, user, text))
    # Some back ends accept everything and keep nothing.
    if _within_deadline(lambda: keyring.get_password(KEYRING_SERVICE, user)) != text:
        raise KeyringUnavailable("it did not keep the key")
    return identity


def forget(key_file: Path) -> None:
    """Take the key out of the keyring and remove its file. What is not there, or out of reach, is passed over."""
    import keyring

    user = _keyring_user(key_file)

    def delete() -> None:
        if keyring.get_password(KEYRING_SERVICE, user) is not None:
            keyring.delete_password(KEYRING_SERVICE, user)

    with contextlib.suppress(KeyringUnavailable):
        _within_deadline(delete)
    with contextlib.suppress(OSError):
        key_file.unlink()


def _within_deadline(call: Callable[[], str | None]) -> str | None:
    """The result of `call`, run in a thread that is left behind when it does not return in time.

    A keyring may wait for ever for a prompt that nobody sees (a headless session, a locked collection).

    Raises:
        KeyringUnavailable: it failed or did not answer within KEYRING_TIMEOUT_SECONDS.
    """
    outcome: dict[str, Any] = {}

    def run() -> None:
        try:
            outcome["value"] = call()
        except Exception as error:  # noqa: BLE001 (Border: back ends raise whatever their system's libraries raise)
            outcome["error"] = error

    thread = threading.Thread(target=run, name="keyring", daemon=True)
    thread.start()
    thread.join(KEYRING_TIMEOUT_SECONDS)
    if thread.is_alive():
        raise KeyringUnavailable(f"no answer within {KEYRING_TIMEOUT_SECONDS:.0f} seconds")
    if "error" in outcome:
        error = outcome["error"]
        log.info("keyring unavailable: %s: %s", type(error).__name__, error)
        raise KeyringUnavailable(_name_of(error)) from error
    value: str | None = outcome["value"]
    return value


def _name_of(error: Exception) -> str:
    names = {"NoKeyringError": "none is installed", "KeyringLocked": "it is locked"}
    return names.get(type(error).__name__, type(error).__name__)


def _read_key_file(path: Path) -> Identity:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_KEY_FILE_BYTES + 1)
    except OSError as error:
        raise UserError(
            f"The file with your key, {path}, cannot be read: {error.strerror or error}.",
            "Give your user account permission to read it.",
        ) from error
    try:
        if len(data) > MAX_KEY_FILE_BYTES:
            raise ValueError("it is too long")
        identity = _parse(data.decode("ascii"))
    except ValueError as error:  # UnicodeDecodeError is one
        detail = "it is not text" if isinstance(error, UnicodeDecodeError) else str(error)
        raise UserError(
            f"The file with your key, {path}, is damaged: {detail}.",
            "Put back a copy of it, or move it away to begin with a new identity.",
        ) from error
    _keep_private(path)
    return identity


def _create_key_file(path: Path) -> Identity:
    identity = Identity.generate()
    _write(path, _format(identity))
    return identity


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(path, text.encode("ascii"), mode=0o600)
    except OSError as error:
        raise UserError(
            f"The file {path} cannot be written: {error.strerror or error}.",
            "Free some space, or give your user account permission to write there.",
        ) from error


def _keep_private(path: Path) -> None:
    """Take other users' access away from a key file that was copied carelessly."""
    if os.name != "posix" or not path.stat().st_mode & 0o077:
        return
    with contextlib.suppress(OSError):
        path.chmod(0o600)


def _format(identity: Identity) -> str:
    secret = base64.b64encode(identity.private_bytes()).decode("ascii")
    return f"{_HEADING} {secret} {identity.peer_id}\n"


def _parse(text: str) -> Identity:
    """The peer id beside the secret tells a damaged key from a good one: any 32 bytes would be some key.

    Raises:
        ValueError: the text is no stored identity.
    """
    fields = text.split()
    if len(fields) != 3 or fields[0] != _HEADING:
        raise ValueError("it does not look like a Potluck key")
    try:
        identity = Identity.from_private_bytes(base64.b64decode(fields[1], validate=True))
    except binascii.Error as error:
        raise ValueError("the secret is not base64") from error
    if identity.peer_id != fields[2]:
        raise ValueError("the secret and the peer id beside it do not belong together")
    return identity
