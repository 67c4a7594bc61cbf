"""A shared state as bytes: a `safetensors` file, the same on disk and between peers. Spec: docs/specs/checkpoint.md.

Written here rather than by the library since peers with the same state must make the same bytes, whatever version of
it they have: one fetcher takes chunks from several. The library reads these files (tested).
"""

import hashlib
import json
import struct
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from engine.checkpoints.errors import BlobError
from engine.checkpoints.state import SharedState

FORMAT: Final = "potluck-state-1"
MAX_HEADER_BYTES: Final = 16 * 1024
_VECTORS: Final = ("moment1", "moment2", "weights")  # in the order in which they lie
_LENGTH: Final = struct.Struct("<Q")
_FLOAT_BYTES: Final = 4
_ALIGNMENT: Final = 8


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


class _Metadata(msgspec.Struct, frozen=True):
    format: str
    global_step: str
    manifest_hash: str
    scalars: str
    sha256: str

    def covered(self) -> bytes:
        """What the hash covers beside the numbers."""
        return f"{self.format}\n{self.global_step}\n{self.manifest_hash}\n{self.scalars}\n".encode()


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    moment1: _Entry
    moment2: _Entry
    weights: _Entry
    metadata: _Metadata = msgspec.field(name="__metadata__")


def data_bytes(parameter_count: int) -> int:
    """Bytes of the three vectors."""
    return len(_VECTORS) * parameter_count * _FLOAT_BYTES


def max_blob_bytes(parameter_count: int) -> int:
    """No state of this many parameters has a longer blob: check an offer against it before allocating."""
    return _LENGTH.size + MAX_HEADER_BYTES + data_bytes(parameter_count)


def to_blob(state: SharedState) -> bytes:
    """The state's canonical bytes: equal states give equal bytes on every machine.

    Raises:
        ValueError: the state is not valid (see `SharedState.validate`).
    """
    state.validate(state.parameter_count)
    views = [np.ascontiguousarray(getattr(state, name), dtype="<f4").data for name in _VECTORS]
    metadata = _Metadata(
        format=FORMAT,
        global_step=str(state.global_step),
        manifest_hash=state.manifest_hash.hex(),
        scalars=json.dumps({key: float(state.scalars[key]) for key in sorted(state.scalars)}),
        sha256="",
    )
    digest = _digest(metadata, views)
    header = _encode_header(msgspec.structs.replace(metadata, sha256=digest), state.parameter_count)
    return b"".join([_LENGTH.pack(len(header)), header, *views])


def from_blob(blob: bytes | memoryview, manifest_hash: bytes, parameter_count: int) -> SharedState:
    """Read a blob that must be a state of this project.

    Raises:
        BlobError: it is of another project or size, damaged, or holds numbers that cannot be; says which.
    """
    view = memoryview(blob)
    if len(view) > max_blob_bytes(parameter_count) or len(view) < _LENGTH.size:
        raise BlobError(f"{len(view)} bytes cannot be a state of {parameter_count} parameters")
    header, begin = _decode_header(view)
    data = view[begin:]
    if len(data) != data_bytes(parameter_count):
        raise BlobError(f"{len(data)} bytes of numbers, expected {data_bytes(parameter_count)}")
    _check_entries(header, parameter_count)
    metadata = header.metadata
    if metadata.manifest_hash != manifest_hash.hex():
        raise BlobError("it belongs to another project")
    if _digest(metadata, [data]) != metadata.sha256:
        raise BlobError("it is damaged: the hash differs")
    vectors = {
        name: np.frombuffer(data, dtype="<f4", count=parameter_count, offset=index * parameter_count * _FLOAT_BYTES)
        for index, name in enumerate(_VECTORS)
    }
    return _state(metadata, manifest_hash, parameter_count, vectors)


def _digest(metadata: _Metadata, parts: Sequence[memoryview]) -> str:
    digest = hashlib.sha256(metadata.covered())
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _encode_header(metadata: _Metadata, parameter_count: int) -> bytes:
    span = parameter_count * _FLOAT_BYTES
    entries = {
        name: _Entry("F32", (parameter_count,), (index * span, (index + 1) * span))
        for index, name in enumerate(_VECTORS)
    }
    text = msgspec.json.encode(_Header(metadata=metadata, **entries), order="deterministic")
    return text + b" " * (-len(text) % _ALIGNMENT)


def _decode_header(view: memoryview) -> tuple[_Header, int]:
    (length,) = _LENGTH.unpack_from(view)
    end = _LENGTH.size + length
    if length > MAX_HEADER_BYTES or end > len(view):
        raise BlobError(f"a header of {length} bytes")
    try:
        return msgspec.json.decode(view[_LENGTH.size : end], type=_Header), end
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BlobError(f"its header cannot be read: {error}") from error


def _check_entries(header: _Header, parameter_count: int) -> None:
    span = parameter_count * _FLOAT_BYTES
    for index, name in enumerate(_VECTORS):
        expected = _Entry("F32", (parameter_count,), (index * span, (index + 1) * span))
        if getattr(header, name) != expected:
            raise BlobError(f"{name} does not lie where it should")
    if header.metadata.format != FORMAT:
        raise BlobError(f"format {header.metadata.format[:40]!r}, expected {FORMAT!r}")


def _state(metadata: _Metadata, manifest_hash: bytes, parameter_count: int, vectors: dict[str, Any]) -> SharedState:
    try:
        scalars = msgspec.json.decode(metadata.scalars, type=dict[str, float])
        state = SharedState(
            global_step=msgspec.convert(metadata.global_step, int, strict=False),
            manifest_hash=manifest_hash,
            scalars=scalars,
            **{name: vector.astype(np.float32) for name, vector in vectors.items()},
        )
        state.validate(parameter_count)
    except (msgspec.DecodeError, ValueError) as error:
        raise BlobError(str(error)) from error
    return state
