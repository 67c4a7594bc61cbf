"""Session lock and full screen, energy saver, networks: what each system says."""

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.hardware.answer import Answer
from engine.hardware.energy_saver import read_energy_saver
from engine.hardware.full_screen import read_full_screen
from engine.hardware.network_cost import NetworkReading, of_windows_cost, read_network
from engine.hardware.session_lock import _SessionInfo, read_session_lock
from engine.hardware.windows_network_cost import GET_COST, RELEASE, cost_of
from tests.helpers.fake_host import FakeBus, fake_host
from tests.helpers.fake_macos import Desktop, Function, ProcessInfoLibrary

PATH = "/org/freedesktop/login1/session/_32"
SESSION = {"XDG_SESSION_ID": "2"}
GNOME, KDE = ("org.gnome.ScreenSaver", "GetActive"), ("org.freedesktop.ScreenSaver", "GetActive")


@pytest.mark.parametrize(
    ("hint", "savers", "expected"),
    [
        (True, {}, Answer(True, "logind")),
        (False, {}, Answer(False, "logind")),
        (False, {GNOME: (True,)}, Answer(True, "GNOME screen saver")),  # logind's hint may stay at "no" for ever
        (True, {GNOME: (False,)}, Answer(True, "logind")),
        (None, {GNOME: (False,), KDE: (True,)}, Answer(True, "screen saver")),
        (None, {KDE: (False,)}, Answer(False, "screen saver")),
        (None, {KDE: ("yes",)}, Answer(None, "this desktop does not tell")),
        ("yes", {}, Answer(None, "this desktop does not tell")),
    ],
)
def test_lock_on_linux(
    tmp_path: Path, hint: object, savers: dict[tuple[str, str], tuple[Any, ...]], expected: Answer[bool]
) -> None:
    system = FakeBus({(PATH, "LockedHint"): hint}, {("org.freedesktop.login1", "GetSession"): (PATH,)})
    host = fake_host(tmp_path, environment=SESSION, system_bus=system, session_bus=FakeBus(replies=savers))
    assert read_session_lock(host) == expected


class Terminal:
    """WTSQuerySessionInformation of the Windows API."""

    def __init__(self, level: int = 1, flags: int = 0, size: int = 200, works: bool = True) -> None:
        self._info = _SessionInfo(Level=level, SessionId=1, SessionState=0, SessionFlags=flags)
        self.held = 0
        self.WTSFreeMemory = Function(self._free)

        def query(server: Any, session: int, kind: int, buffer: Any, length: Any) -> int:
            assert (session, kind) == (0xFFFFFFFF, 25)
            if works:
                self.held += 1
                buffer._obj.value, length._obj.value = ctypes.addressof(self._info), size
            return int(works)

        self.WTSQuerySessionInformationW = Function(query)

    def _free(self, buffer: Any) -> None:
        self.held -= 1


@pytest.mark.parametrize(
    ("terminal", "locked"),
    [
        (Terminal(flags=0), True),
        (Terminal(flags=1), False),
        (Terminal(flags=0xFFFFFFFF), None),
        (Terminal(level=2), None),
        (Terminal(size=8), None),
        (Terminal(works=False), None),
    ],
)
def test_lock_on_windows(tmp_path: Path, terminal: Terminal, locked: bool | None) -> None:
    assert read_session_lock(fake_host(tmp_path, system="win32", load=lambda name: terminal)).value is locked
    assert terminal.held == 0


@pytest.mark.parametrize(
    ("session", "locked"),
    [
        ({}, False),
        ({b"CGSSessionScreenIsLocked": True}, True),
        ({b"kCGSSessionOnConsoleKey": True}, False),
        (None, None),
    ],
)
def test_lock_on_macos(tmp_path: Path, session: dict[bytes, bool] | None, locked: bool | None) -> None:
    desktop = Desktop(session=session)
    assert read_session_lock(fake_host(tmp_path, system="darwin", load=desktop)).value is locked
    assert desktop.foundation.objects == {}


def test_lock_without_libraries(tmp_path: Path) -> None:
    assert read_session_lock(fake_host(tmp_path, system="darwin")) == Answer(None, "macOS does not tell")


def shell_of(state: int, failure: int = 0) -> Any:
    def query(reference: Any) -> int:
        reference._obj.value = state
        return failure

    return SimpleNamespace(SHQueryUserNotificationState=query)


@pytest.mark.parametrize(
    ("state", "full"), [(1, False), (2, True), (3, True), (4, True), (5, False), (6, False), (7, None), (0, None)]
)
def test_full_screen_on_windows(tmp_path: Path, state: int, full: bool | None) -> None:
    assert read_full_screen(fake_host(tmp_path, system="win32", load=lambda name: shell_of(state)), None).value is full


def test_full_screen_that_windows_refuses_to_tell(tmp_path: Path) -> None:
    host = fake_host(tmp_path, system="win32", load=lambda name: shell_of(2, failure=-1))
    assert read_full_screen(host, None).value is None


@pytest.mark.parametrize(
    ("system", "environment"),
    [("darwin", {}), ("linux", {}), ("linux", {"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"})],
)
def test_full_screen_that_cannot_be_known(tmp_path: Path, system: str, environment: dict[str, str]) -> None:
    answer = read_full_screen(fake_host(tmp_path, system=system, environment=environment), None)
    assert answer.value is None
    assert answer.source


@pytest.mark.parametrize("service", ["org.freedesktop.UPower.PowerProfiles", "net.hadess.PowerProfiles"])
@pytest.mark.parametrize(
    ("profile", "saving"), [("power-saver", True), ("balanced", False), ("performance", False), (3, None)]
)
def test_energy_saver_on_linux(tmp_path: Path, service: str, profile: object, saving: bool | None) -> None:
    host = fake_host(tmp_path, system_bus=FakeBus({(service, "ActiveProfile"): profile}))
    assert read_energy_saver(host).value is saving


@pytest.mark.parametrize("low_power", [True, False, None])
def test_energy_saver_on_macos(tmp_path: Path, low_power: bool | None) -> None:
    host = fake_host(tmp_path, system="darwin", load=ProcessInfoLibrary(low_power=low_power))
    assert read_energy_saver(host).value is low_power


@pytest.mark.parametrize(("flag", "works", "saving"), [(1, 1, True), (0, 1, False), (1, 0, None)])
def test_energy_saver_on_windows(tmp_path: Path, flag: int, works: int, saving: bool | None) -> None:
    def status(reference: Any) -> int:
        reference._obj.SystemStatusFlag = flag
        return works

    host = fake_host(tmp_path, system="win32", load=lambda name: SimpleNamespace(GetSystemPowerStatus=status))
    assert read_energy_saver(host).value is saving


MANAGER = "org.freedesktop.NetworkManager"


@pytest.mark.parametrize(
    ("number", "metered"), [(0, None), (1, True), (2, False), (3, True), (4, False), (9, None), ("1", None)]
)
def test_metered(tmp_path: Path, number: object, metered: bool | None) -> None:
    reading = read_network(fake_host(tmp_path, system_bus=FakeBus({(MANAGER, "Metered"): number})))
    assert reading.metered.value is metered


@pytest.mark.parametrize(("number", "captive"), [(0, None), (1, None), (2, True), (3, None), (4, False), ("2", None)])
def test_captive_portal(tmp_path: Path, number: object, captive: bool | None) -> None:
    reading = read_network(fake_host(tmp_path, system_bus=FakeBus({(MANAGER, "Connectivity"): number})))
    assert reading.captive_portal.value is captive


def test_no_network_manager(tmp_path: Path) -> None:
    silent: Answer[bool] = Answer(None, "no NetworkManager on this computer")
    assert read_network(fake_host(tmp_path)) == NetworkReading(silent, silent)
    assert read_network(fake_host(tmp_path, system="darwin")).metered.value is None


@pytest.mark.parametrize(
    ("text", "metered"),
    [
        ("1\n", False),
        ("2\n", True),
        ("4\n", True),
        (f"{0x10001}\n", True),
        (f"{0x40001}", True),
        ("0\n", None),
        ("", None),
        ("x", None),
    ],
)
def test_cost_on_windows(text: str, metered: bool | None) -> None:
    assert of_windows_cost(text).value is metered


class CostManager:
    """INetworkCostManager as COM lays it out in memory: a pointer to a table of functions."""

    def __init__(self, cost: int, result: int = 0) -> None:
        self.released = 0
        self.prototype = ctypes.CFUNCTYPE

        def get_cost(this: Any, reference: Any, destination: Any) -> int:
            reference[0] = cost
            return result

        def release(this: Any) -> int:
            self.released += 1
            return 0

        get_type = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32), ctypes.c_void_p)
        release_type = ctypes.CFUNCTYPE(ctypes.c_ulong, ctypes.c_void_p)
        self._functions = (get_type(get_cost), release_type(release))
        self._table = (ctypes.c_void_p * 5)()
        self._table[GET_COST] = ctypes.cast(self._functions[0], ctypes.c_void_p).value
        self._table[RELEASE] = ctypes.cast(self._functions[1], ctypes.c_void_p).value
        self._object = ctypes.c_void_p(ctypes.addressof(self._table))

    def ole32(self, made: int = 0) -> Any:
        def create(class_id: Any, outer: Any, context: int, interface_id: Any, reference: Any) -> int:
            assert bytes(class_id)[:4] == bytes.fromhex("010cb0dc")  # little endian, as COM keeps it
            if made >= 0:
                reference._obj.value = ctypes.addressof(self._object)
            return made

        return SimpleNamespace(CoInitializeEx=lambda reserved, model: 0, CoCreateInstance=create)


def test_the_cost_manager_is_asked() -> None:
    manager = CostManager(0x40004)
    assert cost_of(manager.ole32(), manager.prototype) == 0x40004
    assert manager.released == 1


def test_a_cost_manager_that_refuses() -> None:
    manager = CostManager(1, result=-2147467259)
    assert cost_of(manager.ole32(), manager.prototype) is None
    assert manager.released == 1
    assert cost_of(manager.ole32(made=-2147221164), manager.prototype) is None
    assert cost_of(SimpleNamespace(CoInitializeEx=lambda reserved, model: -1), manager.prototype) is None
