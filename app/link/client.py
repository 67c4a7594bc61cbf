"""The connection to the engine: finds it, speaks to it, comes back when it was lost. Never blocks."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtNetwork import QLocalSocket

from app.link.endpoint import read_endpoint
from app.link.heartbeat import Heartbeat
from app.link.operation import Failure, FailureKind, Operation
from app.link.protocol import LineReader, LinkBroken, LinkProtocol, OtherVersion, TurnedAway, Welcomed
from engine.contract.codec import LineTooLong, Patch, Reply, Request, SnapshotMessage, encode
from engine.contract.commands import Command, Ping

log = logging.getLogger(__name__)

FIRST_RETRY_MILLISECONDS: Final = 150
LAST_RETRY_MILLISECONDS: Final = 5_000
HANDSHAKE_MILLISECONDS: Final = 10_000
STEADY_MILLISECONDS: Final = 5_000
"""A connection that lived this long was a good one: the next loss is tried again at once."""
DEADLINE_MILLISECONDS: Final = 15_000
READ_CHUNK_BYTES: Final = 256 * 1024


class LinkState(StrEnum):
    """Whether the engine can be spoken to."""

    ABSENT = "absent"  # no endpoint file, or nobody answers there
    CONNECTING = "connecting"
    CONNECTED = "connected"  # the snapshot is here
    SILENT = "silent"  # the link is there, but the engine says nothing
    INCOMPATIBLE = "incompatible"


class LinkDetail(StrEnum):
    """What more there is to say of a state."""

    NONE = ""
    ENGINE_OLDER = "engine_older"
    ENGINE_NEWER = "engine_newer"
    TURNED_AWAY = "turned_away"
    LOST = "lost"  # it was connected before, and did not say that it ends
    STOPPED = "stopped"  # it was connected before, and took back its endpoint file: it ended in order


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """State and detail, in one value."""

    state: LinkState = LinkState.CONNECTING
    detail: LinkDetail = LinkDetail.NONE
    heard_at: float = 0.0  # seconds since the epoch, of a silent engine: when it was last heard


class EngineLink(QObject):
    """The one connection of this window.

    Signals:
        status_changed: a `LinkStatus`.
        nobody_answers: an attempt found no engine, and none ended in order; the launcher may start one.
        obeyed: the engine carried out what the user asked for.
        snapshot: a `SnapshotMessage`; the receiver may call `reject_state`.
        patch: a `Patch`, likewise.
    """

    status_changed = Signal(object)
    nobody_answers = Signal()
    obeyed = Signal()
    snapshot = Signal(object)
    patch = Signal(object)

    def __init__(
        self, endpoint_file: Path, parent: QObject | None = None, *, wall: Callable[[], float] = time.time
    ) -> None:
        super().__init__(parent)
        self._wall = wall
        self._heard_at = 0.0
        self._endpoint_file = endpoint_file
        self._status = LinkStatus()
        self._socket: QLocalSocket | None = None
        self._protocol = LinkProtocol("")
        self._lines = LineReader()
        self._pending: dict[int, Operation] = {}
        self._next_id = 1
        self._failures = 0
        self._was_connected = False
        self._retry = self._timer(self._attempt)
        self._handshake = self._timer(self._handshake_over)
        self._steady = self._timer(self._became_steady)
        self.heartbeat = Heartbeat(lambda patience: self._send(Ping(), patience), self)
        self.heartbeat.fell_silent.connect(self._fell_silent)

    @property
    def status(self) -> LinkStatus:
        """How the link stands."""
        return self._status

    @property
    def connected(self) -> bool:
        """Whether commands can be sent."""
        return self._status.state is LinkState.CONNECTED

    def start(self) -> None:
        """Begin to look for the engine."""
        self._retry.start(0)

    def stop(self) -> None:
        """Close, and stay closed."""
        self._retry.stop()
        self._drop()

    def retry_now(self) -> None:
        """Try at once rather than at the next planned moment; an engine that was stopped may be started."""
        if not self.connected:
            self._failures = 0
            self._was_connected = self._was_connected and self._status.detail is not LinkDetail.STOPPED
            self._drop()
            self._retry.start(0)

    def request(self, command: Command, deadline_milliseconds: int = DEADLINE_MILLISECONDS) -> Operation:
        """Send a command. The operation ends by itself, also when the engine does not."""
        if not self.connected:
            operation = Operation(command.method, self)
            self._fail_soon(operation, FailureKind.NOT_CONNECTED)
            return operation
        operation = self._send(command, deadline_milliseconds)
        operation.succeeded.connect(self.obeyed)
        return operation

    def _send(self, command: Command, deadline_milliseconds: int) -> Operation:
        operation = Operation(command.method, self)
        if self._socket is None:
            self._fail_soon(operation, FailureKind.NOT_CONNECTED)
            return operation
        number, self._next_id = self._next_id, self._next_id + 1
        request = Request(id=number, method=command.method, params=msgspec.to_builtins(command))
        try:
            line = encode(request)
        except LineTooLong:
            self._fail_soon(operation, FailureKind.REFUSED)
            return operation
        self._pending[number] = operation
        self._socket.write(line)
        deadline = QTimer(operation, singleShot=True)
        deadline.timeout.connect(lambda: self._timed_out(number))
        deadline.start(deadline_milliseconds)
        return operation

    def reject_state(self, why: str) -> None:
        """The receiver cannot use what came: take a fresh snapshot."""
        self._broken(f"the state cannot be used: {why}")

    def reject_version(self) -> None:
        """The receiver cannot read the snapshot at all: the engine is of another version."""
        self._end(LinkStatus(LinkState.INCOMPATIBLE, LinkDetail.ENGINE_NEWER))

    # Connecting

    def _timer(self, slot: object) -> QTimer:
        timer = QTimer(self, singleShot=True)
        timer.timeout.connect(slot)
        return timer

    def _attempt(self) -> None:
        endpoint = read_endpoint(self._endpoint_file)
        if endpoint is None:
            self._absent()
            return
        self._protocol = LinkProtocol(endpoint.token)
        self._lines = LineReader()
        socket = QLocalSocket(self)
        self._socket = socket
        socket.connected.connect(self._on_connected)
        socket.readyRead.connect(self._on_ready)
        socket.errorOccurred.connect(self._on_error)
        self._handshake.start(HANDSHAKE_MILLISECONDS)
        if self._status.state is not LinkState.INCOMPATIBLE:
            self._set(LinkStatus(LinkState.CONNECTING, self._loss_detail()))
        socket.connectToServer(endpoint.address)

    def _on_connected(self) -> None:
        if self._socket is not None:
            self._socket.write(self._protocol.hello())

    def _on_error(self, error: QLocalSocket.LocalSocketError) -> None:
        if self._socket is None:
            return
        if self._protocol.live or error is QLocalSocket.LocalSocketError.PeerClosedError:
            self._on_ready()  # a refusal may wait in the buffer
            if self._socket is not None:
                self._broken("the engine closed the link")
        else:
            self._absent()

    def _handshake_over(self) -> None:
        self._broken("no snapshot came in time")

    def _became_steady(self) -> None:
        self._failures = 0

    # Reading

    def _on_ready(self) -> None:
        """Read what is there; a slot may close the socket in between, hence the checks."""
        while self._socket is not None and self._socket.bytesAvailable():
            try:
                self._take(bytes(self._socket.read(READ_CHUNK_BYTES).data()), self._socket)
            except OtherVersion as error:
                detail = LinkDetail.ENGINE_OLDER if error.engine_is_older else LinkDetail.ENGINE_NEWER
                self._end(LinkStatus(LinkState.INCOMPATIBLE, detail))
            except TurnedAway as error:
                log.info("%s", error)
                self._end(LinkStatus(LinkState.CONNECTING, LinkDetail.TURNED_AWAY))
            except LinkBroken as error:
                self._broken(str(error))

    def _take(self, data: bytes, socket: QLocalSocket) -> None:
        for line in self._lines.feed(data):
            if self._socket is not socket:
                return
            self._handle(line)

    def _handle(self, line: bytes) -> None:
        event = self._protocol.on_line(line)
        self._hear()
        if isinstance(event, Patch):
            self.patch.emit(event)
        elif isinstance(event, SnapshotMessage):
            self._handshake.stop()
            self._steady.start(STEADY_MILLISECONDS)
            self._was_connected = True
            self.snapshot.emit(event)
            if self._socket is not None:
                self.heartbeat.start()
                self._set(LinkStatus(LinkState.CONNECTED))
        elif isinstance(event, Reply):
            self._on_reply(event)
        elif isinstance(event, Welcomed):
            log.debug("engine %s, process %d", event.engine_version, event.pid)

    def _hear(self) -> None:
        self._heard_at = self._wall()
        self.heartbeat.hear()
        if self._status.state is LinkState.SILENT:
            self._set(LinkStatus(LinkState.CONNECTED))

    def _fell_silent(self) -> None:
        if self.connected:
            log.info("the engine says nothing")
            self._set(LinkStatus(LinkState.SILENT, heard_at=self._heard_at))

    def _on_reply(self, reply: Reply) -> None:
        operation = self._pending.pop(reply.id, None)
        if operation is None:
            return  # it came after its deadline
        if reply.error is None:
            operation.succeed(reply.result)
        else:
            operation.fail(Failure(FailureKind.REFUSED, reply.error))
        operation.deleteLater()

    # Ending

    def _absent(self) -> None:
        detail = self._loss_detail()
        self._end(LinkStatus(LinkState.ABSENT, detail))
        if detail is not LinkDetail.STOPPED:
            self.nobody_answers.emit()

    def _broken(self, why: str) -> None:
        log.info("link to the engine closed: %s", why)
        self._end(LinkStatus(LinkState.CONNECTING, self._loss_detail()))

    def _end(self, status: LinkStatus) -> None:
        self._drop()
        self._set(status)
        wait = min(FIRST_RETRY_MILLISECONDS * 2 ** min(self._failures, 10), LAST_RETRY_MILLISECONDS)
        self._failures += 1
        self._retry.start(wait)

    def _drop(self) -> None:
        self._handshake.stop()
        self._steady.stop()
        self.heartbeat.stop()
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.disconnect(self)
            socket.abort()
            socket.deleteLater()
        pending, self._pending = self._pending, {}
        for operation in pending.values():
            operation.fail(Failure(FailureKind.LOST))
            operation.deleteLater()

    def _loss_detail(self) -> LinkDetail:
        if not self._was_connected:
            return LinkDetail.NONE
        return LinkDetail.LOST if self._endpoint_file.exists() else LinkDetail.STOPPED

    def _set(self, status: LinkStatus) -> None:
        if status != self._status:
            self._status = status
            self.status_changed.emit(status)

    def _timed_out(self, number: int) -> None:
        operation = self._pending.pop(number, None)
        if operation is not None:
            operation.fail(Failure(FailureKind.TIMED_OUT))
            operation.deleteLater()

    def _fail_soon(self, operation: Operation, kind: FailureKind) -> None:
        def fail() -> None:
            operation.fail(Failure(kind))
            operation.deleteLater()

        QTimer.singleShot(0, operation, fail)
