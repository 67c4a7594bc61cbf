"""`PeerNetwork` over WebRTC data channels (aiortc): introductions from a room, a link for each peer that is in it."""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from typing import Final

from engine.identity.keys import Identity
from engine.signaling.machine import (
    Abandon,
    Action,
    IntroductionMachine,
    MakeAnswer,
    MakeCall,
    MakeOffer,
    SendPayload,
    UseAnswer,
)
from engine.signaling.messages import OFFER_NONCE_BYTES, IceServer, SignalingError
from engine.signaling.room import (
    Envelope,
    PeerAbsent,
    PeerPresent,
    RoomEvent,
    RoomJoined,
    RoomLost,
    RoomUnavailable,
    SignalingRoom,
)
from engine.signaling.sdp import Transport
from engine.signaling.stream import EventStream
from engine.transport.addresses import AddressWatch, has_moved
from engine.transport.base import (
    MAX_MESSAGE_BYTES,
    Lane,
    LineFigures,
    LinkClosed,
    LinkDown,
    LinkEnd,
    LinkStats,
    LinkUp,
    Lost,
    NetworkEvent,
    PathKind,
    PeerId,
    Reachability,
    Received,
    SentMessage,
    Traffic,
)
from engine.transport.config import WebRtcConfig
from engine.transport.library import tame_losses
from engine.transport.link import Link
from engine.transport.meter import LineRate
from engine.transport.pacing import DownloadLimit, Pacer
from engine.transport.reach_check import check_reachability
from engine.transport.servers import has_relay, over_tcp, udp_gets_out
from engine.wire.messages import MAX_CONTROL_BYTES

log = logging.getLogger(__name__)

MISSED_ENDS: Final = (LinkEnd.SILENCE, LinkEnd.FAILED, LinkEnd.MOVED, LinkEnd.REROUTED)
"""Neither side meant these: the other one may not know yet, and is told."""

LOCAL_PATHS: Final = (PathKind.LOOPBACK, PathKind.LAN)

__all__ = ["WebRtcConfig", "WebRtcNetwork"]


class WebRtcNetwork:
    """Implements `PeerNetwork` and owns `room`. Belongs to the event loop in which `start` was called."""

    def __init__(
        self,
        identity: Identity,
        run: bytes,
        room: SignalingRoom,
        config: WebRtcConfig,
        upload_limit_bytes_per_second: int | None = None,
    ) -> None:
        self._machine = IntroductionMachine(identity, run, config.connect_timeout_seconds)
        self._room = room
        self._config = config
        self._pacer = Pacer(upload_limit_bytes_per_second, time.monotonic)
        self._downloads = DownloadLimit(None, time.monotonic)
        self._gone = Traffic()
        self.internet_line = LineRate(), LineRate()
        self.local_line = LineRate(), LineRate()
        self._events: EventStream[NetworkEvent] = EventStream()
        self._servers = () if config.loopback_only else config.ice_servers
        self._udp_check: asyncio.Task[bool] | None = None
        self._reachability = Reachability()
        self._reach_check: asyncio.Task[None] | None = None
        self._links: dict[int, Link] = {}  # by attempt, until disposed of
        self._up: dict[PeerId, Link] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._main: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._closed = False

    async def start(self) -> None:
        """See `PeerNetwork`."""
        if self._main is None and not self._closed:
            tame_losses(asyncio.get_running_loop())
            self._main = asyncio.create_task(self._run(), name="network")

    def events(self) -> AsyncIterator[NetworkEvent]:
        """See `PeerNetwork`."""
        return self._events

    async def send(self, peer_id: PeerId, lane: Lane, message: bytes) -> SentMessage:
        """See `PeerNetwork`."""
        limit = MAX_MESSAGE_BYTES if lane is Lane.BULK else MAX_CONTROL_BYTES
        if len(message) > limit:
            raise ValueError(f"a {lane.name.lower()} message of {len(message)} bytes exceeds {limit}")
        link = self._up.get(peer_id)
        if link is None:
            raise LinkClosed(f"no link to {peer_id}")
        return await link.send(lane, message)

    def peers(self) -> tuple[PeerId, ...]:
        """See `PeerNetwork`."""
        return tuple(sorted(self._up))

    def stats(self, peer_id: PeerId) -> LinkStats | None:
        """See `PeerNetwork`."""
        link = self._up.get(peer_id)
        return link.stats() if link else None

    async def drop(self, peer_id: PeerId, reason: str) -> None:
        """See `PeerNetwork`. While the peer stays in the room, it is connected to again after a while."""
        link = self._up.get(peer_id)
        if link is not None:
            await link.drain_control()
            link.end(reason, LinkEnd.DROPPED)

    def set_upload_limit(self, bytes_per_second: int | None) -> None:
        """See `PeerNetwork`."""
        self._pacer.set_rate(bytes_per_second)

    def set_limits(self, upload_bytes_per_second: int | None, download_bytes_per_second: int | None) -> None:
        """See `PeerNetwork`."""
        self._pacer.set_rate(upload_bytes_per_second)
        self._downloads.set_rate(download_bytes_per_second)

    def set_relay_only(self, wanted: bool) -> None:
        """See `PeerNetwork`."""
        if wanted == self._config.relay_only or self._config.loopback_only:
            return
        self._config = replace(self._config, relay_only=wanted)
        for link in list(self._links.values()):
            link.end("the user wants another way", LinkEnd.REROUTED)

    @property
    def lacks_relay(self) -> bool:
        """See `PeerNetwork`."""
        return self._config.relay_only and self._machine.in_room and not has_relay(self._servers)

    def reachability(self) -> Reachability:
        """See `PeerNetwork`."""
        return self._reachability

    def line(self) -> LineFigures:
        """See `PeerNetwork`."""
        local = bool(self._up) and all(link.path in LOCAL_PATHS for link in self._up.values())
        up, down = self.local_line if local else self.internet_line
        return LineFigures(up.bytes_per_second, down.bytes_per_second)

    def traffic(self) -> Traffic:
        """See `PeerNetwork`."""
        total = self._gone
        for link in self._links.values():
            total = _with(total, link) if link.is_up else total
        return total

    async def close(self) -> None:
        """See `PeerNetwork`."""
        if self._closed:
            return
        self._closed = True
        for check in (self._udp_check, self._reach_check):
            if check is not None:
                check.cancel()
                await asyncio.wait({check})
        if self._main is not None:
            self._main.cancel()
            await asyncio.wait({self._main})
        await asyncio.gather(*(link.drain_control() for link in self._up.values()))
        for link in list(self._links.values()):
            link.end("this computer leaves", LinkEnd.LEFT)
        await self._room.close()
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._events.close()
        if self._main is not None and not self._main.cancelled() and (error := self._main.exception()) is not None:
            raise error

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow_room())
                tasks.create_task(self._keep_time())
                if not self._config.loopback_only:
                    tasks.create_task(AddressWatch(self.on_addresses).run())
        finally:
            if not self._closed:
                # A fault of ours: the session learns of it by the end of its events, and what it was by `close`.
                self._events.close()

    async def _follow_room(self) -> None:
        async for event in self._room.events():
            await self._on_room(event)

    def on_addresses(self, before: frozenset[str], after: frozenset[str]) -> None:
        """This computer's addresses changed: end the links that cannot go on, and look for everybody from here."""
        moved = [link for link in self._up.values() if has_moved(link.base_address, before, after)]
        log.info("this computer's addresses changed; %d of %d links end", len(moved), len(self._up))
        if before - after or not self._machine.in_room:
            self._machine.on_lost()  # what the room's connection seems to take now would be lost
            self._room.refresh()
        for link in moved:
            link.end("this computer's address changed", LinkEnd.MOVED)
        self._wake.set()

    async def _keep_time(self) -> None:
        while True:
            self._wake.clear()
            wake_at = self._machine.wake_at()
            delay = None if wake_at is None else max(0.0, wake_at - time.monotonic())
            try:
                async with asyncio.timeout(delay):
                    await self._wake.wait()
            except TimeoutError:
                self._perform(self._machine.on_tick(time.monotonic()))

    async def _on_room(self, event: RoomEvent) -> None:
        now = time.monotonic()
        match event:
            case RoomJoined(peers=peers, ice_servers=servers):
                self._use_servers(servers)
                self._perform(self._machine.on_joined(peers, now))
            case PeerPresent(peer_id=peer_id):
                self._perform(self._machine.on_present(peer_id, now))
            case PeerAbsent(peer_id=peer_id):
                self._machine.on_absent(peer_id)
            case Envelope(from_peer=from_peer, payload=payload):
                try:
                    self._perform(self._machine.on_envelope(from_peer, payload, now, time.time()))
                except SignalingError as error:
                    log.info("introduction from %s refused: %s", from_peer, error)
            case RoomLost(reason=reason):
                log.info("the room is lost: %s", reason)
                self._machine.on_lost()
        self._wake.set()

    def _use_servers(self, servers: tuple[IceServer, ...]) -> None:
        if not self._config.loopback_only:
            self._servers = self._config.ice_servers + servers
            self._check_udp()

    def _check_udp(self) -> None:
        """Anew with each visit to the room: this computer may have come to another network."""
        for check in (self._udp_check, self._reach_check):
            if check is not None:
                check.cancel()
        self._udp_check = asyncio.create_task(udp_gets_out(self._servers), name="udp check")
        self._reach_check = asyncio.create_task(self._check_reach(), name="reachability check")

    async def _check_reach(self) -> None:
        self._reachability = Reachability()  # of another network, perhaps
        self._reachability = await check_reachability(self._servers)

    async def _servers_now(self) -> tuple[IceServer, ...]:
        check = self._udp_check
        if check is None:
            return self._servers
        await asyncio.wait({check})
        if check.cancelled() or check.result():
            return self._servers
        log.info("UDP does not get out of this network; relays by TCP are used")
        return over_tcp(self._servers)

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case MakeOffer(peer_id=peer_id, attempt=attempt):
                    self._open(peer_id, attempt, None)
                case MakeAnswer(peer_id=peer_id, attempt=attempt, transport=transport):
                    self._open(peer_id, attempt, transport)
                case UseAnswer(attempt=attempt, transport=transport):
                    if (link := self._links.get(attempt)) is not None:
                        link.use_answer(transport)
                case MakeCall(peer_id=peer_id):
                    nonce = secrets.token_bytes(OFFER_NONCE_BYTES)
                    self._perform(self._machine.call(peer_id, nonce, time.time()))
                case SendPayload():
                    self._spawn(self._introduce(action))
                case Abandon(attempt=attempt, reason=reason):
                    if (link := self._links.get(attempt)) is not None:
                        link.end(reason, LinkEnd.FAILED)
        self._wake.set()

    def _open(self, peer_id: PeerId, attempt: int, offer: Transport | None) -> None:
        if self._closed or len(self._links) >= self._config.max_links or self.lacks_relay:
            log.info("no link to %s: %s", peer_id, "no relay" if self.lacks_relay else f"{len(self._links)} already")
            self._machine.on_failed(peer_id, attempt, time.monotonic())
            return
        link = self._links[attempt] = Link(peer_id, attempt, self, self._pacer, self._downloads, self._config)
        self._spawn(self._carry(link, offer))

    async def _carry(self, link: Link, offer: Transport | None) -> None:
        try:
            await link.run(await self._servers_now(), offer)
        except Exception:
            # Border: whatever aiortc raises in one link must not end the others.
            log.exception("the link to %s failed", link.peer_id)
        finally:
            del self._links[link.attempt]
            self._gone = _with(self._gone, link)

    async def _introduce(self, action: SendPayload) -> None:
        try:
            await self._room.send(action.peer_id, action.payload)
        except RoomUnavailable as error:
            if (link := self._links.get(action.attempt)) is not None:
                link.end(f"the room is unavailable: {error}", LinkEnd.FAILED)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What links report (`LinkOwner`).

    def link_has_sdp(self, link: Link, sdp: str) -> None:
        """See `LinkOwner`."""
        nonce = secrets.token_bytes(OFFER_NONCE_BYTES)
        self._perform(self._machine.on_local_sdp(link.peer_id, link.attempt, sdp, nonce, time.time()))

    def link_is_up(self, link: Link) -> None:
        """See `LinkOwner`."""
        self._machine.on_up(link.peer_id, link.attempt, time.monotonic())
        self._up[link.peer_id] = link
        self._events.put(LinkUp(link.peer_id, link.path))
        self._wake.set()

    def link_received(self, link: Link, lane: Lane, message: bytes) -> None:
        """See `LinkOwner`."""
        self._events.put(Received(link.peer_id, lane, message), lambda: link.consumed(lane, len(message)))

    def link_ended(self, link: Link, reason: str, code: LinkEnd, lost: tuple[Lost, ...]) -> None:
        """See `LinkOwner`."""
        if self._up.get(link.peer_id) is link:
            del self._up[link.peer_id]
            self._events.put(LinkDown(link.peer_id, reason, code, lost))
        else:
            log.info("no link to %s: %s", link.peer_id, reason)
        wanted, moved = code in MISSED_ENDS, code in (LinkEnd.MOVED, LinkEnd.REROUTED)
        now = time.monotonic()
        self._perform(self._machine.on_failed(link.peer_id, link.attempt, now, wanted=wanted, moved=moved))


def _with(total: Traffic, link: Link) -> Traffic:
    sent, received = link.wire_bytes()
    if link.is_local:
        return replace(
            total,
            local_sent_bytes=total.local_sent_bytes + sent,
            local_received_bytes=total.local_received_bytes + received,
        )
    return replace(total, sent_bytes=total.sent_bytes + sent, received_bytes=total.received_bytes + received)
