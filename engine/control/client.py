"""A face in asyncio: for the command line, the demonstration and tests. The window has its own, in Qt."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any, Final, Self

import msgspec

from engine.contract.codec import (
    BadLine,
    EngineMessage,
    Hello,
    LineTooLong,
    Patch,
    Refused,
    Reply,
    Request,
    SnapshotMessage,
    Welcome,
    decode_engine,
    encode,
)
from engine.contract.commands import Command
from engine.contract.errors import ControlError
from engine.contract.snapshot import EngineState
from engine.contract.version import CONTRACT_VERSION
from engine.control import local
from engine.control.diff import BadPatch, apply
from engine.control.endpoint import Endpoint, read_endpoint
from engine.control.listener import Streams
from engine.core.errors import UserError
from engine.core.paths import Paths
from engine.core.tasks import TaskOwner

CONNECT_SECONDS: Final = 5.0
REQUEST_SECONDS: Final = 130.0
"""A little more than the engine gives itself."""


class EngineNotRunning(UserError):
    """There is no engine on this profile that answers."""


class EngineGone(ConnectionError):
    """The link ended; a request in flight may or may not have been carried out."""


async def connect(
    paths: Paths, face: str = "cli", *, subscribe: bool = False, wants_samples: bool = False
) -> "ControlClient":
    """A link to the engine of this profile, past its welcome.

    Raises:
        EngineNotRunning: no endpoint file, a stale one, or nobody answers.
        ControlError: the engine refused (BAD_TOKEN, VERSION_MISMATCH, too many windows).
    """
    endpoint = read_endpoint(paths)
    if endpoint is None:
        raise _not_running(paths)
    hello = Hello(
        token=endpoint.token,
        contract_version=CONTRACT_VERSION,
        face=face,
        subscribe=subscribe,
        wants_samples=wants_samples,
    )
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await _greeted(endpoint, hello)
    except OSError as error:  # EngineGone and TimeoutError are such
        raise _not_running(paths) from error


class ControlClient:
    """One link. Use as a context manager, or `close` it. Made by `connect`."""

    def __init__(self, streams: Streams, welcome: Welcome) -> None:
        self.welcome = welcome
        self._reader, self._writer = streams
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._tree: dict[str, Any] = {}
        self._rev = 0
        self._version = 0
        self._news = asyncio.Event()
        self._ended = ""  # why, once the link has ended
        self._tasks = TaskOwner("control client")
        self._tasks.spawn("read", self._read())

    @property
    def state(self) -> EngineState:
        """The mirrored tree.

        Raises:
            LookupError: no snapshot has come (or none was subscribed to).
        """
        if not self._tree:
            raise LookupError("no snapshot has come yet")
        return msgspec.convert(self._tree, EngineState)

    async def request(self, command: Command, timeout_seconds: float = REQUEST_SECONDS) -> Any:
        """Have a command carried out; its result as plain data.

        Raises:
            ControlError: the engine refused it.
            EngineGone: the link ended before the reply.
            TimeoutError: no reply in time.
        """
        return await self.call(command.method, msgspec.to_builtins(command), timeout_seconds)

    async def call(self, method: str, params: dict[str, Any], timeout_seconds: float = REQUEST_SECONDS) -> Any:
        """As `request`, for a method by name."""
        if self._ended:
            raise EngineGone(self._ended)
        request = Request(id=next(self._ids), method=method, params=params)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[request.id] = reply
        try:
            async with asyncio.timeout(timeout_seconds):
                self._writer.write(encode(request))
                answer = await reply
        finally:
            del self._waiting[request.id]
        if answer.error is not None:
            raise ControlError(answer.error.code, **answer.error.params)
        return answer.result

    async def states(self) -> AsyncIterator[EngineState]:
        """The tree now and after each change; changes that come while the consumer is busy are merged.

        Ends when the link does.
        """
        seen = 0
        while True:
            while self._version == seen and not self._ended:
                await self._news.wait()
            if self._version == seen:
                return
            seen = self._version
            yield self.state

    async def close(self) -> None:
        """End the link. Safe to repeat."""
        self._end("it was closed here")
        await self._tasks.close()
        await _close(self._writer)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _read(self) -> None:
        reason = "the engine ended it"
        try:
            while (message := await _next(self._reader)) is not None:
                if isinstance(message, Refused):
                    reason = f"refused: {message.error.code}"
                    break
                self._take(message)
        except (BadLine, LineTooLong, BadPatch) as error:
            reason = f"the engine sent nonsense: {error}"
        finally:
            self._end(reason)

    def _take(self, message: EngineMessage) -> None:
        if isinstance(message, Reply):
            waiting = self._waiting.get(message.id)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
            return
        if isinstance(message, SnapshotMessage):
            self._tree = message.state
        elif isinstance(message, Patch):
            if message.rev != self._rev + 1:
                raise BadPatch(f"revision {message.rev} after {self._rev}")
            apply(self._tree, message)
        else:
            raise BadLine(f"an unexpected {type(message).__name__}")
        self._rev = message.rev
        self._version += 1
        self._tell()

    def _end(self, reason: str) -> None:
        self._ended = self._ended or f"the link to the engine is gone: {reason}"
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(EngineGone(self._ended))
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


async def _greeted(endpoint: Endpoint, hello: Hello) -> ControlClient:
    streams = await local.open_link(endpoint.kind, endpoint.address)
    reader, writer = streams
    try:
        writer.write(encode(hello))
        message = await _next(reader)
        if isinstance(message, Refused):
            raise ControlError(message.error.code, **message.error.params)
        if not isinstance(message, Welcome):
            raise EngineGone("no welcome came")
    except (BadLine, LineTooLong) as error:
        await _close(writer)
        raise EngineGone(f"no welcome came: {error}") from error
    except BaseException:
        await _close(writer)
        raise
    return ControlClient(streams, message)


async def _next(reader: asyncio.StreamReader) -> EngineMessage | None:
    try:
        return decode_engine(await reader.readuntil(b"\n"))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except asyncio.LimitOverrunError as error:
        raise LineTooLong(str(error)) from error


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _not_running(paths: Paths) -> EngineNotRunning:
    return EngineNotRunning(f"Potluck is not running on {paths.data_dir}.", "Start it with `potluck run`.")
