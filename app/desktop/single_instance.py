"""One window a profile: a second start hands its link over to the first and ends."""

import logging
from typing import Final

import msgspec
from PySide6.QtCore import QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES: Final = 8 * 1024
CONNECT_MILLISECONDS: Final = 1_000
ANSWER_MILLISECONDS: Final = 3_000
_ANSWER: Final = b"shown\n"


class Call(msgspec.Struct, frozen=True, kw_only=True, tag="show"):
    """What a second start says to the first."""

    link: str = ""


_decoder = msgspec.json.Decoder(Call)


def hand_over(address: str, link: str) -> bool:
    """Ask a window that runs already to show itself and follow `link`; False when none answers.

    Waits, for this is all that the second process does.
    """
    socket = QLocalSocket()
    socket.connectToServer(address)
    if not socket.waitForConnected(CONNECT_MILLISECONDS):
        return False
    socket.write(msgspec.json.encode(Call(link=link)) + b"\n")
    heard = b""
    while _ANSWER not in heard and socket.waitForReadyRead(ANSWER_MILLISECONDS):
        heard += socket.readAll().data()
    socket.disconnectFromServer()
    return _ANSWER in heard


class InstanceServer(QObject):
    """Listens for later starts.

    Signals:
        called: a later start; its link, or "".
    """

    called = Signal(object)

    def __init__(self, address: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._address = address
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._on_connection)

    def listen(self) -> bool:
        """Begin; whether it worked. Without it a second start opens a second window, and nothing worse."""
        if self._server.listen(self._address):
            return True
        QLocalServer.removeServer(self._address)  # left by a window that was killed; `hand_over` got no answer there
        if self._server.listen(self._address):
            return True
        log.info("cannot listen for later starts: %s", self._server.errorString())
        return False

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def _on_connection(self) -> None:
        while (socket := self._server.nextPendingConnection()) is not None:
            socket.readyRead.connect(lambda s=socket: self._on_ready(s))
            socket.disconnected.connect(socket.deleteLater)
            self._on_ready(socket)

    def _on_ready(self, socket: QLocalSocket) -> None:
        if socket.bytesAvailable() > MAX_MESSAGE_BYTES:
            socket.abort()
            return
        if not socket.canReadLine():
            return
        line = socket.readLine(MAX_MESSAGE_BYTES).data()
        try:
            call = _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            socket.abort()
            return
        socket.write(_ANSWER)
        socket.disconnectFromServer()  # once the answer is written
        self.called.emit(call.link)
