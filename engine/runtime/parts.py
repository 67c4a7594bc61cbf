"""What a session works with."""

from dataclasses import dataclass
from typing import Protocol

from engine.core.clock import Clock
from engine.identity.keys import Identity
from engine.manifest.verify import VerifiedManifest
from engine.runtime.model import ModelState
from engine.runtime.session_events import SessionListener
from engine.runtime.trainer import Trainer
from engine.signaling.mesh import MeshRoom
from engine.transport.base import PeerNetwork


class Rendezvous(Protocol):
    """Where the network meets its peers; the session starts and ends it."""

    async def start(self) -> None:
        """Begin to connect."""

    async def close(self) -> None:
        """Leave. Safe to repeat."""


@dataclass(frozen=True, slots=True)
class SessionParts:
    """A session owns `rendezvous`, `network` and `trainer` and closes them."""

    identity: Identity
    project: VerifiedManifest
    rendezvous: Rendezvous
    network: PeerNetwork
    trainer: Trainer
    model: ModelState
    clock: Clock
    listener: SessionListener
    mesh: MeshRoom | None = None  # the rendezvous itself, where its peers introduce one another
