"""Control link messages and their bytes: newline-ended JSON, at most 1 MiB a line. Spec: docs/specs/control.md."""

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from engine.contract.errors import ErrorBody

MAX_LINE_BYTES: Final = 1024 * 1024


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """First line from a face."""

    token: str
    contract_version: int
    face: str  # "window", "cli", ...
    subscribe: bool = True  # wants the snapshot and patches
    wants_samples: bool = False  # shows what the model writes, so the engine should have it write
    pid: Annotated[int, msgspec.Meta(ge=0, le=2**32)] = 0  # of the face's process; its load is not another program's


class Welcome(msgspec.Struct, frozen=True, kw_only=True, tag="welcome"):
    """The engine's answer to a good hello."""

    contract_version: int
    engine_version: str
    pid: int


class Request(msgspec.Struct, frozen=True, kw_only=True, tag="request"):
    """A command; `id` is chosen by the face and echoed."""

    id: int
    method: str
    params: dict[str, Any] = {}


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag="reply"):
    """The outcome of a request: `error` or `result`."""

    id: int
    result: Any = None
    error: ErrorBody | None = None


class SnapshotMessage(msgspec.Struct, frozen=True, kw_only=True, tag="snapshot"):
    """The whole tree at revision `rev`."""

    rev: int
    state: dict[str, Any]


class Patch(msgspec.Struct, frozen=True, kw_only=True, tag="patch"):
    """Change number `rev`: `set` replaces the value at `path`, `append` extends the list there.

    `path` is one or two field names: ("status",) or ("session", "global_step"). Revisions never skip; a gap means
    that the face must ask for a snapshot by reconnecting.
    """

    rev: int
    path: tuple[str, ...]
    value: Any
    op: Literal["set", "append"] = "set"


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """The engine closes the link after this."""

    error: ErrorBody


FaceMessage: TypeAlias = Hello | Request
EngineMessage: TypeAlias = Welcome | Reply | SnapshotMessage | Patch | Refused


class LineTooLong(ValueError):
    """A line passed MAX_LINE_BYTES."""


class BadLine(ValueError):
    """A line is not a message; the text says what and where."""


_encoder = msgspec.json.Encoder()
_face_decoder: msgspec.json.Decoder[FaceMessage] = msgspec.json.Decoder(Hello | Request)
_engine_decoder: msgspec.json.Decoder[EngineMessage] = msgspec.json.Decoder(
    Welcome | Reply | SnapshotMessage | Patch | Refused
)


def encode(message: FaceMessage | EngineMessage) -> bytes:
    """One line, with its newline.

    Raises:
        LineTooLong: the message does not fit.
    """
    line = _encoder.encode(message) + b"\n"
    if len(line) > MAX_LINE_BYTES:
        raise LineTooLong(f"a {type(message).__name__} of {len(line)} bytes exceeds {MAX_LINE_BYTES}")
    return line


def decode_face(line: bytes) -> FaceMessage:
    """A line from a face.

    Raises:
        LineTooLong, BadLine
    """
    _check_length(line)
    try:
        return _face_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadLine(str(error)[:200]) from error


def decode_engine(line: bytes) -> EngineMessage:
    """A line from the engine.

    Raises:
        LineTooLong, BadLine
    """
    _check_length(line)
    try:
        return _engine_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadLine(str(error)[:200]) from error


def _check_length(line: bytes) -> None:
    if len(line) > MAX_LINE_BYTES:
        raise LineTooLong(f"a line of {len(line)} bytes exceeds {MAX_LINE_BYTES}")
