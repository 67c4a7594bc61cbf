"""Peers that introduce one another: tells neighbours of each other, and passes envelopes on between them."""

import logging
import math
from typing import Final

from engine.runtime.peers import PeerTable
from engine.signaling.mesh import MeshRoom
from engine.transport.base import PeerId
from engine.wire.messages import Neighbours, PassOn

log = logging.getLogger(__name__)

TELL_SECONDS: Final = 1.0
"""Neighbours are told of changes no more often."""


class Introducer:
    """Between a session's links and its rendezvous; does nothing where that is no mesh."""

    def __init__(self, me: PeerId, mesh: MeshRoom | None, peers: PeerTable) -> None:
        self._me = me
        self._mesh = mesh
        self._peers = peers
        self._told: tuple[PeerId, ...] = ()
        self._told_at = -math.inf
        self._newcomers = False
        if mesh is not None:
            mesh.carry = self._ask_to_pass_on

    def on_ready(self, peer: PeerId) -> None:
        """A peer can be talked to."""
        if self._mesh is not None:
            self._newcomers = True
            self._mesh.on_link(peer)

    def on_lost(self, peer: PeerId) -> None:
        """It cannot any more. Safe to repeat."""
        if self._mesh is not None:
            self._mesh.on_link_lost(peer)

    def on_message(self, peer: PeerId, message: Neighbours | PassOn, now: float) -> None:
        """A peer tells of its neighbours, or wants an envelope passed on."""
        mesh = self._mesh
        if mesh is None:
            return
        if isinstance(message, Neighbours):
            mesh.on_told(peer, message.peers)
        elif message.to_peer == self._me:
            mesh.on_payload(message.from_peer, message.payload)
        elif message.from_peer != peer:
            log.info("%s wants something passed on that is not its own", peer[:8])
        elif refusal := mesh.neighbours.may_carry(peer, message.to_peer, now):
            log.info("nothing is passed on from %s to %s: %s", peer[:8], message.to_peer[:8], refusal)
        else:
            self._peers.send(message.to_peer, message)

    def tell(self, now: float) -> None:
        """Call now and then: neighbours learn who else is one."""
        if self._mesh is None or now - self._told_at < TELL_SECONDS:
            return
        mine = self._mesh.neighbours.mine()
        if mine != self._told or self._newcomers:
            self._told, self._told_at, self._newcomers = mine, now, False
            self._peers.broadcast(Neighbours(peers=mine))

    def _ask_to_pass_on(self, carrier: PeerId, to_peer: PeerId, payload: bytes) -> None:
        self._peers.send(carrier, PassOn(from_peer=self._me, to_peer=to_peer, payload=payload))
