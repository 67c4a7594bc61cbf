"""What a hub that lies can do to real networks: nothing but keep them apart."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from engine.identity.keys import Identity
from engine.signaling.memory import MemoryRendezvous
from engine.signaling.messages import SignedEnvelope, decode_envelope, encode_envelope
from engine.transport.base import LinkUp
from engine.transport.webrtc import WebRtcConfig, WebRtcNetwork
from tests.helpers.introductions import FINGERPRINT, identities

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

LOOPBACK = WebRtcConfig(loopback_only=True, connect_timeout_seconds=20.0)
ONE, TWO = identities(2)


class Log(logging.Handler):
    """Waits for a line in the network's log, which is where a refusal shows."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._texts: list[str] = []
        self._more = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self._texts.append(record.getMessage())
        self._more.set()

    async def says(self, text: str) -> None:
        async with asyncio.timeout(60):
            while not any(text in line for line in self._texts):
                self._more.clear()
                await self._more.wait()


@pytest.fixture
async def log() -> AsyncIterator[Log]:
    handler, logger = Log(), logging.getLogger("engine.transport.webrtc")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


async def with_networks(
    rendezvous: MemoryRendezvous,
    body: Callable[[], Awaitable[None]],
    runs: tuple[bytes, bytes] = (b"r" * 32, b"r" * 32),
) -> list[WebRtcNetwork]:
    networks = [
        WebRtcNetwork(identity, run, rendezvous.room(identity.peer_id), LOOPBACK)
        for identity, run in zip((ONE, TWO), runs, strict=True)
    ]
    try:
        for network in networks:
            await network.start()
        await body()
    finally:
        for network in networks:
            await network.close()
    return networks


async def no_links(networks: list[WebRtcNetwork]) -> None:
    for network in networks:
        assert [event async for event in network.events() if isinstance(event, LinkUp)] == []


async def test_a_swapped_fingerprint_is_refused(log: Log) -> None:
    rendezvous = MemoryRendezvous()

    def swap(from_peer: str, to_peer: str, payload: bytes) -> bytes:
        envelope, description = decode_envelope(payload)
        genuine = next(line for line in description.sdp.splitlines() if line.startswith("a=fingerprint:sha-256"))
        forged = envelope.payload.replace(genuine.encode(), f"a=fingerprint:sha-256 {FINGERPRINT}".encode())
        assert forged != envelope.payload
        return encode_envelope(SignedEnvelope(payload=forged, signature=envelope.signature))

    rendezvous.tamper = swap
    await no_links(await with_networks(rendezvous, lambda: log.says("the signature of the offer is not its sender's")))


async def test_an_envelope_signed_by_the_hub_itself_is_refused(log: Log) -> None:
    rendezvous, hub = MemoryRendezvous(), Identity.generate()

    def resign(from_peer: str, to_peer: str, payload: bytes) -> bytes:
        envelope, _ = decode_envelope(payload)
        return encode_envelope(SignedEnvelope(payload=envelope.payload, signature=hub.sign(envelope.payload)))

    rendezvous.tamper = resign
    await no_links(await with_networks(rendezvous, lambda: log.says("the signature of the offer is not its sender's")))


async def test_another_run_is_refused(log: Log) -> None:
    runs = (b"r" * 32, b"s" * 32)
    refusal = "is for project 7272727272727272, this computer trains 7373737373737373"
    await no_links(await with_networks(MemoryRendezvous(), lambda: log.says(refusal), runs))


async def test_a_replayed_offer_is_refused_and_the_link_stays(log: Log) -> None:
    rendezvous = MemoryRendezvous()
    networks = [
        WebRtcNetwork(identity, b"r" * 32, rendezvous.room(identity.peer_id), LOOPBACK) for identity in (ONE, TWO)
    ]
    try:
        for network in networks:
            await network.start()
        events = [network.events() for network in networks]
        async with asyncio.timeout(60):
            for stream in events:
                assert isinstance(await anext(stream), LinkUp)
        offer = next(payload for sender, _, payload in rendezvous.carried if sender == ONE.peer_id)
        rendezvous._carry(rendezvous._rooms[ONE.peer_id], TWO.peer_id, offer)
        await log.says("an introduction was repeated")
        assert networks[1].peers() == (ONE.peer_id,)
    finally:
        for network in networks:
            await network.close()


async def test_garbage_from_the_room_is_refused(log: Log) -> None:
    rendezvous = MemoryRendezvous()
    rendezvous.tamper = lambda from_peer, to_peer, payload: b"garbage"
    await no_links(await with_networks(rendezvous, lambda: log.says("an envelope cannot be read")))
