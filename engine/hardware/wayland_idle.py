"""Answers each line of standard input with for how many milliseconds nobody has touched the Wayland seat's devices.

Speaks just enough of the Wayland protocol (wayland.freedesktop.org, "Wire format") to ask for one notification a
seat: of `ext_idle_notifier_v1` (its version 2 counts hands only, version 1 also films that keep the screen on), or of
its forerunner `org_kde_kwin_idle`. Ends with 1 when the compositor offers neither. Run as a program of its own: a
compositor may close the connection or stop answering at any time. Imports nothing of Potluck, to start quickly.
"""

import os
import selectors
import socket
import struct
import sys
import time

QUIET_MILLISECONDS = 1000
"""Without input for this long, a seat counts as idle. Input ends that at once."""

MAX_BUFFER_BYTES = 1 << 20
START_LIMIT_SECONDS = 5.0

DISPLAY, REGISTRY, LISTED, FIRST_FREE = 1, 2, 3, 4
GET_REGISTRY, SYNC = 1, 0
EXT, KDE = "ext_idle_notifier_v1", "org_kde_kwin_idle"


class Refused(Exception):
    """The compositor does not offer what is needed, or broke the protocol."""


def message(target: int, opcode: int, body: bytes) -> bytes:
    """A request on the wire."""
    return struct.pack("=II", target, (8 + len(body)) << 16 | opcode) + body


def string(text: str) -> bytes:
    """Length with the closing zero, then the text, filled up to a multiple of four."""
    raw = text.encode() + b"\0"
    return struct.pack("=I", len(raw)) + raw + b"\0" * (-len(raw) % 4)


class IdleClient:
    """The conversation, without a socket: bytes in, bytes out in `outgoing`."""

    def __init__(self) -> None:
        self.outgoing = bytearray(message(DISPLAY, GET_REGISTRY, struct.pack("=I", REGISTRY)))
        self.outgoing += message(DISPLAY, SYNC, struct.pack("=I", LISTED))
        self._incoming = bytearray()
        self._offers: dict[str, tuple[int, int]] = {}  # interface: name and version
        self._seats: list[int] = []
        self._next_id = FIRST_FREE
        self._idle_since: dict[int, float | None] = {}  # by notification

    @property
    def ready(self) -> bool:
        """True once notifications are asked for."""
        return bool(self._idle_since)

    def idle_milliseconds(self, now: float) -> int:
        """`now` in seconds, of the clock that `receive` gets. While somebody types: 0."""
        if any(since is None for since in self._idle_since.values()):
            return 0
        quiet = min(now - since for since in self._idle_since.values() if since is not None)
        return max(0, int(quiet * 1000)) + QUIET_MILLISECONDS

    def receive(self, data: bytes, now: float) -> None:
        """Raises:
        Refused: it offers no notifier or seat, says that we erred, or talks nonsense.
        """
        self._incoming += data
        if len(self._incoming) > MAX_BUFFER_BYTES:
            raise Refused("too much at once")
        while len(self._incoming) >= 8:
            target, word = struct.unpack_from("=II", self._incoming)
            size = word >> 16
            if size < 8:
                raise Refused("a message shorter than its header")
            if len(self._incoming) < size:
                return
            body = bytes(self._incoming[8:size])
            del self._incoming[:size]
            self._event(target, word & 0xFFFF, body, now)

    def _event(self, target: int, opcode: int, body: bytes, now: float) -> None:
        if target == DISPLAY and opcode == 0:
            raise Refused("the compositor reports an error")
        if target == REGISTRY and opcode == 0:
            self._note_offer(body)
        elif target == LISTED and opcode == 0:
            self._ask()
        elif target in self._idle_since and opcode in (0, 1):
            self._idle_since[target] = now if opcode == 0 else None

    def _note_offer(self, body: bytes) -> None:
        try:
            name, length = struct.unpack_from("=II", body)
            interface = body[8 : 8 + length].rstrip(b"\0").decode()
            (version,) = struct.unpack_from("=I", body, 8 + length + -length % 4)
        except (struct.error, UnicodeDecodeError) as error:
            raise Refused("an offer that cannot be read") from error
        if interface == "wl_seat":
            self._seats.append(name)
        else:
            self._offers[interface] = (name, version)

    def _ask(self) -> None:
        interface = EXT if EXT in self._offers else KDE
        if interface not in self._offers or not self._seats:
            raise Refused("no notifier or no seat")
        name, offered = self._offers[interface]
        version = min(offered, 2) if interface == EXT else 1
        notifier = self._bind(name, interface, version)
        for seat_name in self._seats:
            seat = self._bind(seat_name, "wl_seat", 1)
            notification = self._new_id()
            if interface == EXT:
                body = struct.pack("=III", notification, QUIET_MILLISECONDS, seat)
                self.outgoing += message(notifier, 2 if version >= 2 else 1, body)
            else:
                self.outgoing += message(notifier, 0, struct.pack("=III", notification, seat, QUIET_MILLISECONDS))
            self._idle_since[notification] = None

    def _bind(self, name: int, interface: str, version: int) -> int:
        bound = self._new_id()
        body = struct.pack("=I", name) + string(interface) + struct.pack("=II", version, bound)
        self.outgoing += message(REGISTRY, 0, body)
        return bound

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1


def socket_path() -> str:
    """Where this session's compositor listens."""
    return os.path.join(os.environ.get("XDG_RUNTIME_DIR", ""), os.environ.get("WAYLAND_DISPLAY", "wayland-0"))


def serve(connection: socket.socket, client: IdleClient) -> None:
    """Until standard input or the compositor ends.

    Raises:
        Refused: see `IdleClient.receive`.
        OSError: the connection broke.
    """
    selector = selectors.DefaultSelector()
    selector.register(connection, selectors.EVENT_READ)
    _flush(connection, client)
    began = time.monotonic()
    while not client.ready:
        if not selector.select(max(0.0, began + START_LIMIT_SECONDS - time.monotonic())):
            raise Refused("no answer")
        _take(connection, client)
    selector.register(0, selectors.EVENT_READ)
    while True:
        ready = {key.fileobj for key, _ in selector.select()}
        if connection in ready:
            _take(connection, client)
        if 0 in ready:
            questions = os.read(0, 4096)
            if not questions:
                return
            for _ in range(questions.count(b"\n")):
                os.write(1, b"%d\n" % client.idle_milliseconds(time.monotonic()))


def _take(connection: socket.socket, client: IdleClient) -> None:
    data = connection.recv(65536)
    if not data:
        raise Refused("the compositor is gone")
    client.receive(data, time.monotonic())
    _flush(connection, client)


def _flush(connection: socket.socket, client: IdleClient) -> None:
    connection.sendall(bytes(client.outgoing))
    client.outgoing.clear()


def main() -> int:
    """0 when no longer asked, 1 when the compositor cannot tell."""
    if sys.platform == "win32":
        return 1
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with connection:
            connection.settimeout(START_LIMIT_SECONDS)
            connection.connect(socket_path())
            serve(connection, IdleClient())
    except (OSError, Refused):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
