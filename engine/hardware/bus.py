"""Questions to D-Bus services, each with a time limit.

Services are never started by being asked (D-Bus specification, NO_AUTO_START): a guest wakes nobody.
"""

import contextlib
import os
import struct
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from jeepney import DBusAddress, Message, MessageFlag, MessageType, new_method_call
from jeepney.auth import AuthenticationError
from jeepney.io.blocking import DBusConnection, open_dbus_connection

CALL_LIMIT_SECONDS: Final = 0.4
FIRST_REST_SECONDS: Final = 2.0
REST_SECONDS: Final = 60.0
"""A service that did not answer in time, and a bus that cannot be reached, are left alone: first for a moment (the
computer may be busy), then twice as long each time, up to this."""

SYSTEM_BUS: Final = "unix:path=/run/dbus/system_bus_socket"
_FAILURES: Final = (OSError, ValueError, RuntimeError, TypeError, LookupError, struct.error, AuthenticationError)
"""What jeepney raises for a bus that is not there, closes, or talks nonsense. TimeoutError is an OSError."""


class Bus:
    """One connection to a message bus, opened when first needed and again after it broke. Safe in any thread."""

    def __init__(
        self,
        address: str | None,
        *,
        limit_seconds: float = CALL_LIMIT_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = address
        self._limit_seconds = limit_seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._connection: DBusConnection | None = None
        self._rests_until: dict[str, float] = {}
        self._silences: dict[str, int] = {}

    @property
    def there(self) -> bool:
        """True when there is an address to connect to."""
        return self._address is not None

    def get(self, service: str, path: str, interface: str, name: str) -> Any:
        """The value of a property; None when the service is not there, has none, or does not answer."""
        answer = self.call(service, path, "org.freedesktop.DBus.Properties", "Get", "ss", (interface, name))
        if len(answer) != 1 or not isinstance(answer[0], tuple) or len(answer[0]) != 2:
            return None
        return answer[0][1]  # a variant: its signature and its value

    def call(
        self, service: str, path: str, interface: str, method: str, signature: str = "", arguments: tuple[Any, ...] = ()
    ) -> tuple[Any, ...]:
        """What the method returned; () when the service is not there, refuses, or does not answer."""
        message = new_method_call(
            DBusAddress(path, bus_name=service, interface=interface), method, signature or None, arguments
        )
        message.header.flags |= MessageFlag.no_auto_start
        with self._lock:
            if self._address is None or self._rests("") or self._rests(service):
                return ()
            return self._ask(service, message)

    def close(self) -> None:
        """Safe to repeat; a later question opens it again."""
        with self._lock:
            self._drop()

    def _ask(self, service: str, message: Message) -> tuple[Any, ...]:
        try:
            if self._connection is None:
                self._connection = open_dbus_connection(self._address, auth_timeout=self._limit_seconds)
        except _FAILURES:
            self._rest("")
            return ()
        self._silences.pop("", None)
        try:
            reply = self._connection.send_and_get_reply(message, timeout=self._limit_seconds)
        except TimeoutError:
            self._rest(service)
            self._drop()  # the late answer would pile up
            return ()
        except _FAILURES:
            self._drop()
            return ()
        self._silences.pop(service, None)
        return tuple(reply.body) if reply.header.message_type == MessageType.method_return else ()

    def _rest(self, name: str) -> None:
        before = self._silences.get(name, 0)
        self._silences[name] = before + 1
        self._rests_until[name] = self._monotonic() + min(REST_SECONDS, FIRST_REST_SECONDS * 2 ** min(before, 10))

    def _rests(self, name: str) -> bool:
        return self._monotonic() < self._rests_until.get(name, float("-inf"))

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*_FAILURES):
                connection.close()


def session_bus_address(environment: Mapping[str, str]) -> str | None:
    """Of the bus of this desktop session; None when the environment promises none."""
    if address := environment.get("DBUS_SESSION_BUS_ADDRESS"):
        return address
    folder = environment.get("XDG_RUNTIME_DIR")
    if folder and (Path(folder) / "bus").exists():
        return f"unix:path={Path(folder) / 'bus'}"
    return None


def system_bus_address(environment: Mapping[str, str] = os.environ) -> str:
    """Of the bus that all users of this computer share."""
    return environment.get("DBUS_SYSTEM_BUS_ADDRESS", SYSTEM_BUS)
