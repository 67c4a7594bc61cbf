from pathlib import Path
from typing import Any

import pytest

from engine.core.clock import ManualClock
from engine.hardware.answer import Answer
from engine.hardware.idle import (
    FIRST_REST_SECONDS,
    MAX_FAILURES,
    REST_SECONDS,
    START_LIMIT_SECONDS,
    IdleReader,
    IdleSource,
)
from engine.hardware.idle_macos import macos_idle_seconds
from engine.hardware.idle_sources import reader_for, x11_of
from engine.hardware.idle_windows import windows_idle_seconds
from engine.hardware.logind import IdleHint
from tests.helpers.fake_host import FakeBus, fake_host
from tests.helpers.fake_macos import Desktop

NOW = 1_700_000_000.0


class Source:
    """A source that answers what it is told to, and counts how often it is asked."""

    def __init__(self, name: str, clock: ManualClock, answer: float | None = None, takes: float = 0.0) -> None:
        self.asked = 0
        self.answer = answer
        self.takes = takes
        self._clock = clock
        self.source = IdleSource(name, self._read)

    def _read(self, now: float) -> float | None:
        self.asked += 1
        self._clock.advance(self.takes)
        return self.answer


def test_the_first_that_answers() -> None:
    clock = ManualClock()
    silent, first, second = Source("a", clock), Source("b", clock, 5.0), Source("c", clock, 9.0)
    reader = IdleReader([silent.source, first.source, second.source], "nothing tells", clock.monotonic)
    assert reader.read(NOW) == Answer(5.0, "b")
    assert second.asked == 0


def test_none_answers() -> None:
    clock = ManualClock()
    assert IdleReader([Source("a", clock).source], "nothing tells", clock.monotonic).read(NOW).value is None
    assert IdleReader([], "nobody", clock.monotonic).read(NOW) == Answer(None, "nobody")


@pytest.mark.parametrize("nonsense", [-1.0, float("nan"), float("inf"), 1e12])
def test_nonsense_is_no_answer(nonsense: float) -> None:
    clock = ManualClock()
    reader = IdleReader([Source("a", clock, nonsense).source], "nothing tells", clock.monotonic)
    assert reader.read(NOW).value is None


def test_a_source_that_never_answered_rests() -> None:
    clock = ManualClock()
    source = Source("a", clock)
    reader = IdleReader([source.source], "nothing tells", clock.monotonic)
    rest = FIRST_REST_SECONDS
    for asked in range(1, 9):
        reader.read(NOW)
        clock.advance(rest - 0.5)
        reader.read(NOW)
        assert source.asked == asked
        clock.advance(0.5)
        rest = min(REST_SECONDS, 2 * rest)
    assert rest == REST_SECONDS
    source.answer = 3.0
    assert reader.read(NOW).value == 3.0


def test_a_source_that_answers_may_fail_now_and_then() -> None:
    clock = ManualClock()
    source = Source("a", clock, 3.0)
    reader = IdleReader([source.source], "nothing tells", clock.monotonic)
    reader.read(NOW)
    source.answer = None
    for _ in range(MAX_FAILURES + 5):
        assert reader.read(NOW).value is None
    assert source.asked == 1 + MAX_FAILURES


def test_slow_sources_do_not_add_up() -> None:
    clock = ManualClock()
    slow = [Source(str(index), clock, takes=0.45) for index in range(5)]
    reader = IdleReader([source.source for source in slow], "nothing tells", clock.monotonic)
    began = clock.monotonic()
    reader.read(NOW)
    assert clock.monotonic() - began < START_LIMIT_SECONDS + 0.45
    for _ in slow:
        reader.read(NOW)
    assert [source.asked for source in slow] == [1] * 5


SESSION = {"DBUS_SESSION_BUS_ADDRESS": "x"}
X11 = {"DISPLAY": ":0"}
WAYLAND = {"WAYLAND_DISPLAY": "wayland-0", "XDG_RUNTIME_DIR": "/nonexistent"}


@pytest.mark.parametrize(
    ("environment", "session_bus", "names"),
    [
        ({}, False, []),
        (X11, False, ["X11 screen saver", "logind"]),
        (X11, True, ["X11 screen saver", "GNOME", "Cinnamon", "logind"]),
        ({**X11, "XDG_SESSION_TYPE": "wayland"}, True, ["GNOME", "Cinnamon", "logind"]),
        ({**X11, **WAYLAND}, True, ["Wayland idle notifier", "GNOME", "Cinnamon", "logind"]),
        (WAYLAND, False, ["Wayland idle notifier", "logind"]),
        ({"XDG_SESSION_ID": "2"}, True, ["logind"]),
    ],
)
def test_linux_sources(tmp_path: Path, environment: dict[str, str], session_bus: bool, names: list[str]) -> None:
    host = fake_host(
        tmp_path, environment=environment, session_bus=FakeBus() if session_bus else None, system_bus=FakeBus()
    )
    x11 = x11_of(host)
    assert [source.name for source in reader_for(host, x11)._sources] == names
    assert (x11 is not None) == ("X11 screen saver" in names)


@pytest.mark.parametrize(
    ("service", "reply", "seconds", "source"),
    [
        ("org.gnome.Mutter.IdleMonitor", (1234,), 1.234, "GNOME"),
        ("org.cinnamon.Muffin.IdleMonitor", (0,), 0.0, "Cinnamon"),
        ("org.gnome.Mutter.IdleMonitor", ("text",), None, "this desktop does not tell"),
        ("org.gnome.Mutter.IdleMonitor", (1, 2), None, "this desktop does not tell"),
        ("org.gnome.Mutter.IdleMonitor", (2**64,), None, "this desktop does not tell"),
    ],
)
def test_mutter(tmp_path: Path, service: str, reply: tuple[object, ...], seconds: float | None, source: str) -> None:
    host = fake_host(
        tmp_path,
        environment={"XDG_SESSION_TYPE": "wayland"},
        session_bus=FakeBus(replies={(service, "GetIdletime"): reply}),
    )
    assert reader_for(host, None).read(NOW) == Answer(seconds, source)


SESSION_PATH = "/org/freedesktop/login1/session/_32"
MANAGER = ("org.freedesktop.login1", "GetSession")


def hint_of(properties: dict[tuple[str, str], object]) -> IdleHint:
    return IdleHint(FakeBus(properties, {MANAGER: (SESSION_PATH,)}), {"XDG_SESSION_ID": "2"})


@pytest.mark.parametrize(
    ("hint", "since", "seconds"),
    [
        (True, int((NOW - 90) * 1e6), 90.0),
        (True, int((NOW + 0.5) * 1e6), 0.0),
        (True, int((NOW + 60) * 1e6), None),
        (False, int((NOW - 90) * 1e6), None),
        (True, 0, None),
        (True, "yes", None),
        (True, None, None),
        (None, int(NOW * 1e6), None),
    ],
)
def test_logind(hint: object, since: object, seconds: float | None) -> None:
    found = hint_of({(SESSION_PATH, "IdleHint"): hint, (SESSION_PATH, "IdleSinceHint"): since}).seconds(NOW)
    assert found == (None if seconds is None else pytest.approx(seconds, abs=1e-3))


def test_logind_is_believed_to_be_in_use_once_it_was_idle() -> None:
    bus = FakeBus(
        {(SESSION_PATH, "IdleHint"): True, (SESSION_PATH, "IdleSinceHint"): int((NOW - 90) * 1e6)},
        {MANAGER: (SESSION_PATH,)},
    )
    hint = IdleHint(bus, {"XDG_SESSION_ID": "2"})
    assert hint.seconds(NOW) == pytest.approx(90.0)
    bus.properties[(SESSION_PATH, "IdleHint")] = False
    asked = len(bus.asked)
    assert hint.seconds(NOW + 0.9) == pytest.approx(90.0)  # not asked twice within a second
    assert len(bus.asked) == asked
    assert hint.seconds(NOW + 1.0) == 0.0


def test_logind_of_a_service_without_a_session_of_its_own() -> None:
    user = "/org/freedesktop/login1/user/self"
    bus = FakeBus(
        {
            (user, "Display"): ("2", SESSION_PATH),
            (SESSION_PATH, "IdleHint"): True,
            (SESSION_PATH, "IdleSinceHint"): int((NOW - 5) * 1e6),
        }
    )
    assert IdleHint(bus, {}).seconds(NOW) == pytest.approx(5.0)
    assert IdleHint(FakeBus({(user, "Display"): ("", "/")}), {}).seconds(NOW) is None


class User32:
    """GetLastInputInfo of the Windows API."""

    def __init__(self, last_input_tick: int, works: bool = True) -> None:
        self._tick = last_input_tick
        self._works = works

    def GetLastInputInfo(self, reference: Any) -> int:
        info = reference._obj
        assert info.cbSize == 8
        info.dwTime = self._tick
        return int(self._works)


class Kernel32:
    """GetTickCount of the Windows API."""

    def __init__(self, tick: int) -> None:
        self._tick = tick

    def GetTickCount(self) -> int:
        return self._tick


@pytest.mark.parametrize(
    ("last", "tick", "seconds"),
    [
        (1000, 3500, 2.5),
        (0xFFFFFFFF - 499, 500, 1.0),  # the count wrapped in between
        (3516, 3500, 0.0),  # the input's tick lies ahead
        (0, 0x7FFFFFFF, 2_147_483.647),
    ],
)
def test_windows_ticks(last: int, tick: int, seconds: float) -> None:
    assert windows_idle_seconds(User32(last), Kernel32(tick)) == pytest.approx(seconds)


def test_windows_does_not_tell() -> None:
    assert windows_idle_seconds(User32(0, works=False), Kernel32(5)) is None


def test_windows_as_a_whole(tmp_path: Path) -> None:
    libraries = {"user32": User32(1000), "kernel32": Kernel32(3500)}
    host = fake_host(tmp_path, system="win32", load=libraries.__getitem__)
    assert reader_for(host, x11_of(host)).read(NOW) == Answer(2.5, "Windows")


@pytest.mark.parametrize(
    ("events", "device", "seconds"), [(4.5, None, 4.5), (4.5, 3.0, 3.0), (4.5, 700.0, 4.5), (-1.0, 12.0, 12.0)]
)
def test_macos_takes_the_shorter(tmp_path: Path, events: float, device: float | None, seconds: float) -> None:
    desktop = Desktop(events, device)
    host = fake_host(tmp_path, system="darwin", load=desktop)
    assert reader_for(host, x11_of(host)).read(NOW) == Answer(seconds, "macOS")
    assert desktop.foundation.objects == {}
    assert desktop.released == ([] if device is None else [7])


def test_macos_does_not_tell() -> None:
    def missing(path: str) -> object:
        raise OSError("no such library")

    assert macos_idle_seconds(missing) is None
    assert macos_idle_seconds(lambda path: object()) is None
