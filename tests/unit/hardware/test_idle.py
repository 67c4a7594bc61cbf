from pathlib import Path
from typing import Any

import pytest

from engine.core.clock import ManualClock
from engine.hardware.answer import Answer
from engine.hardware.idle import (
    MAX_FAILURES,
    REST_SECONDS,
    START_LIMIT_SECONDS,
    IdleReader,
    IdleSource,
    linux_sources,
    macos_idle_seconds,
    seconds_in_gdbus,
    seconds_in_logind,
    windows_idle_seconds,
)

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
    reader.read(NOW)
    clock.advance(REST_SECONDS - 1)
    reader.read(NOW)
    assert source.asked == 1
    clock.advance(1)
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


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, []),
        ({"DISPLAY": ":0"}, ["X11 screen saver"]),
        ({"DISPLAY": ":0", "DBUS_SESSION_BUS_ADDRESS": "x"}, ["X11 screen saver", "GNOME", "Cinnamon"]),
        ({"DISPLAY": ":0", "XDG_SESSION_TYPE": "wayland", "DBUS_SESSION_BUS_ADDRESS": "x"}, ["GNOME", "Cinnamon"]),
        ({"WAYLAND_DISPLAY": "wayland-0", "XDG_SESSION_ID": "2"}, ["logind"]),
        ({"XDG_SESSION_ID": "2", "DBUS_SESSION_BUS_ADDRESS": "x"}, ["logind"]),
        ({"DISPLAY": ":0", "XDG_RUNTIME_DIR": "/nonexistent"}, ["X11 screen saver"]),
    ],
)
def test_linux_sources(environment: dict[str, str], names: list[str]) -> None:
    assert [source.name for source in linux_sources(environment)] == names


def test_a_bus_without_its_variable(tmp_path: Path) -> None:
    (tmp_path / "bus").touch()
    sources = linux_sources({"WAYLAND_DISPLAY": "wayland-0", "XDG_RUNTIME_DIR": str(tmp_path)})
    assert [source.name for source in sources] == ["GNOME", "Cinnamon"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("(uint64 1234,)\n", 1.234),
        ("(0,)\n", 0.0),
        ("", None),
        ("(uint64 -1,)", None),
        ("('text',)", None),
        ("(uint64 99999999999999999999,)", None),
    ],
)
def test_gdbus(text: str, seconds: float | None) -> None:
    assert seconds_in_gdbus(text) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (f"IdleHint=yes\nIdleSinceHint={int((NOW - 90) * 1e6)}\n", 90.0),
        (f"IdleHint=yes\nIdleSinceHint={int((NOW + 0.5) * 1e6)}\n", 0.0),
        (f"IdleHint=yes\nIdleSinceHint={int((NOW + 60) * 1e6)}\n", None),
        (f"IdleHint=no\nIdleSinceHint={int((NOW - 90) * 1e6)}\n", None),
        ("IdleHint=yes\nIdleSinceHint=0\n", None),
        ("IdleHint=yes\n", None),
        ("", None),
        ("No session '7' known\n", None),
    ],
)
def test_logind(text: str, seconds: float | None) -> None:
    assert seconds_in_logind(text, NOW) == (None if seconds is None else pytest.approx(seconds, abs=1e-3))


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


def test_macos() -> None:
    class Services:
        @staticmethod
        def CGEventSourceSecondsSinceLastEventType(state: int, kind: int) -> float:
            assert (state, kind) == (0, 0xFFFFFFFF)
            return 4.5

    class Function:
        def __call__(self, state: int, kind: int) -> float:
            return Services.CGEventSourceSecondsSinceLastEventType(state, kind)

    class Library:
        CGEventSourceSecondsSinceLastEventType = Function()

    assert macos_idle_seconds(lambda path: Library()) == 4.5


def test_macos_does_not_tell() -> None:
    def missing(path: str) -> object:
        raise OSError("no such library")

    assert macos_idle_seconds(missing) is None
    assert macos_idle_seconds(lambda path: object()) is None
