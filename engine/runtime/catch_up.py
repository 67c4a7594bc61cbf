"""Fetching the shared state from peers that are ahead, and giving it to those behind."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from engine.averaging.kernels import NonFiniteGradient
from engine.checkpoints.errors import BlobError, ChunkError
from engine.checkpoints.transfer import ChunkFetch, chunk_count, chunk_of, from_blob, max_blob_bytes
from engine.core.errors import PeerError
from engine.runtime.model import MAX_DELTA_BYTES, Blob, ModelState
from engine.runtime.peers import PeerTable
from engine.transport.base import PeerId
from engine.wire.budget import Budget
from engine.wire.messages import Chunk, ChunkRequest, StateOffer, StateRequest, StateUnavailable

log = logging.getLogger(__name__)

CHUNK_BYTES: Final = 256 * 1024
OFFER_SECONDS: Final = 120.0
MAX_OFFERS: Final = 3
REQUESTS_PER_SECOND: Final = 0.2
REQUEST_BURST: Final = 4.0
"""A joiner needs one, and another when it fell behind meanwhile."""
MAX_BUDGETS: Final = 256
OFFER_WAIT_SECONDS: Final = 10.0
"""A donor that does not answer a request within this is left alone for a while."""


class FetchFailed(PeerError):
    """The donor could not or would not; try another. With `steps_differ` ask the same one for the whole state."""

    def __init__(self, peer_id: PeerId, reason: str, *, steps_differ: bool = False) -> None:
        super().__init__(f"{peer_id[:8]}: {reason}")
        self.peer_id = peer_id
        self.steps_differ = steps_differ


class Donor:
    """Serves blobs of this computer's state. A blob stays as it was offered while the model moves on."""

    def __init__(self, peers: PeerTable) -> None:
        self._peers = peers
        self._offers: OrderedDict[bytes, tuple[Blob, float]] = OrderedDict()
        self._budgets: OrderedDict[PeerId, Budget] = OrderedDict()

    async def on_request(self, peer: PeerId, request: StateRequest, model: ModelState, now: float) -> None:
        """Offer what the peer lacks. Making a blob costs as much as a step, so each peer gets few of them."""
        if not self._budget_of(peer, now).spend(1.0, now):
            self._peers.send(peer, StateUnavailable(reason="asked too often"))
            return
        blob = await model.blob_from(request.from_step)
        self._offers[blob.data_hash] = (blob, now + OFFER_SECONDS)
        self._offers.move_to_end(blob.data_hash)
        self._expire(now)
        self._peers.send(
            peer,
            StateOffer(
                kind="deltas" if blob.kind == "deltas" else "state",
                from_step=blob.from_step,
                global_step=blob.global_step,
                state_hash=blob.data_hash,
                weights_hash=blob.weights_hash,
                size_bytes=len(blob.data),
                chunk_bytes=CHUNK_BYTES,
            ),
        )

    def on_chunk_request(self, peer: PeerId, request: ChunkRequest, now: float) -> None:
        """Send one chunk of an offered blob."""
        self._expire(now)
        found = self._offers.get(request.state_hash)
        if found is None or request.index >= chunk_count(len(found[0].data), CHUNK_BYTES):
            self._peers.send(peer, StateUnavailable(reason="that state is not offered any more"))
            return
        payload = chunk_of(found[0].data, request.index, CHUNK_BYTES)
        self._peers.send(peer, Chunk(state_hash=request.state_hash, index=request.index, payload=payload))

    def _budget_of(self, peer: PeerId, now: float) -> Budget:
        if peer not in self._budgets:
            self._budgets[peer] = Budget(REQUESTS_PER_SECOND, REQUEST_BURST / REQUESTS_PER_SECOND, now)
            if len(self._budgets) > MAX_BUDGETS:
                self._budgets.popitem(last=False)
        return self._budgets[peer]

    def _expire(self, now: float) -> None:
        while len(self._offers) > MAX_OFFERS:
            self._offers.popitem(last=False)
        for key in [key for key, (_, until) in self._offers.items() if until < now]:
            del self._offers[key]


class Fetch:
    """One attempt to reach the swarm's newest state, from every donor that offers the very same blob."""

    def __init__(self, donors: Sequence[PeerId], from_step: int | None, peers: PeerTable, now: float) -> None:
        self.donors = frozenset(donors)
        self._peers = peers
        self._from_step = from_step
        self._waiting = set(donors)
        self._deadline = now + OFFER_WAIT_SECONDS
        self._offer: StateOffer | None = None
        self._chunks: ChunkFetch | None = None
        self._failure: FetchFailed | None = None  # `poll` raises it
        for donor in donors:
            peers.send(donor, StateRequest(from_step=from_step))

    @property
    def fraction(self) -> float:
        """Share of the blob that is here."""
        if self._chunks is None or self._offer is None:
            return 0.0
        return self._chunks.received_bytes / self._offer.size_bytes

    def next_deadline(self) -> float | None:
        """When `poll` is due at the latest."""
        return self._deadline if self._chunks is None else self._chunks.next_deadline()

    def on_message(self, peer: PeerId, message: StateOffer | StateUnavailable | Chunk, parameter_count: int) -> None:
        """What a donor says."""
        match message:
            case StateOffer():
                self.on_offer(peer, message, parameter_count)
            case StateUnavailable():
                self.on_peer_lost(peer)
            case Chunk():
                self.on_chunk(peer, message)

    def on_offer(self, peer: PeerId, offer: StateOffer, parameter_count: int) -> None:
        """The first usable offer decides what is fetched; others of the same blob help."""
        if peer not in self._waiting:
            return
        self._waiting.discard(peer)
        if self._offer is None:
            if offer.kind == "deltas" and offer.from_step != self._from_step:
                self._failure = FetchFailed(peer, "offers steps that were not asked for")
                return
            limit = MAX_DELTA_BYTES if offer.kind == "deltas" else max_blob_bytes(parameter_count)
            try:
                self._chunks = ChunkFetch(offer.state_hash, offer.size_bytes, offer.chunk_bytes, max_bytes=limit)
            except BlobError as error:
                self._failure = FetchFailed(peer, str(error))
                return
            self._offer = offer
        if self._chunks is not None and offer.state_hash == self._offer.state_hash:
            self._chunks.add_donor(peer)

    def on_peer_lost(self, peer: PeerId) -> None:
        """The donor is gone."""
        self._waiting.discard(peer)
        if self._chunks is not None:
            self._chunks.remove_donor(peer)

    def on_chunk(self, peer: PeerId, chunk: Chunk) -> None:
        """Store a chunk; one that was not asked for ends the attempt."""
        if self._chunks is None or chunk.state_hash != self._chunks.state_hash:
            return
        try:
            self._chunks.on_chunk(peer, chunk.index, chunk.payload)
        except ChunkError as error:
            self._failure = FetchFailed(peer, str(error))

    async def poll(self, model: ModelState, now: float) -> bool:
        """Ask for what is missing; True when the model has been brought up to date.

        Raises:
            FetchFailed: nobody delivers, or what was delivered is wrong.
        """
        if self._failure is not None:
            raise self._failure
        if self._chunks is None or self._offer is None:
            if not self._waiting or now >= self._deadline:
                raise FetchFailed(min(self.donors), "no usable offer came")
            return False
        for request in self._chunks.requests(now):
            self._peers.send(request.peer_id, ChunkRequest(state_hash=self._chunks.state_hash, index=request.index))
        if self._chunks.complete:
            blob = self._chunks.take()
            if blob is not None:
                await self._adopt(blob, self._offer, model)
                return True
        if self._chunks.stuck:
            raise FetchFailed(min(self._chunks.bad_donors or self.donors), "did not deliver what it offered")
        return False

    async def _adopt(self, blob: bytes, offer: StateOffer, model: ModelState) -> None:
        try:
            if offer.kind == "deltas":
                await model.adopt_deltas(blob, offer.from_step, offer.global_step, offer.weights_hash)
            else:
                state = await asyncio.to_thread(from_blob, blob, model.state.manifest_hash, model.state.parameter_count)
                await model.adopt_state(state, offer.weights_hash)
        except (PeerError, NonFiniteGradient) as error:
            raise FetchFailed(min(self.donors), str(error), steps_differ=offer.kind == "deltas") from error
