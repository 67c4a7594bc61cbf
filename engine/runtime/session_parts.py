"""Builds a session with the real network, the real worker and the files of its project."""

from typing import Final

import aiohttp

from engine.checkpoints.store import CheckpointStore
from engine.core.clock import Clock
from engine.identity.keys import Identity
from engine.manifest.parse import parameter_count
from engine.manifest.verify import VerifiedManifest
from engine.runtime.catch_up import CHUNK_BYTES
from engine.runtime.config import EngineConfig
from engine.runtime.model import ModelState
from engine.runtime.parts import SessionParts
from engine.runtime.project_folder import CHECKPOINTS_NAME, SCRATCH_NAME, keep_manifest
from engine.runtime.session import Session
from engine.runtime.session_events import Limits, SessionListener
from engine.runtime.worker_trainer import WorkerTerms, WorkerTrainer
from engine.signaling.client import HubRoom
from engine.signaling.mesh import MeshRoom
from engine.signaling.messages import IceServer
from engine.store.rows import JoinedProject
from engine.transport.config import WebRtcConfig
from engine.transport.webrtc import WebRtcNetwork

MESSAGE_MARGIN_BYTES: Final = 64 * 1024
"""For a bulk message's fields beside its payload."""


def make_session(
    config: EngineConfig,
    identity: Identity,
    joined: JoinedProject,
    project: VerifiedManifest,
    http: aiohttp.ClientSession,
    clock: Clock,
    listener: SessionListener,
    limits: Limits,
) -> Session:
    """A session that has not begun.

    Raises:
        CheckpointError, OSError: the project's folder cannot be used.
    """
    folder = config.paths.project_dir(project.project_id)
    keep_manifest(folder, joined.signed)
    count = parameter_count(project.manifest)
    hub_room = HubRoom(joined.hub_url, project.project_id, identity, http)
    room = MeshRoom(hub_room, identity.peer_id, clock.monotonic)
    network = WebRtcNetwork(
        identity,
        project.manifest_hash,
        room,
        WebRtcConfig(
            ice_servers=tuple(IceServer(urls=(url,)) for url in config.ice_server_urls),
            loopback_only=config.loopback_only,
            max_bulk_bytes=max(4 * count, CHUNK_BYTES) + MESSAGE_MARGIN_BYTES,
        ),
    )
    checkpoints = CheckpointStore(folder / CHECKPOINTS_NAME, project.manifest_hash, count)
    trainer = WorkerTrainer(
        project,
        joined.signed.payload,
        identity.peer_id,
        folder / SCRATCH_NAME,
        clock,
        WorkerTerms(device=config.device),
    )
    model = ModelState(project, checkpoints)
    return Session(SessionParts(identity, project, room, network, trainer, model, clock, listener, room), limits=limits)
