"""Linux: systemd-logind says when the computer will sleep or shut down, and waits while somebody holds a delay.

https://www.freedesktop.org/wiki/Software/systemd/inhibit/ : a "delay" inhibitor is a file descriptor; the computer
sleeps when the last one is closed, at the latest after InhibitDelayMaxSec.
"""

import contextlib
import logging
import os
import socket
import struct
import threading
from collections import deque
from typing import Any, Final

from jeepney import DBusAddress, MatchRule, Message, MessageType, message_bus, new_method_call
from jeepney.auth import AuthenticationError
from jeepney.fds import FileDescriptor
from jeepney.io.blocking import DBusConnection, open_dbus_connection

from engine.runtime.power.news import Herald, PowerNews

log = logging.getLogger(__name__)

SERVICE: Final = "org.freedesktop.login1"
MANAGER: Final = DBusAddress("/org/freedesktop/login1", bus_name=SERVICE, interface="org.freedesktop.login1.Manager")
SIGNALS: Final = {"PrepareForSleep": PowerNews.SLEEP, "PrepareForShutdown": PowerNews.END}
CALL_SECONDS: Final = 2.0
TRY_AGAIN_SECONDS: Final = 60.0
MAX_WAITING: Final = 16
BUS_FAULTS: Final = (OSError, ValueError, RuntimeError, TypeError, LookupError, struct.error, AuthenticationError)
"""What jeepney raises for a bus that is not there, ends, or talks nonsense."""


class Refused(OSError):
    """The service answered with an error."""


class LogindWatch:
    """Implements `PowerWatch` in a thread of its own."""

    def __init__(self, address: str, herald: Herald) -> None:
        self._address = address
        self._herald = herald
        self._lock = threading.Lock()
        self._connection: DBusConnection | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="logind", daemon=True)
        self.listens = threading.Event()
        """Set while the system would wait for us."""

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._herald.close()
        with self._lock:
            if self._connection is not None:
                with contextlib.suppress(OSError):
                    self._connection.sock.shutdown(socket.SHUT_RDWR)
        if self._thread.ident is not None:
            self._thread.join(CALL_SECONDS)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._listen()
            except BUS_FAULTS as error:
                if not self._closing.is_set():
                    log.info("logind does not tell when this computer sleeps: %s: %s", type(error).__name__, error)
            finally:
                self.listens.clear()
                self._drop()
            self._closing.wait(TRY_AGAIN_SECONDS)

    def _listen(self) -> None:
        connection = open_dbus_connection(self._address, enable_fds=True)
        with self._lock:
            self._connection = connection
            if self._closing.is_set():
                return
        rule = MatchRule(type="signal", sender=SERVICE, interface=MANAGER.interface, path=MANAGER.object_path)
        call(connection, message_bus.AddMatch(rule))
        signals: deque[Message] = deque(maxlen=MAX_WAITING)
        anyone = MatchRule(type="signal", interface=MANAGER.interface, path=MANAGER.object_path)
        with contextlib.ExitStack() as held, connection.filter(anyone, queue=signals):
            held.enter_context(inhibit(connection))
            self.listens.set()
            while True:
                self._on_signal(connection, connection.recv_until_filtered(signals), held)

    def _on_signal(self, connection: DBusConnection, signal: Message, held: contextlib.ExitStack) -> None:
        news = SIGNALS.get(str(signal.header.fields.get(3, "")))  # 3: the member
        if news is None or len(signal.body) != 1:
            return
        if signal.body[0]:
            self._herald.tell(news)
            held.close()
        elif news is PowerNews.SLEEP:
            held.close()
            held.enter_context(inhibit(connection))
            self._herald.tell(PowerNews.AWAKE)

    def _drop(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*BUS_FAULTS):
                connection.close()


def inhibit(
    connection: DBusConnection, what: str = "sleep:shutdown", mode: str = "delay", why: str = "Saves its model"
) -> "contextlib.closing[Any]":
    """An inhibitor, held until it is closed.

    Raises:
        Refused: logind does not grant it.
        OSError: the bus does not answer.
    """
    (descriptor,) = call(connection, new_method_call(MANAGER, "Inhibit", "ssss", (what, "Potluck", why, mode)))
    if not isinstance(descriptor, FileDescriptor):
        raise Refused("logind answered without a descriptor")
    return contextlib.closing(os.fdopen(descriptor.to_raw_fd(), "rb", buffering=0))


def call(connection: DBusConnection, message: Message) -> tuple[Any, ...]:
    """What a method returned.

    Raises:
        Refused: it answered with an error.
        OSError: the bus does not answer.
    """
    reply = connection.send_and_get_reply(message, timeout=CALL_SECONDS)
    if reply.header.message_type is not MessageType.method_return:
        raise Refused(str(reply.body[0] if reply.body else "no reason given")[:200])
    return tuple(reply.body)
