"""A peer that the test plays by hand: it says what it likes, well formed or not, and keeps what it hears."""

import asyncio
import contextlib

from engine.identity.keys import Identity
from engine.transport.base import Lane, LinkClosed, LinkDown, LinkUp, PeerId, Received
from engine.wire.codec import decode, encode, lane_of
from engine.wire.messages import PROTOCOL_VERSION, PeerHello, PeerMessage, Progress
from tests.helpers.hub_samples import identity
from tests.helpers.run_session import Peer, Swarm


class Rogue:
    """On the same memory links as the sessions of a `Swarm`. Use as a context."""

    def __init__(self, swarm: Swarm, number: int = 66) -> None:
        self.identity: Identity = identity(number)
        self.peer_id: PeerId = self.identity.peer_id
        self.heard: list[tuple[PeerId, PeerMessage]] = []
        self.linked: set[PeerId] = set()
        self.dropped: dict[PeerId, str] = {}
        self._swarm = swarm
        self._network = swarm.hub.network(self.peer_id)
        self._sequence = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Rogue":
        await self._network.start()
        self._task = asyncio.create_task(self._listen())
        await self._swarm.until(lambda: bool(self.linked))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._network.close()
        if self._task is not None:
            await self._task

    async def _listen(self) -> None:
        async for event in self._network.events():
            match event:
                case LinkUp():
                    self.linked.add(event.peer_id)
                    self.dropped.pop(event.peer_id, None)
                case LinkDown():
                    self.linked.discard(event.peer_id)
                    self.dropped[event.peer_id] = event.reason
                case Received():
                    self.heard.append((event.peer_id, decode(event.message, event.lane is Lane.BULK)))
            self._swarm.tell()

    async def raw(self, target: Peer, data: bytes, *, bulk: bool = False) -> None:
        """Bytes as they are; to one that dropped the link they are lost."""
        with contextlib.suppress(LinkClosed):
            await self._network.send(target.peer_id, Lane.BULK if bulk else Lane.CONTROL, data)

    async def say(self, target: Peer, message: PeerMessage) -> None:
        """A well formed message."""
        await self.raw(target, encode(message), bulk=lane_of(message))

    async def hello(self, *targets: Peer, **changes: object) -> None:
        """Introduce itself properly, but for `changes`."""
        fields = {
            "protocol_version": PROTOCOL_VERSION,
            "manifest_hash": self._swarm.project.manifest_hash,
            "software": "rogue 1",
            **changes,
        }
        for target in targets:
            await self.say(target, PeerHello(**fields))  # type: ignore[arg-type]

    async def progress(self, *targets: Peer, **changes: object) -> None:
        """Claim to be somewhere."""
        self._sequence += 1
        fields = {
            "sequence": self._sequence,
            "global_step": 0,
            "weights_hash": bytes(32),
            "samples": 0,
            "samples_per_second": 0.0,
            "upload_bytes_per_second": 0.0,
            "download_bytes_per_second": 0.0,
            "training": True,
            **changes,
        }
        for target in targets:
            await self.say(target, Progress(**fields))  # type: ignore[arg-type]

    async def claim_branch_of(self, target: Peer, *targets: Peer, **changes: object) -> None:
        """Claim to stand where `target` stands."""
        state = target.model
        await self.progress(
            *(targets or (target,)), **{"global_step": state.global_step, "weights_hash": state.weights_hash, **changes}
        )

    def of(self, kind: type[PeerMessage]) -> list[PeerMessage]:
        """What was heard of a kind."""
        return [message for _, message in self.heard if isinstance(message, kind)]
