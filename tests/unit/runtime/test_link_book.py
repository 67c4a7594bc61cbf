import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from engine.core.tasks import TaskOwner
from engine.runtime.link_book import KEPT_NOTES, PROBE_AFTER_SECONDS, LinkBook
from engine.runtime.peers import PeerTable
from engine.runtime.session_events import Limits
from engine.transport.base import (
    Lane,
    LineFigures,
    LinkDown,
    LinkEnd,
    LinkStats,
    LinkUp,
    Lost,
    PathKind,
    Received,
)
from engine.transport.memory import MemoryHub, MemoryNetwork
from engine.wire.codec import decode, encode
from engine.wire.messages import PROTOCOL_VERSION, LineProbe, PeerHello
from tests.helpers.introductions import identities
from tests.helpers.virtual_time import LoopClock

ME, OTHER, THIRD = (identity.peer_id for identity in identities(3))
RUN = b"r" * 32


class Line:
    """A memory network that says of itself what the test wants."""

    def __init__(self, inner: MemoryNetwork) -> None:
        self.inner = inner
        self.figures = LineFigures()
        self.path = PathKind.DIRECT
        self.relay_only = False
        self.limits: tuple[int | None, int | None] = (None, None)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def line(self) -> LineFigures:
        return self.figures

    def stats(self, peer_id: str) -> LinkStats | None:
        found = self.inner.stats(peer_id)
        return replace(found, path=self.path) if found is not None else None

    def set_relay_only(self, wanted: bool) -> None:
        self.relay_only = wanted

    def set_limits(self, upload: int | None, download: int | None) -> None:
        self.limits = (upload, download)


class Scene:
    def __init__(self, network: Line, other: MemoryNetwork, table: PeerTable) -> None:
        self.network, self.other, self.table = network, other, table
        self.book = LinkBook(network, LoopClock())  # type: ignore[arg-type]
        self.heard = other.events()

    async def next_heard(self) -> object:
        async with asyncio.timeout(10):
            while True:
                event = await anext(self.heard)
                if isinstance(event, Received):
                    return decode(event.message, event.lane is Lane.BULK)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    hub = MemoryHub()
    mine, other = Line(hub.network(ME)), hub.network(OTHER)
    async with TaskOwner("test") as tasks:
        table = PeerTable(mine, RUN, "test", tasks)  # type: ignore[arg-type]
        await mine.inner.start()
        await other.start()
        events = mine.inner.events()
        up = await anext(events)
        assert isinstance(up, LinkUp)
        table.on_link_up(up, 0.0)
        hello = PeerHello(protocol_version=PROTOCOL_VERSION, manifest_hash=RUN, software="other")
        await other.send(ME, Lane.CONTROL, encode(hello))
        received = await anext(events)
        assert isinstance(received, Received)
        await table.on_received(received, 0.0)
        found = Scene(mine, other, table)
        found.book.on_up(up, 0.0)
        assert isinstance(await found.next_heard(), PeerHello)
        yield found
        await mine.inner.close()
        await other.close()


async def test_comings_and_goings_are_noted_with_what_was_lost(scene: Scene) -> None:
    lost = (Lost(Lane.CONTROL, 1, 5), Lost(Lane.BULK, 2, 1000))
    scene.book.on_down(LinkDown(OTHER, "no sign of life", LinkEnd.SILENCE, lost))
    up, down = scene.book.notes
    assert (up.what, up.peer_id, up.path) == ("up", OTHER, "memory")
    assert (down.what, down.code, down.lost_bytes) == ("down", "silence", 1005)
    for _ in range(KEPT_NOTES):
        scene.book.on_down(LinkDown(THIRD, "", LinkEnd.LEFT))
    assert {note.peer_id for note in scene.book.notes} == {THIRD}


async def test_figures_keep_within_what_the_user_allows(scene: Scene) -> None:
    assert scene.book.figures() == (0.0, 0.0)
    scene.network.figures = LineFigures(1000.0, 5000.0)
    assert scene.book.figures() == (1000.0, 5000.0)
    scene.book.limit(Limits(duty=1.0, threads=1, upload_bytes_per_second=400, relay_only=True))
    assert scene.book.figures() == (400.0, 5000.0)
    assert scene.network.relay_only
    assert scene.network.limits == (400, None)


async def test_a_line_without_traffic_is_probed_once(scene: Scene) -> None:
    scene.book.probe(scene.table, PROBE_AFTER_SECONDS - 0.1)
    scene.book.probe(scene.table, PROBE_AFTER_SECONDS)
    assert isinstance(await scene.next_heard(), LineProbe)
    scene.book.probe(scene.table, 2 * PROBE_AFTER_SECONDS)
    await scene.table.flush(1.0)
    await scene.other.close()
    assert [event async for event in scene.heard if isinstance(event, Received)] == []


@pytest.mark.parametrize(
    ("path", "figures"),
    [(PathKind.LAN, LineFigures()), (PathKind.LOOPBACK, LineFigures()), (PathKind.DIRECT, LineFigures(10.0, None))],
)
async def test_no_probe_within_the_home_nor_of_a_line_that_is_known(
    scene: Scene, path: PathKind, figures: LineFigures
) -> None:
    scene.network.path, scene.network.figures = path, figures
    scene.book.probe(scene.table, 10 * PROBE_AFTER_SECONDS)
    await asyncio.sleep(0)
    await scene.other.close()
    assert [event async for event in scene.heard if isinstance(event, Received)] == []


async def test_who_went_away_is_not_probed(scene: Scene) -> None:
    down = LinkDown(OTHER, "", LinkEnd.LEFT)
    scene.book.on_down(down)
    scene.table.on_link_down(down)
    scene.book.probe(scene.table, 10 * PROBE_AFTER_SECONDS)
    await scene.other.close()
    assert [event async for event in scene.heard if isinstance(event, Received)] == []
