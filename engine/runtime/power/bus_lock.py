"""Linux: whichever service of the desktop takes a request not to sleep; held as long as its connection."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from jeepney import DBusAddress, MessageFlag, new_method_call
from jeepney.io.blocking import DBusConnection, open_dbus_connection

from engine.runtime.power.keep_awake import GRANTED, WHY
from engine.runtime.power.logind import BUS_FAULTS, Refused, call, inhibit

GNOME_NO_SUSPEND: Final = 4


@dataclass(frozen=True, slots=True)
class _Service:
    """A service of the session's bus and its request."""

    address: DBusAddress
    signature: str
    arguments: tuple[Any, ...]


SESSION_SERVICES: Final = (
    _Service(
        DBusAddress("/org/gnome/SessionManager", "org.gnome.SessionManager", "org.gnome.SessionManager"),
        "susu",
        ("Potluck", 0, WHY, GNOME_NO_SUSPEND),
    ),
    _Service(
        DBusAddress(
            "/org/freedesktop/PowerManagement/Inhibit",
            "org.freedesktop.PowerManagement",
            "org.freedesktop.PowerManagement.Inhibit",
        ),
        "ss",
        ("Potluck", WHY),
    ),
)
"""The desktops' own, since most of them put the computer to sleep themselves and do not look at logind's locks.
org.freedesktop.ScreenSaver comes last: it keeps the screen lit too."""

SCREEN_SAVER: Final = _Service(
    DBusAddress("/org/freedesktop/ScreenSaver", "org.freedesktop.ScreenSaver", "org.freedesktop.ScreenSaver"),
    "ss",
    ("Potluck", WHY),
)


class BusLock:
    """Implements `Lock`. The first that grants it: GNOME, other desktops, logind, the screen saver's service."""

    def __init__(self, session_address: str | None, system_address: str | None) -> None:
        self._session_address = session_address
        self._system_address = system_address
        self._held = contextlib.ExitStack()

    def hold(self) -> str:
        whys: list[str] = []
        attempts: list[tuple[str, Callable[[], None]]] = []
        if self._session_address:
            attempts += [(row.address.bus_name or "", self._asker(row)) for row in SESSION_SERVICES]
        if self._system_address:
            attempts.append(("logind", self._ask_logind))
        if self._session_address:
            attempts.append(("the screen saver", self._asker(SCREEN_SAVER)))
        for name, attempt in attempts:
            try:
                attempt()
                return GRANTED
            except BUS_FAULTS as error:
                self._held.close()
                whys.append(f"{name}: {error or type(error).__name__}")
        return "; ".join(whys)[:300] or "there is no service to ask"

    def release(self) -> None:
        self._held.close()

    def _asker(self, service: _Service) -> Callable[[], None]:
        def ask() -> None:
            connection = self._open(self._session_address, with_descriptors=False)
            message = new_method_call(service.address, "Inhibit", service.signature, service.arguments)
            message.header.flags |= MessageFlag.no_auto_start
            call(connection, message)

        return ask

    def _ask_logind(self) -> None:
        connection = self._open(self._system_address, with_descriptors=True)
        self._held.enter_context(inhibit(connection, "idle", "block", WHY))

    def _open(self, address: str | None, *, with_descriptors: bool) -> DBusConnection:
        if address is None:
            raise Refused("there is no such bus")
        connection = open_dbus_connection(address, enable_fds=with_descriptors)
        self._held.callback(connection.close)
        return connection
