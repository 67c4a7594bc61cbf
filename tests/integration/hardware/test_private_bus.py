"""Sensors that ask services, with real ones on a bus of our own. Collected on Linux only: see tests/conftest.py."""

import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.hardware import bus as bus_module
from engine.hardware.answer import Answer
from engine.hardware.battery import BatteryReading, read_battery
from engine.hardware.bus import Bus, session_bus_address, system_bus_address
from engine.hardware.energy_saver import read_energy_saver
from engine.hardware.host import Host
from engine.hardware.idle_sources import reader_for
from engine.hardware.idle_watch import IdleWatcher
from engine.hardware.network_cost import read_network
from engine.hardware.session_lock import read_session_lock
from tests.helpers.fake_host import fake_host
from tests.integration.hardware.conftest import SLEEPING_SERVICE, PrivateBus

pytestmark = pytest.mark.integration

NOW = 1_700_000_000.0
MUTTER = "org.gnome.Mutter.IdleMonitor"
MUTTER_PATH = "/org/gnome/Mutter/IdleMonitor/Core"
WAYLAND_TYPE = {"XDG_SESSION_TYPE": "wayland"}


def host_on(private_bus: PrivateBus, root: Path, **environment: str) -> Host:
    return fake_host(root, environment=environment, session_bus=private_bus.connect(), system_bus=private_bus.connect())


@pytest.fixture
def host(private_bus: PrivateBus, tmp_path: Path) -> Any:
    made = host_on(private_bus, tmp_path, **WAYLAND_TYPE, XDG_SESSION_ID="c1")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("name", "service", "path"),
    [
        ("GNOME", MUTTER, MUTTER_PATH),
        ("Cinnamon", "org.cinnamon.Muffin.IdleMonitor", "/org/cinnamon/Muffin/IdleMonitor/Core"),
    ],
)
def test_idle_time_of_a_desktop(private_bus: PrivateBus, host: Host, name: str, service: str, path: str) -> None:
    private_bus.service(service, path, service)
    private_bus.method(service, path, service, "GetIdletime", "t", "ret = 61234")
    assert reader_for(host, None).read(NOW) == Answer(61.234, name)


def add_logind_session(private_bus: PrivateBus) -> str:
    service = "org.freedesktop.login1"
    private_bus.template("logind", service)
    path = "/org/freedesktop/login1"
    arguments = ("c1", "seat0", 500, "user", True)
    (session,) = private_bus.tell(service, path, "AddSession", "ssusb", arguments)
    assert isinstance(session, str)
    return session


def test_logind(private_bus: PrivateBus, host: Host) -> None:
    session = add_logind_session(private_bus)
    reader = reader_for(host, None)
    assert reader.read(NOW) == Answer(None, "this desktop does not tell")  # its hint has always said "no"
    assert read_session_lock(host) == Answer(False, "logind")
    since = int((NOW - 120) * 1e6)
    changes = {"IdleHint": ("b", True), "IdleSinceHint": ("t", since), "LockedHint": ("b", True)}
    interface = "org.freedesktop.login1.Session"
    private_bus.tell("org.freedesktop.login1", session, "UpdateProperties", "sa{sv}", (interface, changes))
    assert read_session_lock(host) == Answer(True, "logind")
    assert reader_for(host, None).read(NOW) == Answer(120.0, "logind")


def test_gnomes_lock(private_bus: PrivateBus, host: Host) -> None:
    service, path = "org.gnome.ScreenSaver", "/org/gnome/ScreenSaver"
    private_bus.service(service, path, service)
    private_bus.method(service, path, service, "GetActive", "b", "ret = True")
    assert read_session_lock(host) == Answer(True, "GNOME screen saver")


@pytest.mark.parametrize(("profile", "saving"), [("power-saver", True), ("balanced", False)])
def test_power_profiles(private_bus: PrivateBus, host: Host, profile: str, saving: bool) -> None:
    assert read_energy_saver(host).value is None
    private_bus.template("power_profiles_daemon", "net.hadess.PowerProfiles", ActiveProfile=profile)
    assert read_energy_saver(host) == Answer(saving, "power profiles")


@pytest.mark.parametrize(("metered", "connectivity", "expected"), [(1, 4, (True, False)), (4, 2, (False, True))])
def test_network_manager(
    private_bus: PrivateBus, host: Host, metered: int, connectivity: int, expected: tuple[bool, bool]
) -> None:
    service, path = "org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager"
    private_bus.service(service, path, service)
    private_bus.property(service, path, service, "Metered", ("u", metered))
    private_bus.property(service, path, service, "Connectivity", ("u", connectivity))
    reading = read_network(host)
    assert (reading.metered.value, reading.captive_portal.value) == expected


def add_ups(private_bus: PrivateBus, state: int) -> None:
    service, device = "org.freedesktop.UPower", "/org/freedesktop/UPower/devices/ups_1"
    properties = {"Type": ("u", 3), "State": ("u", state), "Percentage": ("d", 88.0)}
    interface = "org.freedesktop.UPower.Device"
    private_bus.tell(
        service, "/org/freedesktop/UPower", "AddObject", "ssa{sv}a(ssss)", (device, interface, properties, [])
    )
    private_bus.method(
        service,
        "/org/freedesktop/UPower",
        service,
        "EnumerateDevices",
        "ao",
        "ret = [k for k in objects if 'devices/' in k]",
    )


@pytest.mark.parametrize(("state", "on_battery"), [(4, False), (2, True)])
def test_ups(private_bus: PrivateBus, host: Host, state: int, on_battery: bool) -> None:
    private_bus.template("upower", "org.freedesktop.UPower")
    assert read_battery(host).on_battery is None  # no power supply at all
    mouse = ("mouse", "Wireless mouse", 20.0, 3600)
    private_bus.tell("org.freedesktop.UPower", "/org/freedesktop/UPower", "AddDischargingBattery", "ssdx", mouse)
    add_ups(private_bus, state)
    assert read_battery(host) == BatteryReading(on_battery, 88.0, "UPS")


def test_nobody_is_there(host: Host) -> None:
    assert reader_for(host, None).read(NOW).value is None
    assert read_session_lock(host).value is None
    assert read_energy_saver(host).value is None
    assert read_network(host).metered.value is None
    assert read_battery(host).on_battery is None


def test_no_bus_at_all(tmp_path: Path) -> None:
    for address in (None, f"unix:path={tmp_path / 'none'}", "tcp:host=nowhere", "nonsense", ""):
        bus = Bus(address)
        assert bus.get("a.b", "/a", "a.b", "C") is None
        bus.close()


def test_a_service_that_hangs_rests(private_bus: PrivateBus, monkeypatch: pytest.MonkeyPatch) -> None:
    process = private_bus.service("a.b", "/a", "a.b")
    private_bus.property("a.b", "/a", "a.b", "C", ("u", 7))
    clock = [100.0]
    bus = Bus(private_bus.address, limit_seconds=20.0, monotonic=lambda: clock[0])
    assert bus.get("a.b", "/a", "a.b", "C") == 7
    process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(bus, "_limit_seconds", 0.05)
    assert bus.get("a.b", "/a", "a.b", "C") is None
    process.send_signal(signal.SIGCONT)
    monkeypatch.setattr(bus, "_limit_seconds", 20.0)
    assert bus.get("a.b", "/a", "a.b", "C") is None
    clock[0] += bus_module.REST_SECONDS
    assert bus.get("a.b", "/a", "a.b", "C") == 7
    bus.close()


def test_a_bus_that_was_closed_is_opened_again(private_bus: PrivateBus) -> None:
    private_bus.service("a.b", "/a", "a.b")
    private_bus.property("a.b", "/a", "a.b", "C", ("u", 7))
    bus = private_bus.connect()
    assert bus.get("a.b", "/a", "a.b", "C") == 7
    bus.close()
    assert bus.get("a.b", "/a", "a.b", "C") == 7
    assert bus.get("a.b", "/a", "a.b", "none of this name") is None
    bus.close()


def test_asking_starts_no_service(private_bus: PrivateBus, tmp_path: Path) -> None:
    assert private_bus.client.call(SLEEPING_SERVICE, "/", "org.freedesktop.DBus.Peer", "Ping") == ()
    assert not (tmp_path / "woken").exists()
    call = ["gdbus", "call", "--address", private_bus.address, "--dest", SLEEPING_SERVICE, "--object-path", "/"]
    call += ["--method", "org.freedesktop.DBus.Peer.Ping"]
    subprocess.run(call, check=False, stderr=subprocess.DEVNULL, timeout=20)
    assert (tmp_path / "woken").exists()  # which is how others wake it


def test_input_is_noticed_over_the_bus(private_bus: PrivateBus, host: Host) -> None:
    private_bus.service(MUTTER, MUTTER_PATH, MUTTER)
    private_bus.method(MUTTER, MUTTER_PATH, MUTTER, "GetIdletime", "t", "ret = 400000")
    reader = reader_for(host, None)
    noticed, looked = threading.Event(), threading.Semaphore(0)

    def read() -> Answer[float]:
        answer = reader.read(NOW)
        looked.release()
        return answer

    watcher = IdleWatcher(read, noticed.set)
    try:
        watcher.arm()
        assert looked.acquire(timeout=20)
        private_bus.method(MUTTER, MUTTER_PATH, MUTTER, "GetIdletime", "t", "ret = 5")
        assert noticed.wait(20)
    finally:
        watcher.close()


def test_addresses(tmp_path: Path) -> None:
    assert session_bus_address({}) is None
    assert session_bus_address({"DBUS_SESSION_BUS_ADDRESS": "unix:path=/a"}) == "unix:path=/a"
    assert session_bus_address({"XDG_RUNTIME_DIR": str(tmp_path)}) is None
    (tmp_path / "bus").touch()
    assert session_bus_address({"XDG_RUNTIME_DIR": str(tmp_path)}) == f"unix:path={tmp_path / 'bus'}"
    assert system_bus_address({}).startswith("unix:")
    assert system_bus_address({"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/b"}) == "unix:path=/b"
