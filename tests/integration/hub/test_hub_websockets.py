"""Rooms over real websockets, with the engine's own room client and with clients that misbehave."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from engine.hub.client import HubClient
from engine.hub.config import HubConfig, sqlite_url
from engine.hub.limits import HubLimits, Rate
from engine.hub.server import RunningHub, running_hub
from engine.identity.keys import Identity
from engine.manifest.verify import open_signed
from engine.signaling.client import HubRoom
from engine.signaling.messages import (
    MAX_ROOM_FRAME_BYTES,
    Absent,
    Auth,
    Challenge,
    Delivered,
    FromHub,
    IceServer,
    Joined,
    Present,
    RoomRefusal,
    Send,
    decode_from_hub,
    encode_room,
    room_auth_bytes,
)
from engine.signaling.room import Envelope, PeerAbsent, PeerPresent, RoomJoined
from tests.helpers.hub_samples import identity, sealed

pytestmark = pytest.mark.integration

ANN, BEN = identity(1), identity(2)
SIGNED = sealed(identity(100))
PROJECT = open_signed(SIGNED)
ICE = (IceServer(urls=("turn:turn.example.org",), username="u", credential="c"),)
ANSWER_SECONDS = 10.0


@pytest.fixture
def config(tmp_path: Path) -> HubConfig:
    return HubConfig(database_url=sqlite_url(tmp_path / "hub.db"), ice_servers=ICE)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
async def hub(config: HubConfig, session: aiohttp.ClientSession) -> AsyncIterator[RunningHub]:
    async with running_hub(config) as running:
        await HubClient(running.url, ANN, session).publish(SIGNED)
        yield running


class Guest:
    """A websocket client that says exactly what a test wants."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    @classmethod
    async def arrive(cls, hub: RunningHub, session: aiohttp.ClientSession, room: str = PROJECT.project_id) -> "Guest":
        return cls(await session.ws_connect(f"{hub.url}/api/v1/rooms/{room}"))

    async def enter(self, peer: Identity) -> Joined:
        challenge = await self.hear()
        assert isinstance(challenge, Challenge)
        signature = peer.sign(room_auth_bytes(PROJECT.manifest_hash, challenge.nonce))
        await self.socket.send_str(encode_room(Auth(peer_id=peer.peer_id, signature=signature)))
        joined = await self.hear()
        assert isinstance(joined, Joined)
        return joined

    async def hear(self) -> FromHub:
        async with asyncio.timeout(ANSWER_SECONDS):
            return decode_from_hub(await self.socket.receive_str())

    async def refusal(self) -> str:
        """The code of the refusal, after which the hub closes."""
        message = await self.hear()
        assert isinstance(message, RoomRefusal)
        async with asyncio.timeout(ANSWER_SECONDS):
            end = await self.socket.receive()
        assert end.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
        return message.code


async def test_two_peers_meet_and_part(hub: RunningHub, session: aiohttp.ClientSession) -> None:
    ann, ben = await Guest.arrive(hub, session), await Guest.arrive(hub, session)
    assert await ann.enter(ANN) == Joined(peers=(), ice_servers=ICE)
    assert await ben.enter(BEN) == Joined(peers=(ANN.peer_id,), ice_servers=ICE)
    assert await ann.hear() == Present(peer_id=BEN.peer_id)
    assert (await HubClient(hub.url, ANN, session).projects()).projects[0].peers_now == 2
    await ben.socket.send_str(encode_room(Send(to=ANN.peer_id, payload=b"offer")))
    assert await ann.hear() == Delivered(from_peer=BEN.peer_id, payload=b"offer")
    await ben.socket.close()
    assert await ann.hear() == Absent(peer_id=BEN.peer_id)
    await ann.socket.close()


async def test_the_engines_room_client_meets_another(hub: RunningHub, session: aiohttp.ClientSession) -> None:
    rooms = [HubRoom(hub.url, PROJECT.project_id, peer, session) for peer in (ANN, BEN)]
    async with asyncio.timeout(ANSWER_SECONDS), aclosing(rooms[0].events()) as ann, aclosing(rooms[1].events()) as ben:
        await rooms[0].start()
        assert await anext(ann) == RoomJoined((), ICE)
        await rooms[1].start()
        assert await anext(ben) == RoomJoined((ANN.peer_id,), ICE)
        assert await anext(ann) == PeerPresent(BEN.peer_id)
        await rooms[1].send(ANN.peer_id, b"hello")
        assert await anext(ann) == Envelope(BEN.peer_id, b"hello")
        await rooms[1].close()
        assert await anext(ann) == PeerAbsent(BEN.peer_id)
        await rooms[0].close()


async def test_a_signature_for_another_challenge_is_refused(hub: RunningHub, session: aiohttp.ClientSession) -> None:
    """What a peer signed once opens no second connection: the nonce is new each time."""
    first, second = await Guest.arrive(hub, session), await Guest.arrive(hub, session)
    challenge = await first.hear()
    assert isinstance(challenge, Challenge)
    await second.hear()
    signature = ANN.sign(room_auth_bytes(PROJECT.manifest_hash, challenge.nonce))
    await second.socket.send_str(encode_room(Auth(peer_id=ANN.peer_id, signature=signature)))
    assert await second.refusal() == "bad_signature"
    await first.socket.close()


async def test_an_id_that_is_no_key_is_refused(hub: RunningHub, session: aiohttp.ClientSession) -> None:
    guest = await Guest.arrive(hub, session)
    await guest.hear()
    await guest.socket.send_str(encode_room(Auth(peer_id="a" * 51 + "b", signature=bytes(64))))
    assert await guest.refusal() == "bad_signature"


async def test_a_second_connection_replaces_the_first(hub: RunningHub, session: aiohttp.ClientSession) -> None:
    first = await Guest.arrive(hub, session)
    await first.enter(ANN)
    second = await Guest.arrive(hub, session)
    assert (await second.enter(ANN)).peers == ()
    assert await first.refusal() == "replaced"
    await second.socket.send_str(encode_room(Send(to=BEN.peer_id, payload=b"")))
    ben = await Guest.arrive(hub, session)
    assert (await ben.enter(BEN)).peers == (ANN.peer_id,)
    assert await second.hear() == Present(peer_id=BEN.peer_id)
    await ben.socket.close()
    await second.socket.close()


async def test_an_unknown_project_has_no_room(hub: RunningHub, session: aiohttp.ClientSession) -> None:
    guest = await Guest.arrive(hub, session, "0" * 64)
    assert await guest.refusal() == "unknown_project"


@pytest.mark.parametrize("frame", ["{", '{"type":"who"}', b"\x00\xff"])
async def test_nonsense_is_refused(hub: RunningHub, session: aiohttp.ClientSession, frame: str | bytes) -> None:
    guest = await Guest.arrive(hub, session)
    await guest.hear()
    if isinstance(frame, str):
        await guest.socket.send_str(frame)
    else:
        await guest.socket.send_bytes(frame)
    assert await guest.refusal() == "bad_message"


async def test_a_frame_beyond_the_limit_ends_the_connection(hub: RunningHub, session: aiohttp.ClientSession) -> None:
    guest = await Guest.arrive(hub, session)
    await guest.enter(ANN)
    await guest.socket.send_str("x" * (MAX_ROOM_FRAME_BYTES + 1))
    async with asyncio.timeout(ANSWER_SECONDS):
        end = await guest.socket.receive()
    assert (end.type, end.data) == (aiohttp.WSMsgType.CLOSE, aiohttp.WSCloseCode.MESSAGE_TOO_BIG)
    other = await Guest.arrive(hub, session)
    assert (await other.enter(BEN)).peers == ()
    await other.socket.close()


async def test_whoever_never_answers_the_challenge_is_closed(config: HubConfig, session: aiohttp.ClientSession) -> None:
    async with running_hub(replace(config, limits=HubLimits(room_auth_seconds=0.01))) as hub:
        await HubClient(hub.url, ANN, session).publish(SIGNED)
        guest = await Guest.arrive(hub, session)
        assert isinstance(await guest.hear(), Challenge)
        assert await guest.refusal() == "auth_timeout"


async def test_a_flood_is_ended(config: HubConfig, session: aiohttp.ClientSession) -> None:
    limits = HubLimits(room_messages=Rate(per_second=0.0, burst=5.0))
    async with running_hub(replace(config, limits=limits)) as hub:
        await HubClient(hub.url, ANN, session).publish(SIGNED)
        guest = await Guest.arrive(hub, session)
        await guest.enter(ANN)
        for _ in range(5):
            await guest.socket.send_str(encode_room(Send(to=BEN.peer_id, payload=b"")))
        assert await guest.refusal() == "rate_limited"


async def test_a_peer_whose_line_breaks_is_announced_as_absent(hub: RunningHub, session: aiohttp.ClientSession) -> None:
    ann, ben = await Guest.arrive(hub, session), await Guest.arrive(hub, session)
    await ann.enter(ANN)
    await ben.enter(BEN)
    assert await ann.hear() == Present(peer_id=BEN.peer_id)
    connection = ben.socket._response.connection
    assert connection is not None
    assert connection.transport is not None
    connection.transport.abort()
    assert await ann.hear() == Absent(peer_id=BEN.peer_id)
    await ann.socket.close()
    await ben.socket.close()


async def test_a_hub_that_stops_says_goodbye_to_open_rooms(config: HubConfig, session: aiohttp.ClientSession) -> None:
    async with running_hub(config) as hub:
        await HubClient(hub.url, ANN, session).publish(SIGNED)
        guests = [await Guest.arrive(hub, session) for _ in range(3)]
        await guests[0].enter(ANN)
        await guests[1].enter(BEN)
        waiting = [asyncio.create_task(_closing_code(guest)) for guest in guests]
    async with asyncio.timeout(ANSWER_SECONDS):
        assert await asyncio.gather(*waiting) == [aiohttp.WSCloseCode.GOING_AWAY] * 3


async def _closing_code(guest: Guest) -> int | None:
    async for _ in guest.socket:
        pass
    return guest.socket.close_code


async def test_a_guest_that_reads_nothing_is_cut(
    hub: RunningHub, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub keeps a bounded number of messages for a slow reader, then lets go of it."""
    monkeypatch.setattr("engine.hub.rooms_web.MAX_OUTBOX_MESSAGES", 4)
    deaf_reader, deaf_writer = await asyncio.open_connection(hub.host, hub.port, limit=1024)
    deaf_writer.write(
        f"GET /api/v1/rooms/{PROJECT.project_id} HTTP/1.1\r\nHost: hub\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
    )
    async with asyncio.timeout(ANSWER_SECONDS):
        await deaf_reader.readuntil(b"\r\n\r\n")
        header = await deaf_reader.readexactly(2)
        challenge = decode_from_hub(await deaf_reader.readexactly(header[1]))
    assert isinstance(challenge, Challenge)
    signature = BEN.sign(room_auth_bytes(PROJECT.manifest_hash, challenge.nonce))
    deaf_writer.write(_masked(encode_room(Auth(peer_id=BEN.peer_id, signature=signature)).encode()))
    ann = await Guest.arrive(hub, session)
    await ann.enter(ANN)
    heard = await _flood_until_absent(ann)
    assert heard == Absent(peer_id=BEN.peer_id)
    await ann.socket.close()
    deaf_writer.close()


def _masked(text: bytes) -> bytes:
    """A text frame of 126 to 65535 bytes with an all-zero mask (RFC 6455, section 5.2)."""
    return b"\x81" + bytes([0x80 | 126]) + len(text).to_bytes(2, "big") + bytes(4) + text


async def _flood_until_absent(ann: Guest) -> FromHub:
    async def flood() -> None:
        frame = encode_room(Send(to=BEN.peer_id, payload=bytes(40_000)))
        while True:
            await ann.socket.send_str(frame)

    flooding = asyncio.create_task(flood())
    try:
        while not isinstance(heard := await ann.hear(), Absent):
            pass
        return heard
    finally:
        flooding.cancel()
        await asyncio.wait({flooding})
