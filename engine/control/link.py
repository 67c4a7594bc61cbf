"""One face's link, from hello to goodbye. It waits for its own face only; the engine never waits for it."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from engine.contract.codec import (
    MAX_LINE_BYTES,
    BadLine,
    EngineMessage,
    Hello,
    LineTooLong,
    Patch,
    Refused,
    Request,
    SnapshotMessage,
    Welcome,
    decode_face,
    encode,
)
from engine.contract.errors import ControlError, ErrorBody, ErrorCode
from engine.contract.version import CONTRACT_VERSION, PRODUCT_VERSION
from engine.control.auth import token_matches
from engine.control.dispatch import Face, Handler, outcome
from engine.control.publisher import StatePublisher, Subscription
from engine.core.tasks import TaskOwner

log = logging.getLogger(__name__)

HELLO_SECONDS: Final = 5.0
GOODBYE_SECONDS: Final = 1.0
MAX_REQUESTS_IN_FLIGHT: Final = 8
MAX_BUFFERED_BYTES: Final = 2 * MAX_LINE_BYTES
"""More than this unread: the face is behind, its patches are dropped and its requests not read."""

MAX_KIND_CHARS: Final = 40


@dataclass(frozen=True, slots=True)
class LinkContext:
    """What all links of one server share."""

    token: str
    pid: int
    handler: Handler
    publisher: StatePublisher
    joined: Callable[[Face], None]
    left: Callable[[Face], None]


class FaceLink:
    """Serves one connection. `run` returns when the link has ended and its transport is closed."""

    def __init__(
        self, face_id: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: LinkContext
    ) -> None:
        self._face_id = face_id
        self._reader = reader
        self._writer = writer
        self._context = context
        self._lagging = asyncio.Event()
        self._slots = asyncio.Semaphore(MAX_REQUESTS_IN_FLIGHT)

    async def run(self) -> None:
        """Greet, serve until the face leaves, close."""
        self._writer.transport.set_write_buffer_limits(high=MAX_BUFFERED_BYTES)
        try:
            hello = await self._greeting()
            if hello is not None:
                await self._serve(hello)
        except ControlError as refusal:
            self._refuse(refusal)
        finally:
            await self._close()

    async def turn_away(self, refusal: ControlError) -> None:
        """Say why and close, without reading anything."""
        self._refuse(refusal)
        await self._close()

    # Sink of the publisher

    def deliver(self, message: SnapshotMessage | Patch) -> None:
        """Buffer a message of the state stream."""
        try:
            self._send(message)
        except LineTooLong:
            log.exception("the state does not fit a line; closing face %d", self._face_id)
            self._writer.transport.abort()

    def behind(self) -> bool:
        """Whether the face reads too slowly to be sent patches."""
        if self._writer.transport.get_write_buffer_size() <= MAX_BUFFERED_BYTES:
            return False
        self._lagging.set()
        return True

    # The link

    async def _greeting(self) -> Hello | None:
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                line = await self._line()
        except TimeoutError:
            raise ControlError(ErrorCode.BAD_REQUEST, detail="no hello came in time") from None
        if line is None:
            return None
        hello = _parsed(line)
        if not isinstance(hello, Hello):
            raise ControlError(ErrorCode.BAD_REQUEST, detail="the first line must be a hello")
        if not token_matches(self._context.token, hello.token):
            raise ControlError(ErrorCode.BAD_TOKEN)
        if hello.contract_version != CONTRACT_VERSION:
            raise ControlError(ErrorCode.VERSION_MISMATCH, engine=CONTRACT_VERSION, face=hello.contract_version)
        return hello

    async def _serve(self, hello: Hello) -> None:
        kind = "".join(letter for letter in hello.face if letter.isprintable())[:MAX_KIND_CHARS]
        face = Face(face_id=self._face_id, kind=kind, wants_samples=hello.wants_samples, pid=hello.pid)
        publisher = self._context.publisher
        self._send(Welcome(contract_version=CONTRACT_VERSION, engine_version=PRODUCT_VERSION, pid=self._context.pid))
        subscription = publisher.subscribe(self) if hello.subscribe else None
        self._context.joined(face)
        try:
            async with TaskOwner(f"face {face.face_id}") as tasks:
                if subscription is not None:
                    tasks.spawn("resync", self._resync(subscription))
                await self._read(face, tasks)
        finally:
            if subscription is not None:
                subscription.close()
            self._context.left(face)

    async def _read(self, face: Face, tasks: TaskOwner) -> None:
        """Requests until the face closes its end; what it asked for by then is still carried out."""
        while (line := await self._line()) is not None:
            request = _parsed(line)
            if not isinstance(request, Request):
                raise ControlError(ErrorCode.BAD_REQUEST, detail="a second hello")
            await self._slots.acquire()
            tasks.spawn(f"request {request.id}", self._answer(request, face))
            with contextlib.suppress(ConnectionError):
                await self._writer.drain()
        for _ in range(MAX_REQUESTS_IN_FLIGHT):
            await self._slots.acquire()

    async def _answer(self, request: Request, face: Face) -> None:
        publisher, handler = self._context.publisher, self._context.handler
        try:
            self._send(await outcome(request, face, handler, lambda: publisher.state))
        finally:
            self._slots.release()

    async def _resync(self, subscription: Subscription) -> None:
        """Wait until a face that was behind has read its fill, then bring it up to date."""
        with contextlib.suppress(ConnectionError):
            while True:
                await self._lagging.wait()
                await self._writer.drain()
                self._lagging.clear()
                self._context.publisher.resync(subscription)

    async def _line(self) -> bytes | None:
        """The next line, or None when the face is gone."""
        try:
            return await self._reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        except asyncio.LimitOverrunError:
            raise ControlError(ErrorCode.BAD_REQUEST, detail=f"a line is longer than {MAX_LINE_BYTES} bytes") from None

    def _refuse(self, refusal: ControlError) -> None:
        log.info("face %d refused: %s", self._face_id, refusal)
        self._send(Refused(error=ErrorBody(code=refusal.code, params=refusal.params)))

    def _send(self, message: EngineMessage) -> None:
        line = encode(message)
        if not self._writer.transport.is_closing():
            self._writer.write(line)

    async def _close(self) -> None:
        """Let what was said reach the face, but not for long."""
        self._writer.close()
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self._writer.wait_closed()
        except OSError:  # TimeoutError is one
            self._writer.transport.abort()


def _parsed(line: bytes) -> Hello | Request:
    try:
        return decode_face(line)
    except (BadLine, LineTooLong) as error:
        raise ControlError(ErrorCode.BAD_REQUEST, detail=str(error)) from error
