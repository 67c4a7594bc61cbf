"""`potluck hub`: a hub on this computer, with the projects that its operator publishes."""

import argparse
import asyncio
import contextlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import aiohttp
import filelock
import msgspec

from engine.core.errors import UserError
from engine.core.log import configure, register_secret
from engine.core.paths import Paths
from engine.hub.client import HubClient
from engine.hub.config import DEFAULT_DATABASE_NAME, HubConfig, sqlite_url
from engine.hub.errors import HubError
from engine.hub.server import running_hub
from engine.hub.turn import TurnAccess
from engine.identity.keys import Identity
from engine.identity.vault import load_or_create
from engine.manifest.errors import ManifestError
from engine.manifest.parse import parse
from engine.manifest.schema import MAX_MANIFEST_BYTES, Manifest
from engine.manifest.verify import seal
from engine.runtime.bundled import bundled_manifests
from engine.runtime.lifetime import stop_event
from engine.signaling.messages import IceServer

log = logging.getLogger(__name__)

LOCK_NAME: Final = "hub.lock"


class HubStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The one line on standard output, JSON, for whoever started the hub."""

    url: str
    projects: dict[str, str]  # name: project id


def run_hub(paths: Paths, options: argparse.Namespace) -> int:
    """Serve until asked to end.

    Raises:
        UserError: another hub runs on this folder, or the folder, database, port or a manifest cannot be used.
    """
    try:
        paths.ensure()
    except OSError as error:
        raise UserError(f"Potluck cannot use its folder {paths.data_dir}: {error.strerror or error}.") from error
    manifests = [_read_manifest(Path(name)) for name in options.publish]
    if options.bundled:
        manifests += bundled_manifests()
    with configure(paths, console=True, name="hub"), _hub_lock(paths):
        asyncio.run(_serve(paths, options, manifests))
    return 0


@contextlib.contextmanager
def _hub_lock(paths: Paths) -> Iterator[None]:
    """One hub a folder: two would write the same database. A dead hub's lock is freed by the system."""
    lock = filelock.FileLock(paths.data_dir / LOCK_NAME, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise UserError(
            f"A hub is already running on {paths.data_dir}.", "Use the one that runs, stop it first, or use --data-dir."
        ) from None
    except OSError as error:
        raise UserError(
            f"The hub cannot write to its folder {paths.data_dir}: {error.strerror or error}.",
            "Free some space or allow writing there, then start again.",
        ) from error
    try:
        yield
    finally:
        lock.release()


async def _serve(paths: Paths, options: argparse.Namespace, manifests: list[Manifest]) -> None:
    stop = stop_event(with_parent=options.end_with_parent)
    loaded = load_or_create(paths.key_file, use_keyring=False)
    config = HubConfig(
        database_url=_database_url(options.database, paths),
        host=options.host,
        port=options.port,
        ice_servers=tuple(IceServer(urls=(url,)) for url in options.stun),
        turn=_turn(options.turn, options.turn_secret),
        kits_folder=options.kits,
        publishers="open" if options.open else (loaded.identity.peer_id,),
    )
    async with running_hub(config) as hub:
        projects = await _publish(hub.url, loaded.identity, manifests)
        line = msgspec.json.encode(HubStarted(url=hub.url, projects=projects)).decode()
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        await stop.wait()


def _turn(urls: list[str], secret_file: Path | None) -> TurnAccess | None:
    """The secret comes from a file: a command line can be read by every user of a computer."""
    if not urls and secret_file is None:
        return None
    if not urls or secret_file is None:
        raise UserError("A TURN server needs --turn and --turn-secret.", "Name both.")
    try:
        secret = secret_file.expanduser().read_text(encoding="utf-8").strip()
        register_secret(secret)
        return TurnAccess(tuple(urls), secret)
    except OSError as error:
        raise UserError(f"{secret_file} cannot be read: {error.strerror}.", "Check the file's name.") from error
    except ValueError as error:
        raise UserError(f"The TURN server cannot be used: {error}.", "Mend --turn or --turn-secret.") from error


def _database_url(option: str | None, paths: Paths) -> str:
    """An SQLAlchemy address as it is, a file name as one, or the profile's own file."""
    if option and "://" in option:
        return option
    return sqlite_url(Path(option).expanduser() if option else paths.data_dir / DEFAULT_DATABASE_NAME)


async def _publish(url: str, identity: Identity, manifests: list[Manifest]) -> dict[str, str]:
    projects = {}
    async with aiohttp.ClientSession() as session:
        client = HubClient(url, identity, session)
        for manifest in manifests:
            try:
                published = await client.publish(seal(manifest, identity))
            except HubError as error:
                raise UserError(f"The project {manifest.name} could not be published: {error.detail}.") from error
            projects[manifest.name] = published.project_id
            log.info("published %s as %s", manifest.name, published.project_id[:16])
    return projects


def _read_manifest(path: Path) -> Manifest:
    try:
        if path.stat().st_size > MAX_MANIFEST_BYTES:
            raise UserError(f"{path} is too long for a manifest.", f"At most {MAX_MANIFEST_BYTES} bytes.")
        return parse(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.", "Check the file's name.") from error
    except ManifestError as error:
        raise UserError(f"{path} is not a manifest that can be used: {error}.") from error
