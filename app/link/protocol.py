"""The window's side of the control link as bytes in, events out; no socket, no clock. Spec: docs/specs/control.md."""

import os
from enum import Enum, auto
from typing import Final, TypeAlias

import msgspec

from engine.contract.codec import (
    MAX_LINE_BYTES,
    BadLine,
    EngineMessage,
    Hello,
    LineTooLong,
    Patch,
    Refused,
    Reply,
    SnapshotMessage,
    Welcome,
    decode_engine,
    encode,
)
from engine.contract.errors import ErrorCode
from engine.contract.version import CONTRACT_VERSION

FACE: Final = "window"


class LinkBroken(Exception):
    """The other end broke the protocol: close, connect anew, take a fresh snapshot."""


class OtherVersion(Exception):
    """The engine speaks another version of the contract."""

    def __init__(self, engine_contract: int) -> None:
        super().__init__(f"the engine speaks contract version {engine_contract}, this window {CONTRACT_VERSION}")
        self.engine_is_older = engine_contract < CONTRACT_VERSION


class TurnedAway(Exception):
    """The engine refused the hello for another reason than its version."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(f"the engine refused the connection: {code}")
        self.code = code


class Welcomed(msgspec.Struct, frozen=True):
    """The hello was accepted."""

    engine_version: str
    pid: int


LinkEvent: TypeAlias = Welcomed | SnapshotMessage | Patch | Reply


class _Stage(Enum):
    HELLO = auto()
    SNAPSHOT = auto()
    LIVE = auto()


class LineReader:
    """Cuts a byte stream into lines and holds no more than one line's limit."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, without their newlines.

        Raises:
            LinkBroken: an unfinished line passed MAX_LINE_BYTES.
        """
        self._rest += data
        *lines, rest = self._rest.split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise LinkBroken(f"a line passed {MAX_LINE_BYTES} bytes")
        self._rest = bytearray(rest)
        return [bytes(line) for line in lines]


class LinkProtocol:
    """One connection: hello, then a snapshot, then gap-free patches, with replies in between."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._stage = _Stage.HELLO
        self._rev = 0

    @property
    def live(self) -> bool:
        """Whether the snapshot is here."""
        return self._stage is _Stage.LIVE

    def hello(self) -> bytes:
        """The first line to send."""
        return encode(
            Hello(
                token=self._token,
                contract_version=CONTRACT_VERSION,
                face=FACE,
                wants_samples=True,
                pid=os.getpid(),
            )
        )

    def on_line(self, line: bytes) -> LinkEvent:
        """Take the engine's next line.

        Raises:
            LinkBroken: the line is not a message, comes out of turn, or a revision was skipped.
            OtherVersion, TurnedAway
        """
        try:
            message = decode_engine(line)
        except (BadLine, LineTooLong) as error:
            raise LinkBroken(str(error)) from error
        if isinstance(message, Refused):
            self._refused(message)
        if self._stage is _Stage.HELLO:
            return self._on_welcome(message)
        if isinstance(message, Reply):
            return message
        if isinstance(message, SnapshotMessage):
            self._stage = _Stage.LIVE
            self._rev = message.rev
            return message
        if isinstance(message, Patch) and self.live:
            return self._on_patch(message)
        raise LinkBroken(f"a {type(message).__name__} came out of turn")

    def _refused(self, message: Refused) -> None:
        if message.error.code is ErrorCode.VERSION_MISMATCH:
            engine = message.error.params.get("engine")
            raise OtherVersion(engine if isinstance(engine, int) else CONTRACT_VERSION + 1)
        raise TurnedAway(message.error.code)

    def _on_welcome(self, message: EngineMessage) -> Welcomed:
        if not isinstance(message, Welcome):
            raise LinkBroken(f"a {type(message).__name__} came before the welcome")
        if message.contract_version != CONTRACT_VERSION:
            raise OtherVersion(message.contract_version)
        self._stage = _Stage.SNAPSHOT
        return Welcomed(message.engine_version, message.pid)

    def _on_patch(self, patch: Patch) -> Patch:
        if patch.rev != self._rev + 1:
            raise LinkBroken(f"revision {patch.rev} came after {self._rev}")
        self._rev = patch.rev
        return patch
