"""A small real server of the control link, in the test's own event loop: the real codec, the real state tree."""

import os
from pathlib import Path
from typing import Any

import msgspec
from PySide6.QtCore import QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from engine.contract.codec import (
    Hello,
    Patch,
    Refused,
    Reply,
    Request,
    SnapshotMessage,
    Welcome,
    decode_face,
    encode,
)
from engine.contract.errors import ControlError, ErrorBody, ErrorCode
from engine.contract.reasons import Reason, ReasonCode, RunState
from engine.contract.settings import changed
from engine.contract.snapshot import EngineState, Measurement, Status
from engine.contract.version import CONTRACT_VERSION
from tests.helpers import toy_states

TOKEN = "a-toy-token"


class ToyEngine(QObject):
    """Speaks to one window at a time.

    Signals:
        greeted: a window said hello and got its snapshot.
        requested: a `Request` came.
        lost: the window went away.
    """

    greeted = Signal()
    requested = Signal(object)
    lost = Signal()

    def __init__(self, data_dir: Path, state: EngineState, contract_version: int = CONTRACT_VERSION) -> None:
        super().__init__()
        self.state = state
        self.contract_version = contract_version
        self.requests: list[Request] = []
        self.hellos = 0
        self.errors: dict[str, ErrorBody] = {}
        self.silent: set[str] = set()
        self.results: dict[str, Any] = {}
        self._data_dir = data_dir
        self._rev = 0
        self._server: QLocalServer | None = None
        self._socket: QLocalSocket | None = None

    @property
    def endpoint_file(self) -> Path:
        return self._data_dir / "endpoint.json"

    def start(self) -> None:
        """Listen, and write the endpoint file."""
        self._data_dir.mkdir(parents=True, exist_ok=True)
        path = self._data_dir / "engine.sock"
        address = str(path) if os.name == "posix" else f"potluck-toy-{os.getpid()}"
        QLocalServer.removeServer(address)
        self._server = QLocalServer(self)
        self._server.newConnection.connect(self._on_connection)
        assert self._server.listen(address), self._server.errorString()
        self.write_endpoint(address)

    def write_endpoint(self, address: str, token: str = TOKEN) -> None:
        endpoint = {
            "kind": "unix" if os.name == "posix" else "pipe",
            "address": address,
            "pid": os.getpid(),
            "started_at": 0.0,
            "token": token,
            "contract_version": self.contract_version,
            "engine_version": "0.1.0",
        }
        self.endpoint_file.write_bytes(msgspec.json.encode(endpoint))

    def stop(self) -> None:
        """End as a killed engine does: the endpoint file stays."""
        if self._socket is not None:
            self._socket.abort()
            self._socket = None
        if self._server is not None:
            self._server.close()
            self._server = None

    def stop_in_order(self) -> None:
        """End as an engine does that was told to: the endpoint file goes first."""
        self.endpoint_file.unlink()
        self.stop()

    # Saying things

    def change(self, **fields: Any) -> None:
        """New values of top-level fields, as patches."""
        self.state = msgspec.structs.replace(self.state, **fields)
        for name, value in fields.items():
            self.patch((name,), msgspec.to_builtins(value))

    def patch(self, path: tuple[str, ...], value: Any, op: str = "set") -> None:
        """Send one patch of the next revision; `state` is the caller's to keep."""
        self._rev += 1
        self.send(Patch(rev=self._rev, path=path, value=value, op="append" if op == "append" else "set"))

    def skip_revision(self) -> None:
        """Let the next patch come with a gap before it."""
        self._rev += 1

    def send(self, message: Any) -> None:
        self.send_raw(encode(message))

    def send_raw(self, data: bytes) -> None:
        assert self._socket is not None, "no window is connected"
        self._socket.write(data)
        self._socket.flush()

    def params(self, method: str) -> list[dict[str, Any]]:
        """Parameters of all requests of a method."""
        return [request.params for request in self.requests if request.method == method]

    # Hearing things

    def _on_connection(self) -> None:
        assert self._server is not None
        socket = self._server.nextPendingConnection()
        self._socket = socket
        socket.readyRead.connect(lambda: self._on_ready(socket))
        socket.disconnected.connect(self.lost)
        self._on_ready(socket)

    def _on_ready(self, socket: QLocalSocket) -> None:
        while socket.canReadLine():
            message = decode_face(socket.readLine().data().rstrip(b"\n"))
            if isinstance(message, Hello):
                self._on_hello(message)
            else:
                self._on_request(message)

    def _on_hello(self, hello: Hello) -> None:
        self.hellos += 1
        if hello.token != TOKEN:
            self.send(Refused(error=ErrorBody(code=ErrorCode.BAD_TOKEN)))
            return
        if hello.contract_version != self.contract_version:
            params = {"engine": self.contract_version, "face": hello.contract_version}
            self.send(Refused(error=ErrorBody(code=ErrorCode.VERSION_MISMATCH, params=dict(params))))
            return
        self.send(Welcome(contract_version=self.contract_version, engine_version="0.1.0", pid=os.getpid()))
        self.send(SnapshotMessage(rev=self._rev, state=msgspec.to_builtins(self.state)))
        self.greeted.emit()

    def _on_request(self, request: Request) -> None:
        self.requests.append(request)
        if request.method in self.silent:
            pass
        elif request.method in self.errors:
            self.send(Reply(id=request.id, error=self.errors[request.method]))
        else:
            self._obey(request)
        self.requested.emit(request)

    def _obey(self, request: Request) -> None:
        try:
            if request.method == "settings.change":
                self.change(settings=changed(self.state.settings, request.params["changes"]))
            elif request.method == "training.pause":
                reason = Reason(code=ReasonCode.USER_PAUSED)
                self.change(status=Status(state=RunState.PAUSED, reasons=(reason,)))
            elif request.method == "training.resume":
                self.change(status=Status(state=RunState.TRAINING))
            elif request.method == "training.override":
                governor = msgspec.structs.replace(self.state.governor, override_until=toy_states.NOW + 3600)
                self.change(governor=governor, status=Status(state=RunState.TRAINING))
            elif request.method == "training.override_cancel":
                self.change(governor=msgspec.structs.replace(self.state.governor, override_until=None))
            elif request.method == "machine.measure":
                self.change(measurement=Measurement(state="running", fraction=0.0))
            elif request.method == "machine.measure_cancel":
                self.change(measurement=Measurement(state="cancelled"))
        except ControlError as error:
            self.send(Reply(id=request.id, error=ErrorBody(code=error.code, params=error.params)))
            return
        self.send(Reply(id=request.id, result=msgspec.to_builtins(self.results.get(request.method))))
