"""The engine's end of the local link. Spec: docs/specs/control.md."""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Final, Self

from engine.contract.errors import ControlError, ErrorCode
from engine.contract.version import CONTRACT_VERSION, PRODUCT_VERSION
from engine.control.dispatch import Face, Handler
from engine.control.endpoint import Endpoint, remove_endpoint, write_endpoint
from engine.control.link import FaceLink, LinkContext
from engine.control.listener import Listener
from engine.control.local import listen
from engine.control.publisher import StatePublisher
from engine.core.errors import UserError
from engine.core.paths import Paths
from engine.core.tasks import TaskOwner

log = logging.getLogger(__name__)

MAX_FACES: Final = 16


class ControlServer:
    """Lets faces in, gives them the state tree, carries their requests to `handler`.

    The caller holds the profile's `EngineLock` from before `start` until after `close`. `on_faces` is told, without
    delay, who is connected whenever that changes.
    """

    def __init__(
        self,
        paths: Paths,
        token: str,
        handler: Handler,
        publisher: StatePublisher,
        *,
        started_at: float,
        on_faces: Callable[[tuple[Face, ...]], None] | None = None,
    ) -> None:
        self._paths = paths
        self._token = token
        self._started_at = started_at
        self._on_faces = on_faces
        self._context = LinkContext(
            token=token,
            pid=os.getpid(),
            handler=handler,
            publisher=publisher,
            joined=self._joined,
            left=self._left,
        )
        self._faces: dict[int, Face] = {}
        self._links = TaskOwner("control", on_failure=_link_failed)
        self._listener: Listener | None = None
        self._count = 0

    @property
    def faces(self) -> tuple[Face, ...]:
        """Who is connected and was let in."""
        return tuple(self._faces.values())

    async def start(self) -> Endpoint:
        """Listen, then announce the engine in the endpoint file.

        Raises:
            UserError: the socket or the file cannot be made; nothing is left listening.
        """
        self._listener = await listen(self._paths, self._on_link)
        endpoint = Endpoint(
            kind=self._listener.kind,
            address=self._listener.address,
            pid=self._context.pid,
            started_at=self._started_at,
            token=self._token,
            contract_version=CONTRACT_VERSION,
            engine_version=PRODUCT_VERSION,
        )
        try:
            write_endpoint(self._paths, endpoint)
        except UserError:
            await self.close()
            raise
        return endpoint

    async def close(self) -> None:
        """Take back the announcement, let replies that are on their way out reach their faces, end all links.

        Safe to repeat.
        """
        remove_endpoint(self._paths, self._token)
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.close()
        await self._links.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _on_link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count += 1
        link = FaceLink(self._count, reader, writer, self._context)
        if len(self._links) >= MAX_FACES:
            refusal = ControlError(ErrorCode.BAD_REQUEST, detail=f"{MAX_FACES} windows are connected already")
            work = link.turn_away(refusal)
        else:
            work = link.run()
        try:
            self._links.spawn(f"link {self._count}", work)
        except RuntimeError:  # closing: the link came in the last moment
            writer.transport.abort()

    def _joined(self, face: Face) -> None:
        log.info("face %d (%s) connected", face.face_id, face.kind)
        self._faces[face.face_id] = face
        self._tell()

    def _left(self, face: Face) -> None:
        log.info("face %d (%s) left", face.face_id, face.kind)
        self._faces.pop(face.face_id, None)
        self._tell()

    def _tell(self) -> None:
        if self._on_faces is not None:
            self._on_faces(self.faces)


def _link_failed(name: str, error: BaseException) -> None:
    log.error("%s failed", name, exc_info=error)
