"""The engine's end of a room's websocket, against hubs that follow a script, and over the real hub."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from engine.hub.client import HubClient
from engine.hub.config import HubConfig, sqlite_url
from engine.hub.server import running_hub
from engine.identity.signing import verify
from engine.manifest.verify import open_signed
from engine.signaling.client import LONGEST_RETRY_SECONDS, HubRoom
from engine.signaling.messages import (
    Auth,
    Challenge,
    Delivered,
    Joined,
    Present,
    RoomRefusal,
    Send,
    decode_to_hub,
    encode_room,
    room_auth_bytes,
)
from engine.signaling.room import Envelope, PeerPresent, RoomEvent, RoomJoined, RoomLost, RoomUnavailable
from engine.transport.base import Lane, LinkUp, Received
from engine.transport.webrtc import WebRtcConfig, WebRtcNetwork
from tests.helpers.hub_samples import identity, sealed
from tests.helpers.introductions import identities

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

ME, OTHER = identities(2)
RUN = bytes(range(32))
NONCE = b"n" * 32
Script = Callable[[web.WebSocketResponse], Awaitable[None]]


class ScriptedHub:
    """Plays one script for each visit; after the last it repeats that one."""

    def __init__(self) -> None:
        self.scripts: list[Script] = []
        self.visits = 0
        self.url = ""

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        script = self.scripts[min(self.visits, len(self.scripts) - 1)]
        self.visits += 1
        await script(socket)
        await socket.close()
        return socket


@pytest.fixture
async def hub() -> AsyncIterator[ScriptedHub]:
    scripted = ScriptedHub()
    app = web.Application()
    app.router.add_get(f"/api/v1/rooms/{RUN.hex()}", scripted.serve)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    scripted.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    yield scripted
    await runner.cleanup()


class Waits:
    """Stands in for the waits between tries: notes them, and lets each pass when told to."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._pass = asyncio.Semaphore(0)

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        await self._pass.acquire()

    def next_try(self) -> None:
        self._pass.release()


@asynccontextmanager
async def visiting(url: str, waits: Waits) -> AsyncIterator[tuple[HubRoom, Callable[[], Awaitable[RoomEvent]]]]:
    async with aiohttp.ClientSession() as session:
        room = HubRoom(url, RUN.hex(), ME, session, dice=random.Random(1), sleep=waits)
        events = room.events()

        async def next_event() -> RoomEvent:
            async with asyncio.timeout(20):
                return await anext(events)

        await room.start()
        try:
            yield room, next_event
        finally:
            await room.close()


async def greet(socket: web.WebSocketResponse) -> None:
    await socket.send_str(encode_room(Challenge(nonce=NONCE)))
    auth = decode_to_hub(await socket.receive_str())
    assert isinstance(auth, Auth)
    assert auth.peer_id == ME.peer_id
    assert verify(ME.public_key, room_auth_bytes(RUN, NONCE), auth.signature)
    await socket.send_str(encode_room(Joined(peers=(OTHER.peer_id,))))


async def echo(socket: web.WebSocketResponse) -> None:
    await greet(socket)
    async for frame in socket:
        sent = decode_to_hub(frame.data)
        assert isinstance(sent, Send)
        await socket.send_str(encode_room(Delivered(from_peer=sent.to, payload=sent.payload)))


async def test_entering_and_talking(hub: ScriptedHub) -> None:
    hub.scripts = [echo]
    async with visiting(hub.url, Waits()) as (room, next_event):
        assert await next_event() == RoomJoined((OTHER.peer_id,))
        await room.send(OTHER.peer_id, b"\x00\x01")
        assert await next_event() == Envelope(OTHER.peer_id, b"\x00\x01")


async def test_closing_ends_the_events(hub: ScriptedHub) -> None:
    hub.scripts = [echo]
    async with visiting(hub.url, Waits()) as (room, next_event):
        await next_event()
        await room.close()
        await room.close()
        assert [event async for event in room.events()] == []
        with pytest.raises(RoomUnavailable):
            await room.send(OTHER.peer_id, b"x")


def saying(*frames: str | bytes) -> Script:
    async def script(socket: web.WebSocketResponse) -> None:
        for frame in frames:
            await (socket.send_str(frame) if isinstance(frame, str) else socket.send_bytes(frame))
        await socket.receive()

    return script


def after_greeting(*frames: str | bytes) -> Script:
    async def script(socket: web.WebSocketResponse) -> None:
        await greet(socket)
        await saying(*frames)(socket)

    return script


NONSENSE: list[tuple[Script, str]] = [
    (saying("nonsense"), "no room message"),
    (saying("{}"), "no room message"),
    (saying(b"\x00"), "binary frame"),
    (saying(encode_room(Present(peer_id=OTHER.peer_id))), 'began with "Present" instead of a challenge'),
    (saying(encode_room(Challenge(nonce=NONCE)), encode_room(Challenge(nonce=NONCE))), "instead of the room"),
    (saying(encode_room(Challenge(nonce=NONCE)), encode_room(RoomRefusal(code="full"))), "the hub refused ('full')"),
    (saying("x" * 70_000), "broke the websocket protocol"),
]


@pytest.mark.parametrize(("script", "reason"), NONSENSE, ids=[reason for _, reason in NONSENSE])
async def test_a_hub_that_talks_nonsense_is_left_and_tried_again(hub: ScriptedHub, script: Script, reason: str) -> None:
    hub.scripts = [script, echo]
    waits = Waits()
    async with visiting(hub.url, waits) as (room, next_event):
        lost = await next_event()
        assert isinstance(lost, RoomLost)
        assert reason in lost.reason
        with pytest.raises(RoomUnavailable):
            await room.send(OTHER.peer_id, b"x")
        waits.next_try()
        assert await next_event() == RoomJoined((OTHER.peer_id,))


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ("nonsense", "no room message"),
        (encode_room(Challenge(nonce=NONCE)), 'sent "Challenge" out of turn'),
        (encode_room(RoomRefusal(code="replaced", detail="another visit")), "('replaced'): 'another visit'"),
    ],
)
async def test_nonsense_in_the_room_loses_it(hub: ScriptedHub, frame: str, reason: str) -> None:
    hub.scripts = [after_greeting(encode_room(Present(peer_id=OTHER.peer_id)), frame)]
    async with visiting(hub.url, Waits()) as (_, next_event):
        assert await next_event() == RoomJoined((OTHER.peer_id,))
        assert await next_event() == PeerPresent(OTHER.peer_id)
        lost = await next_event()
        assert isinstance(lost, RoomLost)
        assert reason in lost.reason


async def test_a_hub_that_goes_away_is_tried_again_ever_more_slowly(hub: ScriptedHub) -> None:
    hub.scripts = [saying("bye")]
    waits = Waits()
    async with visiting(hub.url, waits) as (_, next_event):
        for _ in range(10):
            assert isinstance(await next_event(), RoomLost)
            waits.next_try()
        assert isinstance(await next_event(), RoomLost)
    assert 0.5 <= waits.asked[0] <= 1.0
    assert waits.asked[9] >= LONGEST_RETRY_SECONDS / 2
    assert max(waits.asked) <= LONGEST_RETRY_SECONDS
    assert len({round(seconds, 6) for seconds in waits.asked}) == len(waits.asked)


async def test_no_hub_at_all() -> None:
    async with visiting("http://127.0.0.1:9", Waits()) as (room, next_event):
        lost = await next_event()
        assert isinstance(lost, RoomLost)
        assert "ClientConnectorError" in lost.reason
        with pytest.raises(RoomUnavailable):
            await room.send(OTHER.peer_id, b"x")


async def test_a_page_that_is_no_hub(hub: ScriptedHub) -> None:
    async with visiting(hub.url + "elsewhere", Waits()) as (_, next_event):
        lost = await next_event()
        assert isinstance(lost, RoomLost)
        assert "404" in lost.reason


async def test_closing_while_waiting_for_the_next_try(hub: ScriptedHub) -> None:
    hub.scripts = [saying("bye")]
    async with visiting(hub.url, Waits()) as (_, next_event):
        assert isinstance(await next_event(), RoomLost)


async def test_two_networks_meet_through_a_real_hub(tmp_path: Path) -> None:
    signed = sealed(identity(100))
    project = open_signed(signed)
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(running_hub(HubConfig(database_url=sqlite_url(tmp_path / "hub.db"))))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        await HubClient(hub.url, identity(100), session).publish(signed)
        networks = []
        for peer in (ME, OTHER):
            room = HubRoom(hub.url, project.project_id, peer, session)
            await room.start()
            network = WebRtcNetwork(peer, project.manifest_hash, room, WebRtcConfig(loopback_only=True))
            stack.push_async_callback(network.close)
            await network.start()
            networks.append(network)
        events = [network.events() for network in networks]
        async with asyncio.timeout(60):
            for stream in events:
                assert isinstance(await anext(stream), LinkUp)
            await networks[0].send(OTHER.peer_id, Lane.CONTROL, b"hello")
            assert await anext(events[1]) == Received(ME.peer_id, Lane.CONTROL, b"hello")
