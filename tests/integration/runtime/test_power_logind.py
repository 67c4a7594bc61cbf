"""Announcements and locks on a real message bus of our own."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from engine.runtime.power.bus_lock import BusLock
from engine.runtime.power.keep_awake import GRANTED, KeepAwake
from engine.runtime.power.logind import LogindWatch
from engine.runtime.power.news import Herald, PowerNews
from tests.helpers.private_bus import Logind, Service, private_bus

pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]


@pytest.fixture
def bus() -> Iterator[str]:
    with private_bus() as address:
        yield address


class Engine:
    """Hears news, and says when it has saved."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[PowerNews] = asyncio.Queue()
        self.saved = asyncio.Event()

    async def on_news(self, news: PowerNews) -> None:
        self.heard.put_nowait(news)
        await self.saved.wait()

    async def next(self) -> PowerNews:
        async with asyncio.timeout(20):
            return await self.heard.get()


@contextlib.asynccontextmanager
async def watched(address: str, engine: Engine, hold_seconds: float = 20.0) -> Any:
    watch = LogindWatch(address, Herald(engine.on_news, asyncio.get_running_loop(), hold_seconds))
    watch.start()
    try:
        yield watch
    finally:
        engine.saved.set()
        await asyncio.to_thread(watch.close)


@pytest.mark.parametrize(
    ("signal", "news"), [("PrepareForSleep", PowerNews.SLEEP), ("PrepareForShutdown", PowerNews.END)]
)
async def test_the_computer_waits_until_the_engine_has_saved(bus: str, signal: str, news: PowerNews) -> None:
    engine = Engine()
    with Logind(bus) as logind:
        async with watched(bus, engine) as watch:
            assert await asyncio.to_thread(watch.listens.wait, 20)
            assert logind.calls.get(timeout=20) == (
                "Inhibit",
                ("sleep:shutdown", "Potluck", "Saves its model", "delay"),
            )
            release = asyncio.create_task(asyncio.to_thread(logind.await_release))
            logind.announce(signal, True)
            assert await engine.next() is news
            assert not release.done()
            engine.saved.set()
            assert await release


async def test_after_waking_it_is_asked_to_wait_again(bus: str) -> None:
    engine = Engine()
    engine.saved.set()
    with Logind(bus) as logind:
        async with watched(bus, engine):
            logind.calls.get(timeout=20)
            logind.announce("PrepareForSleep", True)
            assert await engine.next() is PowerNews.SLEEP
            assert await asyncio.to_thread(logind.await_release)
            logind.announce("PrepareForSleep", False)
            assert await engine.next() is PowerNews.AWAKE
            method, _ = logind.calls.get(timeout=20)
            assert method == "Inhibit"
            second = logind.held.get(timeout=20)
            assert second > 0
            logind.held.put(second)
        assert await asyncio.to_thread(logind.await_release)


async def test_an_engine_that_is_not_done_in_time_is_not_waited_for(bus: str, expect_log: Any) -> None:
    expect_log("engine.runtime.power.news", match="not ready")
    engine = Engine()
    with Logind(bus) as logind:
        async with watched(bus, engine, hold_seconds=0.05):
            logind.calls.get(timeout=20)
            logind.announce("PrepareForSleep", True)
            assert await engine.next() is PowerNews.SLEEP
            assert await asyncio.to_thread(logind.await_release)


async def test_it_gives_the_delay_back_when_it_closes(bus: str) -> None:
    engine = Engine()
    with Logind(bus) as logind:
        async with watched(bus, engine):
            logind.calls.get(timeout=20)
        assert await asyncio.to_thread(logind.await_release)


@pytest.mark.parametrize("there", [True, False], ids=["refuses", "is not there"])
async def test_without_a_logind_that_grants_it_nothing_breaks(bus: str, there: bool) -> None:
    engine = Engine()
    with Logind(bus, grants=False) if there else contextlib.nullcontext():
        async with watched(bus, engine) as watch:
            assert not watch.listens.is_set()
    assert engine.heard.empty()


async def test_a_dead_bus_is_no_trouble() -> None:
    async with watched("unix:path=/nowhere/at/all", Engine()) as watch:
        assert not watch.listens.is_set()


# Staying awake.


def test_gnome_is_asked_first(bus: str) -> None:
    with Service(bus, ("org.gnome.SessionManager",), lambda method, _: ("u", (17,))) as gnome, Logind(bus) as logind:
        lock = BusLock(bus, bus)
        assert lock.hold() == GRANTED
        method, arguments = gnome.calls.get(timeout=20)
        assert (method, arguments[3]) == ("Inhibit", 4)
        assert logind.calls.empty()
        lock.release()


def test_logind_holds_idle_only_as_long_as_it_is_wanted(bus: str) -> None:
    with Logind(bus) as logind:
        lock = BusLock(bus, bus)
        assert lock.hold() == GRANTED
        assert logind.calls.get(timeout=20) == ("Inhibit", ("idle", "Potluck", "Trains a model", "block"))
        lock.release()
        assert logind.await_release()


def test_a_refusal_says_whose(bus: str) -> None:
    with Logind(bus, grants=False):
        lock = BusLock(None, bus)
        assert lock.hold() == "logind: not allowed here"
        lock.release()


def test_without_any_bus() -> None:
    assert BusLock(None, None).hold() == "there is no service to ask"


async def test_the_switch_holds_and_gives_back_once(bus: str) -> None:
    with Logind(bus) as logind:
        awake = KeepAwake(BusLock(None, bus))
        assert await awake.want(False) == ""
        assert logind.calls.empty()
        assert await awake.want(True) == GRANTED
        assert await awake.want(True) == GRANTED
        assert logind.calls.get(timeout=20)[0] == "Inhibit"
        assert logind.calls.empty()
        await awake.close()
        assert awake.answer == ""
        assert await asyncio.to_thread(logind.await_release)
