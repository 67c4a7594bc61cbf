"""A message bus of one's own, and services on it that answer as the real ones do."""

import contextlib
import os
import queue
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

from jeepney import (
    DBusAddress,
    HeaderFields,
    Message,
    MessageType,
    message_bus,
    new_error,
    new_method_return,
    new_signal,
)
from jeepney.io.blocking import DBusConnection, open_dbus_connection

REFUSED = "org.freedesktop.DBus.Error.AccessDenied"
Answer = Callable[[str, tuple[Any, ...]], tuple[str, tuple[Any, ...]] | None]
"""From a method and its arguments to the reply's signature and body; None refuses."""


@contextlib.contextmanager
def private_bus() -> Iterator[str]:
    """The address of a bus that ends with the block."""
    daemon = subprocess.Popen(
        ["dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert daemon.stdout is not None
    try:
        yield daemon.stdout.readline().decode().strip()
    finally:
        daemon.terminate()
        daemon.wait()
        daemon.stdout.close()


class Service:
    """One name on the bus. `calls` holds what was asked, in order."""

    def __init__(self, address: str, names: tuple[str, ...], answer: Answer) -> None:
        self.calls: queue.SimpleQueue[tuple[str, tuple[Any, ...]]] = queue.SimpleQueue()
        self._answer = answer
        self._connection: DBusConnection = open_dbus_connection(address, enable_fds=True)
        for name in names:
            reply = self._connection.send_and_get_reply(message_bus.RequestName(name))
            assert reply.body == (1,), reply
        self._thread = threading.Thread(target=self._serve, name=names[0], daemon=True)
        self._thread.start()

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._connection.close()

    def emit(self, path: DBusAddress, name: str, signature: str, body: tuple[Any, ...]) -> None:
        """Send a signal to whoever listens."""
        self._connection.send(new_signal(path, name, signature, body))

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                message = self._connection.receive()
                if message.header.message_type is MessageType.method_call:
                    self._connection.send(self._reply(message))

    def _reply(self, message: Message) -> Message:
        method = str(message.header.fields[HeaderFields.member])
        self.calls.put((method, message.body))
        answer = self._answer(method, message.body)
        if answer is None:
            return new_error(message, REFUSED, "s", ("not allowed here",))
        return new_method_return(message, *answer)


class Logind(Service):
    """systemd-logind's inhibitors and announcements. `released` tells when a delay was given back."""

    MANAGER = DBusAddress("/org/freedesktop/login1", "org.freedesktop.login1", "org.freedesktop.login1.Manager")

    def __init__(self, address: str, *, grants: bool = True) -> None:
        self.grants = grants
        self.held: queue.SimpleQueue[int] = queue.SimpleQueue()
        """The reading ends of the pipes whose writing ends were given out, oldest first."""
        super().__init__(address, ("org.freedesktop.login1",), self._inhibit)

    def announce(self, name: str, begins: bool) -> None:
        self.emit(self.MANAGER, name, "b", (begins,))

    def await_release(self, seconds: float = 20.0) -> bool:
        """Wait until the oldest inhibitor that was given out is closed."""
        descriptor = self.held.get(timeout=seconds)
        with open(descriptor, "rb", buffering=0) as pipe:
            os.set_blocking(descriptor, True)
            return pipe.read(1) == b""

    def _inhibit(self, method: str, arguments: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]] | None:
        if method != "Inhibit" or not self.grants:
            return None
        reading, writing = os.pipe()
        self.held.put(reading)
        return "h", (_Given(writing),)


class _Given:
    """A descriptor that closes here once it was sent: jeepney asks for the number while it sends."""

    def __init__(self, descriptor: int) -> None:
        self._file = open(descriptor, "wb", buffering=0)  # noqa: SIM115 (closed when this is dropped)

    def fileno(self) -> int:
        return self._file.fileno()

    def __del__(self) -> None:
        self._file.close()
