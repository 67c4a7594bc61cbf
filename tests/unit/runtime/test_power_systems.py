"""What Windows and macOS are asked, and what is made of their answers, at the seams where their libraries stand."""

import asyncio
import ctypes
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from engine.runtime.power import mac, windows
from engine.runtime.power.keep_awake import GRANTED, CaffeinateLock, KeepAwake, WindowsLock, lock_for_this_system
from engine.runtime.power.mac import MacWatch
from engine.runtime.power.news import Herald, PowerNews
from engine.runtime.power.watch import watch_for_this_system
from engine.runtime.power.windows import WindowsWatch


class ToyHerald:
    """A `Herald` that only listens."""

    def __init__(self) -> None:
        self.told: list[PowerNews] = []
        self.closed = False

    def tell(self, news: PowerNews) -> bool:
        self.told.append(news)
        return True

    def close(self) -> None:
        self.closed = True


class Function:
    """One function of a library: notes how it was called."""

    def __init__(self, answer: Any = 0) -> None:
        self.answer = answer
        self.calls: list[tuple[Any, ...]] = []
        self.restype: Any = None
        self.argtypes: Any = None

    def __call__(self, *arguments: Any) -> Any:
        self.calls.append(arguments)
        return self.answer(*arguments) if callable(self.answer) else self.answer


# Windows.


class Kernel32:
    def __init__(self) -> None:
        self.SetConsoleCtrlHandler = Function(1)
        self.SetThreadExecutionState = Function(1)


class PowrProf:
    def __init__(self) -> None:
        self.PowerRegisterSuspendResumeNotification = Function(self._register)
        self.PowerUnregisterSuspendResumeNotification = Function(0)
        self.parameters: windows.SubscribeParameters | None = None

    def _register(self, flags: int, parameters: Any, handle: Any) -> int:
        assert flags == windows.DEVICE_NOTIFY_CALLBACK
        self.parameters = cast("windows.SubscribeParameters", parameters._obj)
        handle._obj.value = 77
        return 0

    def call_back(self, kind: int) -> int:
        """As the power manager does."""
        assert self.parameters is not None
        return int(self.parameters.callback(None, kind, None))


class Windows:
    def __init__(self) -> None:
        self.kernel32, self.powrprof = Kernel32(), PowrProf()

    def load(self, name: str) -> Any:
        return {"kernel32": self.kernel32, "powrprof": self.powrprof}[name]


@pytest.mark.parametrize(
    ("kind", "news"),
    [(0x04, [PowerNews.SLEEP]), (0x12, [PowerNews.AWAKE]), (0x07, [PowerNews.AWAKE]), (0x0A, [])],
)
def test_windows_calls_back_before_and_after_sleep(kind: int, news: list[PowerNews]) -> None:
    system, herald = Windows(), ToyHerald()
    watch = WindowsWatch(cast("Herald", herald), system.load)
    watch.start()
    assert system.powrprof.call_back(kind) == 0
    assert herald.told == news
    watch.close()
    assert herald.closed
    ((handle,),) = system.powrprof.PowerUnregisterSuspendResumeNotification.calls
    assert handle.value == 77
    assert [on for _, on in system.kernel32.SetConsoleCtrlHandler.calls] == [1, 0]


@pytest.mark.parametrize(("kind", "handled"), [(5, 1), (6, 1), (2, 1), (0, 0)])
def test_windows_tells_of_logout_and_shutdown(kind: int, handled: int) -> None:
    system, herald = Windows(), ToyHerald()
    watch = WindowsWatch(cast("Herald", herald), system.load)
    watch.start()
    handler = system.kernel32.SetConsoleCtrlHandler.calls[0][0]
    assert handler(kind) == handled
    assert herald.told == [PowerNews.END] * handled
    watch.close()


def no_library(name: str) -> Any:
    raise OSError(f"no {name}")


def test_a_windows_without_these_functions_is_no_trouble() -> None:
    watch = WindowsWatch(cast("Herald", ToyHerald()), no_library)
    watch.start()
    watch.close()


def test_windows_stays_awake_in_the_thread_that_asked_until_told() -> None:
    system = Windows()
    threads: list[int] = []
    system.kernel32.SetThreadExecutionState.answer = lambda _flags: (threads.append(threading.get_ident()), 1)[1]
    lock = WindowsLock(system.load)
    assert lock.hold() == GRANTED
    lock.release()
    flags = [call[0].value for call in system.kernel32.SetThreadExecutionState.calls]
    assert flags == [0x8000_0001, 0x8000_0000]
    assert threads[0] == threads[1] != threading.get_ident()
    lock.release()


def test_windows_may_refuse() -> None:
    system = Windows()
    system.kernel32.SetThreadExecutionState.answer = 0
    refused, missing = WindowsLock(system.load), WindowsLock(no_library)
    assert refused.hold() == "Windows refused"
    assert missing.hold() == "no kernel32"
    refused.release()
    missing.release()


# macOS.


class IOKit:
    def __init__(self, root_port: int = 5) -> None:
        self.IORegisterForSystemPower = Function(self._register)
        self.IONotificationPortGetRunLoopSource = Function(33)
        self.IOAllowPowerChange = Function(0)
        self.IODeregisterForSystemPower = Function(0)
        self.root_port = root_port
        self.callback: Callable[..., None] | None = None

    def _register(self, refcon: Any, port: Any, callback: Callable[..., None], notifier: Any) -> int:
        self.callback = callback
        return self.root_port


class CoreFoundation:
    """A run loop that runs until it is stopped. Its one variable lies where ctypes finds it: see `load`."""

    def __init__(self) -> None:
        self.running, self.stopped = threading.Event(), threading.Event()
        self.CFRunLoopGetCurrent = Function(44)
        self.CFRunLoopAddSource = Function()
        self.CFRunLoopRun = Function(self._run)
        self.CFRunLoopStop = Function(lambda loop: self.stopped.set())

    def _run(self) -> None:
        self.running.set()
        assert self.stopped.wait(20)


class Mac:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, root_port: int = 5) -> None:
        self.iokit, self.foundation = IOKit(root_port), CoreFoundation()

        class Pointer(ctypes.c_void_p):
            @classmethod
            def in_dll(cls, library: Any, name: str) -> "Pointer":
                assert name == "kCFRunLoopDefaultMode"
                return cls(22)

        monkeypatch.setattr("engine.runtime.power.mac.ctypes.c_void_p", Pointer)

    def load(self, path: str) -> Any:
        return {mac.IOKIT: self.iokit, mac.CORE_FOUNDATION: self.foundation}[path]


@pytest.mark.parametrize(
    ("kind", "news", "allowed"),
    [
        (mac.SYSTEM_WILL_SLEEP, [PowerNews.SLEEP], True),
        (mac.CAN_SYSTEM_SLEEP, [], True),
        (mac.SYSTEM_HAS_POWERED_ON, [PowerNews.AWAKE], False),
        (0xE000_0999, [], False),
    ],
)
def test_macos_waits_for_an_answer(
    monkeypatch: pytest.MonkeyPatch, kind: int, news: list[PowerNews], allowed: bool
) -> None:
    system, herald = Mac(monkeypatch), ToyHerald()
    watch = MacWatch(cast("Herald", herald), system.load)
    watch.start()
    assert system.foundation.running.wait(20)
    assert system.iokit.callback is not None
    system.iokit.callback(None, 0, kind, 123)
    assert herald.told == news
    assert system.iokit.IOAllowPowerChange.calls == ([(5, 123)] if allowed else [])
    watch.close()
    assert system.foundation.stopped.is_set()
    assert len(system.iokit.IODeregisterForSystemPower.calls) == 1


def test_a_macos_that_refuses_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    for watch in (
        MacWatch(cast("Herald", ToyHerald()), Mac(monkeypatch, root_port=0).load),
        MacWatch(cast("Herald", ToyHerald()), no_library),
    ):
        watch.start()
        watch.close()


def test_macos_stays_awake_as_long_as_its_program_runs(tmp_path: Any) -> None:
    program = tmp_path / "caffeinate"
    program.write_text("#!/bin/sh\nexec cat\n")
    program.chmod(0o700)
    lock = CaffeinateLock(str(program))
    assert lock.hold() == GRANTED
    lock.release()
    lock.release()
    assert "nowhere" in CaffeinateLock(str(tmp_path / "nowhere")).hold()


# The way to the engine.


async def test_news_wait_for_the_engine_and_no_longer_than_allowed(expect_log: Any) -> None:
    expect_log("engine.runtime.power.news", match="not ready for the system's sleep")
    never = asyncio.Event()
    heard: list[PowerNews] = []

    async def handler(news: PowerNews) -> None:
        heard.append(news)
        if news is PowerNews.SLEEP:
            await never.wait()

    herald = Herald(handler, asyncio.get_running_loop(), hold_seconds=0.01)
    assert await asyncio.to_thread(herald.tell, PowerNews.AWAKE)
    assert not await asyncio.to_thread(herald.tell, PowerNews.SLEEP)
    assert heard == [PowerNews.AWAKE, PowerNews.SLEEP]
    never.set()


async def test_an_engine_that_ends_lets_the_system_go() -> None:
    waits = asyncio.Event()

    async def handler(_news: PowerNews) -> None:
        waits.set()
        await asyncio.Event().wait()

    herald = Herald(handler, asyncio.get_running_loop(), hold_seconds=60.0)
    telling = asyncio.create_task(asyncio.to_thread(herald.tell, PowerNews.END))
    await waits.wait()
    herald.close()
    assert await telling


def test_a_loop_that_has_ended_is_not_waited_for() -> None:
    async def handler(_news: PowerNews) -> None:
        return None

    loop = asyncio.new_event_loop()
    loop.close()
    assert Herald(handler, loop).tell(PowerNews.SLEEP)


async def test_this_system_has_some_watch_and_some_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere")
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)

    async def handler(_news: PowerNews) -> None:
        return None

    watch = watch_for_this_system(Herald(handler, asyncio.get_running_loop()))
    watch.start()
    await asyncio.to_thread(watch.close)
    awake = KeepAwake(lock_for_this_system())
    await awake.want(True)
    await awake.close()
    assert awake.answer == ""
