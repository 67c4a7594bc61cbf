"""The endpoint file: where the engine of this profile listens."""

from pathlib import Path
from typing import Final, Literal

import msgspec

MAX_ENDPOINT_BYTES: Final = 16 * 1024


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine wrote when it began to listen."""

    kind: Literal["unix", "pipe"]
    address: str
    pid: int
    token: str
    started_at: float = 0.0
    contract_version: int = 0
    engine_version: str = ""


_decoder = msgspec.json.Decoder(Endpoint)


def read_endpoint(path: Path) -> Endpoint | None:
    """The endpoint, or None when there is no readable, well-formed one: then no engine can be spoken to."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_ENDPOINT_BYTES + 1)
    except OSError:
        return None
    if len(data) > MAX_ENDPOINT_BYTES:
        return None
    try:
        endpoint = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return endpoint if endpoint.address and endpoint.token else None
