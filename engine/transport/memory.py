"""Links in memory, for tests: whole networks in one process, with faults on demand. Deterministic: no time, no dice."""

import asyncio
from collections.abc import AsyncIterator

from engine.signaling.stream import EventStream
from engine.transport.base import (
    MAX_MESSAGE_BYTES,
    Lane,
    LineFigures,
    LinkClosed,
    LinkDown,
    LinkStats,
    LinkUp,
    NetworkEvent,
    PathKind,
    PeerId,
    Reachability,
    Received,
    SentMessage,
    Traffic,
)
from engine.wire.limits import MAX_BACKLOG_BYTES


class MemoryHub:
    """Connects the networks that it made. Every started network has a link to every other unless a fault says no."""

    def __init__(self) -> None:
        self._networks: dict[PeerId, MemoryNetwork] = {}
        self._cut: set[frozenset[PeerId]] = set()
        self._isolated: set[PeerId] = set()
        self._mute: set[PeerId] = set()

    def network(self, peer_id: PeerId) -> "MemoryNetwork":
        """A network for `peer_id`, to be started by its owner. A second one of that id takes over at its start."""
        return MemoryNetwork(self, peer_id)

    def drop_link(self, one: PeerId, other: PeerId, reason: str = "dropped") -> None:
        """Both ends see the link go down; it stays down until `restore_link`."""
        self._cut.add(frozenset((one, other)))
        self._refresh(reason)

    def restore_link(self, one: PeerId, other: PeerId) -> None:
        """Both ends see the link come up, if both are there."""
        self._cut.discard(frozenset((one, other)))
        self._refresh("")

    def isolate(self, peer_id: PeerId, reason: str = "isolated") -> None:
        """The peer loses every link until `rejoin`."""
        self._isolated.add(peer_id)
        self._refresh(reason)

    def rejoin(self, peer_id: PeerId) -> None:
        """The peer's links come back."""
        self._isolated.discard(peer_id)
        self._refresh("")

    def mute(self, peer_id: PeerId) -> None:
        """What the peer sends from now on is lost without a sign, as of a hung process; `unmute` ends it."""
        self._mute.add(peer_id)

    def unmute(self, peer_id: PeerId) -> None:
        """The peer is heard again."""
        self._mute.discard(peer_id)

    def partition(self, *groups: set[PeerId]) -> None:
        """Only members of one group keep their links; `heal` ends it. Peers in no group are unaffected."""
        for index, group in enumerate(groups):
            for other in groups[index + 1 :]:
                self._cut |= {frozenset((a, b)) for a in group for b in other}
        self._refresh("partitioned")

    def heal(self) -> None:
        """Undo every `drop_link`, `isolate`, `mute` and `partition`."""
        self._cut.clear()
        self._isolated.clear()
        self._mute.clear()
        self._refresh("")

    def _start(self, network: "MemoryNetwork") -> None:
        if (earlier := self._networks.pop(network.peer_id, None)) is not None:
            earlier._unlink_all("replaced")
        self._networks[network.peer_id] = network
        self._refresh("")

    def _stop(self, network: "MemoryNetwork") -> None:
        if self._networks.get(network.peer_id) is network:
            del self._networks[network.peer_id]
            network._unlink_all("closed")

    def _refresh(self, reason: str) -> None:
        ids = sorted(self._networks)
        for index, one in enumerate(ids):
            for other in ids[index + 1 :]:
                linked = other in self._networks[one]._peers
                if linked and not self._allowed(one, other):
                    self._networks[one]._unlink(self._networks[other], reason)
                elif not linked and self._allowed(one, other):
                    self._networks[one]._link(self._networks[other])

    def _allowed(self, one: PeerId, other: PeerId) -> bool:
        return frozenset((one, other)) not in self._cut and not {one, other} & self._isolated

    def _is_mute(self, peer_id: PeerId) -> bool:
        return peer_id in self._mute


class _Peer:
    """This end's view of a link."""

    def __init__(self, network: "MemoryNetwork") -> None:
        self.network = network
        self.bytes_sent = 0
        self.bytes_received = 0
        self.backlog = [0, 0]  # bytes that wait here to be consumed, by lane
        self.space = asyncio.Event()
        self.space.set()
        self.up = True

    def on_consumed(self, event: Received) -> None:
        self.backlog[event.lane] -= len(event.message)
        self.space.set()


class Delivered:
    """Implements `SentMessage`."""

    delivered = True

    def cancel(self) -> bool:
        """See `SentMessage`."""
        return False


class MemoryNetwork:
    """Implements `PeerNetwork`."""

    def __init__(self, hub: MemoryHub, peer_id: PeerId) -> None:
        self.peer_id = peer_id
        self._hub = hub
        self._peers: dict[PeerId, _Peer] = {}
        self._events: EventStream[NetworkEvent] = EventStream()
        self._gone: list[_Peer] = []
        self.upload_limit_bytes_per_second: int | None = None
        self.download_limit_bytes_per_second: int | None = None

    async def start(self) -> None:
        """See `PeerNetwork`."""
        self._hub._start(self)

    def events(self) -> AsyncIterator[NetworkEvent]:
        """See `PeerNetwork`."""
        return self._events

    async def send(self, peer_id: PeerId, lane: Lane, message: bytes) -> SentMessage:
        """See `PeerNetwork`."""
        if len(message) > MAX_MESSAGE_BYTES:
            raise ValueError(f"a message of {len(message)} bytes exceeds {MAX_MESSAGE_BYTES}")
        link = self._peers.get(peer_id)
        if link is None:
            raise LinkClosed(f"no link to {peer_id}")
        theirs = link.network._peers[self.peer_id]
        while link.up and theirs.backlog[lane] > MAX_BACKLOG_BYTES[lane]:
            theirs.space.clear()
            await theirs.space.wait()
        if not link.up:
            raise LinkClosed(f"the link to {peer_id} went down")
        link.bytes_sent += len(message)
        if not self._hub._is_mute(self.peer_id):
            received = Received(self.peer_id, lane, bytes(message))
            theirs.bytes_received += len(message)
            theirs.backlog[lane] += len(message)
            link.network._events.put(received, lambda: theirs.on_consumed(received))
        return Delivered()

    def peers(self) -> tuple[PeerId, ...]:
        """See `PeerNetwork`."""
        return tuple(sorted(self._peers))

    def stats(self, peer_id: PeerId) -> LinkStats | None:
        """See `PeerNetwork`."""
        link = self._peers.get(peer_id)
        if link is None:
            return None
        return LinkStats(
            path=PathKind.MEMORY,
            bytes_sent=link.bytes_sent,
            bytes_received=link.bytes_received,
            round_trip_seconds=None,
            upload_bytes_per_second=None,
            download_bytes_per_second=None,
        )

    async def drop(self, peer_id: PeerId, reason: str) -> None:
        """See `PeerNetwork`. The link stays down until the hub restores it."""
        if peer_id in self._peers:
            self._hub.drop_link(self.peer_id, peer_id, reason)

    def set_upload_limit(self, bytes_per_second: int | None) -> None:
        """See `PeerNetwork`; noted, not applied: there is no time here."""
        self.upload_limit_bytes_per_second = bytes_per_second

    def set_limits(self, upload_bytes_per_second: int | None, download_bytes_per_second: int | None) -> None:
        """See `PeerNetwork`; noted, not applied."""
        self.upload_limit_bytes_per_second = upload_bytes_per_second
        self.download_limit_bytes_per_second = download_bytes_per_second

    def set_relay_only(self, wanted: bool) -> None:
        """See `PeerNetwork`: there are no addresses to hide."""

    @property
    def lacks_relay(self) -> bool:
        """See `PeerNetwork`."""
        return False

    def reachability(self) -> Reachability:
        """See `PeerNetwork`."""
        return Reachability()

    def line(self) -> LineFigures:
        """See `PeerNetwork`: memory is no line."""
        return LineFigures()

    def traffic(self) -> Traffic:
        """See `PeerNetwork`: messages only, all of them local."""
        links = (*self._peers.values(), *self._gone)
        return Traffic(
            local_sent_bytes=sum(link.bytes_sent for link in links),
            local_received_bytes=sum(link.bytes_received for link in links),
        )

    async def close(self) -> None:
        """See `PeerNetwork`."""
        self._hub._stop(self)
        self._events.close()

    def _link(self, other: "MemoryNetwork") -> None:
        for here, there in ((self, other), (other, self)):
            here._peers[there.peer_id] = _Peer(there)
            here._events.put(LinkUp(there.peer_id, PathKind.MEMORY))

    def _unlink(self, other: "MemoryNetwork", reason: str) -> None:
        for here, there in ((self, other), (other, self)):
            link = here._peers.pop(there.peer_id)
            here._gone.append(link)
            link.up = False
            link.space.set()
            here._events.put(LinkDown(there.peer_id, reason))

    def _unlink_all(self, reason: str) -> None:
        for peer_id in sorted(self._peers):
            self._unlink(self._peers[peer_id].network, reason)
