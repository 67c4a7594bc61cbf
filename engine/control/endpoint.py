"""Where faces find the running engine, and the lock that keeps it the only one of its profile."""

import asyncio
import contextlib
import logging
from typing import Annotated, Final, Self

import filelock
import msgspec

from engine.control import local
from engine.control.listener import Kind
from engine.core.errors import UserError
from engine.core.files import write_atomic
from engine.core.paths import Paths

log = logging.getLogger(__name__)

MAX_ENDPOINT_BYTES: Final = 8192
PROBE_SECONDS: Final = 2.0


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoint file, JSON, readable by the user only."""

    kind: Kind
    address: Annotated[str, msgspec.Meta(min_length=1, max_length=400)]  # socket file, or \\.\pipe\ name
    pid: Annotated[int, msgspec.Meta(ge=1)]
    started_at: float  # seconds since the epoch
    token: Annotated[str, msgspec.Meta(min_length=16, max_length=200)]
    contract_version: int
    engine_version: Annotated[str, msgspec.Meta(max_length=60)]


def write_endpoint(paths: Paths, endpoint: Endpoint) -> None:
    """Announce the engine; readers see the old file or the new one, never half of it.

    Raises:
        UserError: the file cannot be written.
    """
    try:
        write_atomic(paths.endpoint_file, msgspec.json.encode(endpoint), mode=0o600)
    except OSError as error:
        raise _unwritable(paths, error) from error


def read_endpoint(paths: Paths) -> Endpoint | None:
    """What the file says, or None when there is none that can be understood. The engine it names may be dead."""
    try:
        with paths.endpoint_file.open("rb") as file:
            data = file.read(MAX_ENDPOINT_BYTES + 1)
    except OSError as error:
        log.debug("no endpoint file: %s", error)
        return None
    if len(data) > MAX_ENDPOINT_BYTES:
        log.info("%s is too long for an endpoint file", paths.endpoint_file)
        return None
    try:
        return msgspec.json.decode(data, type=Endpoint)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.info("%s is garbled: %s", paths.endpoint_file, str(error)[:200])
        return None


def remove_endpoint(paths: Paths, token: str) -> None:
    """Take the file away if it still is the one that carries `token`."""
    endpoint = read_endpoint(paths)
    if endpoint is not None and endpoint.token == token:
        with contextlib.suppress(OSError):
            paths.endpoint_file.unlink()


async def find_engine(paths: Paths) -> Endpoint | None:
    """The endpoint of an engine that answers, or None: no file, a garbled one, or one left by a dead engine."""
    endpoint = read_endpoint(paths)
    if endpoint is None:
        return None
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await local.open_link(endpoint.kind, endpoint.address)
    except OSError as error:  # TimeoutError is one
        log.info("the endpoint file names an engine that is gone (process %d): %s", endpoint.pid, error)
        return None
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return endpoint


class EngineLock:
    """Held by the one engine of a profile for as long as this object lives; a dead engine's is freed by the system."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._lock = filelock.FileLock(paths.lock_file, thread_local=False)

    def acquire(self) -> None:
        """Take the lock without waiting.

        Raises:
            UserError: another engine runs on this profile, or the data folder cannot be written.
        """
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            endpoint = read_endpoint(self._paths)
            which = f" (process {endpoint.pid})" if endpoint is not None else ""
            raise UserError(
                f"Potluck is already running{which} on {self._paths.data_dir}.",
                "Use the one that runs, or stop it first.",
            ) from None
        except OSError as error:
            raise _unwritable(self._paths, error) from error

    def release(self) -> None:
        """Let the next engine start. Safe to repeat."""
        self._lock.release()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _unwritable(paths: Paths, error: OSError) -> UserError:
    return UserError(
        f"Potluck cannot write to its folder {paths.data_dir}: {error.strerror or error}.",
        "Free some space or allow writing there, then start again.",
    )
