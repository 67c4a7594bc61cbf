"""`potluck run`: the engine as a process, with or without a window."""

import argparse
import asyncio
import logging
import secrets

from engine.contract.errors import ControlError
from engine.contract.reasons import ProblemAction, ProblemCode
from engine.contract.settings import changed
from engine.contract.snapshot import Settings
from engine.control.endpoint import EngineLock
from engine.control.server import ControlServer
from engine.core.clock import SystemClock
from engine.core.errors import UserError
from engine.core.log import configure, hold_early_lines, register_secret
from engine.core.paths import Paths
from engine.hub.client import checked_hub_url
from engine.identity.vault import load_or_create
from engine.runtime.config import EngineConfig
from engine.runtime.lifetime import StopEvent, stop_event
from engine.runtime.supervisor import Supervisor
from engine.store.errors import StoreReadError
from engine.store.service import open_store

log = logging.getLogger(__name__)


def run_engine(paths: Paths, options: argparse.Namespace) -> int:
    """Run until asked to end.

    Raises:
        UserError: an option, the folder, the store or the key cannot be used, or another engine runs on this profile.
    """
    _check_options(options.hub, options.name)
    hold_early_lines()
    try:
        paths.ensure()
    except OSError as error:
        raise UserError(
            f"Potluck cannot use its folder {paths.data_dir}: {error.strerror or error}.",
            "Choose another with --data-dir, or allow writing there.",
        ) from error
    config = EngineConfig(
        paths=paths,
        hub_url=options.hub,
        join=options.join,
        name=options.name,
        use_keyring=not options.no_keyring,
        loopback_only=options.loopback,
        ignore_user_activity=options.unattended,
        ice_server_urls=tuple(options.stun),
        device=options.device,
    )
    level = logging.DEBUG if options.verbose else logging.INFO
    with configure(paths, level, console=not options.detached), EngineLock(paths):
        asyncio.run(_serve(config, with_parent=options.end_with_parent))
    return 0


def _check_options(hub_url: str | None, name: str | None) -> None:
    """Before anything begins, and in the options' own words."""
    if hub_url:
        try:
            checked_hub_url(hub_url)
        except UserError as error:
            raise UserError(f"--hub: {error.sentence}", error.action) from error
    if name is not None:
        try:
            changed(Settings(), {"display_name": name})
        except ControlError as error:
            raise UserError(f"--name {error.params['detail']}.", "Choose another name.") from error


async def _serve(config: EngineConfig, *, with_parent: bool) -> None:
    stop = stop_event(with_parent=with_parent)
    clock = SystemClock()
    started_at = clock.now()
    loaded = await asyncio.to_thread(load_or_create, config.paths.key_file, use_keyring=config.use_keyring)
    opened = await open_store(config.paths.store_file, started_at)
    async with opened.store as store:
        supervisor = Supervisor(config, store, loaded, clock)
        if opened.replaced is not None:
            supervisor.on_problem(
                ProblemCode.STORE_REPLACED,
                ProblemAction.DISMISS,
                {"path": str(opened.replaced.path), "backup_path": str(opened.replaced.backup_path)},
            )
        token = secrets.token_urlsafe(32)
        register_secret(token)
        server = ControlServer(
            config.paths,
            token,
            supervisor.handle,
            supervisor.publisher,
            started_at=started_at,
            on_faces=supervisor.on_faces,
        )
        watch = asyncio.create_task(_stop_when(stop, supervisor), name="stop watch")
        try:
            async with server:
                log.info("engine runs: peer %s, data in %s", loaded.identity.peer_id[:8], config.paths.data_dir)
                await supervisor.run()
        except StoreReadError as error:
            raise UserError(
                f"Potluck cannot read its records {error.path}: {error.detail}.",
                "Move that file away; Potluck then begins with new ones.",
            ) from error
        finally:
            watch.cancel()


async def _stop_when(stop: StopEvent, supervisor: Supervisor) -> None:
    await stop.wait()
    supervisor.stop(urgent=stop.urgent.is_set())
    await stop.urgent.wait()  # it may also come while a polite end waits for a round
    supervisor.stop(urgent=True)
