"""Chromium's WebRTC at the other end of a link: real hub, real signalling, loopback; the page's frames are its own."""

import asyncio
import base64
import hashlib
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from engine.manifest.verify import open_signed
from engine.signaling.client import HubRoom
from engine.transport.base import Lane, LinkDown, LinkEnd, LinkUp, NetworkEvent, PathKind, Received
from engine.transport.webrtc import WebRtcConfig, WebRtcNetwork
from engine.wire.codec import encode
from engine.wire.connection import PeerConnection
from engine.wire.messages import MAX_CONTROL_BYTES, PROTOCOL_VERSION, PeerHello
from tests.helpers.hub_samples import sealed
from tests.helpers.introductions import identities
from tests.helpers.run_engine import a_hub
from tests.interop.bridge import BrowserPeer
from tests.interop.browser import PATIENCE_SECONDS, Page, a_browser, program

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

SMALLER, LARGER = identities(2)
PROJECT = sealed(SMALLER, name="tides")
MEGABYTE = 1024 * 1024
LOOPBACK = WebRtcConfig(loopback_only=True, max_loopback_lanes=12)
PAGE = Path(__file__).parent / "page.html"


class EngineEnd:
    """The engine's network."""

    def __init__(self, peer_id: str, network: WebRtcNetwork) -> None:
        self.id = peer_id
        self.network = network
        self._events = network.events()

    async def next(self) -> NetworkEvent:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await anext(self._events)

    async def received(self) -> Received:
        event = await self.next()
        assert isinstance(event, Received), event
        return event


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    if program() is None:
        pytest.skip("no Chromium on this computer")
    async with a_browser(tmp_path / "browser", PAGE) as shown:
        yield shown


@asynccontextmanager
async def linked(
    tmp_path: Path, page: Page, config: WebRtcConfig = LOOPBACK, *, browser_offers: bool = True, **options: Any
) -> AsyncIterator[tuple[EngineEnd, BrowserPeer]]:
    """A link between an engine's network and the page, introduced through a hub."""
    mine, theirs = (LARGER, SMALLER) if browser_offers else (SMALLER, LARGER)
    project = open_signed(PROJECT)
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(a_hub(tmp_path / "hub", PROJECT))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        rooms = [HubRoom(hub.url, project.project_id, identity, http) for identity in (mine, theirs)]
        network = WebRtcNetwork(mine, project.manifest_hash, rooms[0], config)
        stack.push_async_callback(rooms[1].close)
        stack.push_async_callback(network.close)
        browser = BrowserPeer(theirs, project.manifest_hash, rooms[1], page)
        for room in rooms:
            await room.start()
        await network.start()
        engine = EngineEnd(mine.peer_id, network)
        await browser.meet(engine.id, **options)
        assert await engine.next() == LinkUp(browser.id, PathKind.LOOPBACK)
        yield engine, browser


def some_bytes(count: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(count)


async def to_engine(engine: EngineEnd, browser: BrowserPeer, lane: Lane, message: bytes) -> None:
    """A message of the page arrives whole."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(browser.send(lane, message))
        assert await engine.received() == Received(browser.id, lane, message)


async def to_browser(engine: EngineEnd, browser: BrowserPeer, lane: Lane, message: bytes) -> None:
    """A message of the engine arrives whole, by the page's own digest."""
    await engine.network.send(browser.id, lane, message)
    assert await heard(browser) == (lane, len(message), hashlib.sha256(message).hexdigest())


async def heard(browser: BrowserPeer) -> tuple[int, int, str]:
    event = await browser.page.event("message")
    return event["lane"], event["bytes"], event["sha256"]


@pytest.mark.parametrize("browser_offers", [True, False])
async def test_a_browser_and_an_engine_say_hello(tmp_path: Path, page: Page, browser_offers: bool) -> None:
    run = open_signed(PROJECT).manifest_hash
    mine = PeerHello(protocol_version=PROTOCOL_VERSION, manifest_hash=run, software="engine")
    theirs = msgspec.structs.replace(mine, software="browser")
    async with linked(tmp_path, page, browser_offers=browser_offers, probes=False) as (engine, browser):
        talk = PeerConnection(mine, time.monotonic())
        await browser.send(Lane.CONTROL, encode(theirs))
        hello = await engine.received()
        assert talk.on_message(hello.lane is Lane.BULK, hello.message, time.monotonic()) == []
        assert (talk.ready, talk.peer_software) == (True, "browser")
        await engine.network.send(browser.id, Lane.CONTROL, talk.hello())
        told = await page.event("message")
        assert base64.b64decode(told["head"]) == encode(mine)


def replace_software(hello: PeerHello, software: str) -> PeerHello:
    return PeerHello(protocol_version=hello.protocol_version, manifest_hash=hello.manifest_hash, software=software)


@pytest.mark.parametrize("browser_offers", [True, False])
async def test_a_megabyte_each_way_to_one_that_knows_no_lanes(tmp_path: Path, page: Page, browser_offers: bool) -> None:
    async with linked(tmp_path, page, browser_offers=browser_offers, probes=False) as (engine, browser):
        for seed in range(2):
            await to_engine(engine, browser, Lane.BULK, some_bytes(MEGABYTE, seed))
            await to_browser(engine, browser, Lane.BULK, some_bytes(MEGABYTE, seed))
        # More than one window of control, in the largest messages that there are.
        for seed in range(2 * MEGABYTE // MAX_CONTROL_BYTES):
            await to_engine(engine, browser, Lane.CONTROL, some_bytes(MAX_CONTROL_BYTES, seed))
            await to_browser(engine, browser, Lane.CONTROL, some_bytes(MAX_CONTROL_BYTES, seed))
        stats, counts = engine.network.stats(browser.id), await page.call("link.counts")
        assert stats is not None
        assert stats.lanes == 1
        assert list(counts["framesByLane"]) == ["0"]
        assert (counts["reports"], counts["laneGrants"], counts["laneOffers"]) == (0, 0, 0)
        assert counts["grants"] > 0


@pytest.mark.parametrize("browser_offers", [True, False])
async def test_bulk_to_a_browser_goes_over_lanes_that_it_takes(
    tmp_path: Path, page: Page, browser_offers: bool
) -> None:
    config = replace(LOOPBACK, max_lanes=3)
    options: dict[str, Any] = {"browser_offers": browser_offers, "probes": True, "lane_limit": 2}
    async with linked(tmp_path, page, config, **options) as (engine, browser):
        seed = 0
        while lanes_of(engine, browser) < 3:
            seed += 1
            await to_browser_in_one_go(engine, browser, count=8, seed=seed)
        await to_browser_in_one_go(engine, browser, count=4, seed=0)
        counts = await page.call("link.counts")
        assert counts["laneOffers"] == 2
        assert len(counts["framesByLane"]) == 3
        # The other way over the same lanes: the page spreads its frames over those that are open.
        await to_engine(engine, browser, Lane.BULK, some_bytes(4 * MEGABYTE, 1))
        counts = await page.call("link.counts")
        assert counts["reports"] > 0
        assert counts["laneGrants"] > 0
        assert counts["grants"] == 0


async def test_one_that_knows_lanes_and_takes_none_is_served_over_one(tmp_path: Path, page: Page) -> None:
    async with linked(tmp_path, page, probes=True) as (engine, browser):
        while not (await page.call("link.counts"))["laneOffers"]:
            await to_browser_in_one_go(engine, browser, count=8, seed=1)
        await to_browser(engine, browser, Lane.BULK, some_bytes(MEGABYTE, 2))
        await to_engine(engine, browser, Lane.BULK, some_bytes(8 * MEGABYTE, 3))
        assert lanes_of(engine, browser) == 1
        assert list((await page.call("link.counts"))["framesByLane"]) == ["0"]


async def test_frames_of_all_sizes_and_empty_messages(tmp_path: Path, page: Page) -> None:
    async with linked(tmp_path, page, probes=False, payload_bytes=1024) as (engine, browser):
        for size in (0, 1, 1023, 1024, 1025, 65_536):
            for lane in Lane:
                await to_engine(engine, browser, lane, some_bytes(size, size))
                await to_browser(engine, browser, lane, some_bytes(size, size))


async def test_pings_are_answered_both_ways(tmp_path: Path, page: Page) -> None:
    config = replace(LOOPBACK, keep_alive_seconds=0.01)
    async with linked(tmp_path, page, config, probes=False) as (engine, browser):
        await page.call("link.sendOwn(CONTROL, short(PING, 0, 77))")
        assert (await page.event("pong"))["number"] == 77
        await to_browser(engine, browser, Lane.CONTROL, b"a ping came before this or comes after")
        stats = engine.network.stats(browser.id)
        while stats is None or stats.round_trip_seconds is None:
            await to_engine(engine, browser, Lane.CONTROL, b"and is answered by now?")
            stats = engine.network.stats(browser.id)


@pytest.mark.parametrize("browser_offers", [True, False])
async def test_a_browser_that_closes_is_noticed_at_once(tmp_path: Path, page: Page, browser_offers: bool) -> None:
    async with linked(tmp_path, page, browser_offers=browser_offers, probes=False) as (engine, browser):
        await to_engine(engine, browser, Lane.CONTROL, b"before")
        await page.call("link.close()")
        event = await engine.next()
        assert isinstance(event, LinkDown)
        assert (event.peer_id, event.code) == (browser.id, LinkEnd.CLOSED)
        assert engine.network.peers() == ()


@pytest.mark.parametrize("browser_offers", [True, False])
async def test_an_engine_that_closes_is_noticed_by_the_browser(
    tmp_path: Path, page: Page, browser_offers: bool
) -> None:
    async with linked(tmp_path, page, browser_offers=browser_offers, probes=False) as (engine, browser):
        await to_browser(engine, browser, Lane.CONTROL, b"before")
        await engine.network.close()
        await page.event("closed")


async def test_a_text_frame_ends_the_link(tmp_path: Path, page: Page) -> None:
    async with linked(tmp_path, page, probes=False) as (engine, _):
        await page.call("link.first.channels.get(BULK).send('a text')")
        event = await engine.next()
        assert isinstance(event, LinkDown)
        assert event.code is LinkEnd.PROTOCOL
        await page.event("closed")


async def test_a_channel_that_nobody_agreed_on_ends_the_link(tmp_path: Path, page: Page) -> None:
    async with linked(tmp_path, page, probes=False) as (engine, _):
        await page.call("link.first.connection.createDataChannel('strange').label")
        event = await engine.next()
        assert isinstance(event, LinkDown)
        assert event.code is LinkEnd.PROTOCOL
        await page.event("closed")


def lanes_of(engine: EngineEnd, browser: BrowserPeer) -> int:
    stats = engine.network.stats(browser.id)
    assert stats is not None
    return stats.lanes


async def to_browser_in_one_go(engine: EngineEnd, browser: BrowserPeer, *, count: int, seed: int) -> None:
    """So many messages of a megabyte one behind the other, so that bulk waits."""
    messages = [some_bytes(MEGABYTE, 100 * seed + number) for number in range(count)]
    await asyncio.gather(*(engine.network.send(browser.id, Lane.BULK, message) for message in messages))
    for message in messages:
        assert await heard(browser) == (Lane.BULK, MEGABYTE, hashlib.sha256(message).hexdigest())
