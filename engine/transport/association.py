"""One RTCPeerConnection with the data channels both ends agree on: a link's first association or a further lane."""

import asyncio
import logging
from typing import Final, Protocol

from aiortc import RTCDataChannel, RTCPeerConnection, RTCSessionDescription

from engine.signaling.messages import IceServer
from engine.signaling.sdp import Transport, reachable, render
from engine.transport.addresses import base_address_of
from engine.transport.base import PathKind
from engine.transport.config import WebRtcConfig
from engine.transport.ice import configuration, gathering, path_of
from engine.transport.library import Undelivered, undelivered, widen_receive_buffers, wire_bytes

log = logging.getLogger(__name__)

CONTROL, BULK, LINE = 0, 1, 2
"""Channel ids. The line channel carries probes and reports; it neither keeps order nor repeats."""
CHANNEL_LABELS: Final = ("control", "bulk", "line")


class AssociationOwner(Protocol):
    """What an association tells; called from the event loop."""

    def association_is_open(self, association: "Association") -> None: ...

    def association_received(self, association: "Association", channel: int, data: bytes | str) -> None: ...

    def association_ended(self, association: "Association", reason: str, *, by_peer: bool) -> None: ...

    def association_met_strange_channel(self, association: "Association") -> None: ...


class Association:
    """Lane `number` of a link. Made inside the event loop; ends by `dispose`, which its owner awaits."""

    def __init__(
        self,
        number: int,
        channels: tuple[int, ...],
        owner: AssociationOwner,
        config: WebRtcConfig,
        servers: tuple[IceServer, ...],
    ) -> None:
        self.number = number
        self._owner = owner
        self._config = config
        self.opened = asyncio.Event()
        self._last_wire_bytes = (0, 0)
        self._closing: asyncio.Future[None] | None = None
        self._connection: RTCPeerConnection | None = RTCPeerConnection(
            configuration(servers, relay_only=config.relay_only)
        )
        self._connection.on("connectionstatechange", self._on_state)
        self._connection.on("datachannel", lambda channel: owner.association_met_strange_channel(self))
        self.channels: dict[int, RTCDataChannel] = {place: self._add_channel(place) for place in channels}

    async def offer(self) -> str:
        """This end's session description, to be answered."""
        connection = self._living()
        with gathering(loopback_only=self._config.loopback_only):
            await connection.setLocalDescription(await connection.createOffer())
        widen_receive_buffers(connection)
        return str(connection.localDescription.sdp)

    async def use_answer(self, answer: Transport) -> None:
        """The peer's answer to `offer`."""
        await self._living().setRemoteDescription(RTCSessionDescription(self._render(answer), "answer"))

    async def answer(self, offer: Transport) -> str:
        """This end's session description in answer to the peer's."""
        connection = self._living()
        await connection.setRemoteDescription(RTCSessionDescription(self._render(offer), "offer"))
        with gathering(loopback_only=self._config.loopback_only):
            await connection.setLocalDescription(await connection.createAnswer())
        widen_receive_buffers(connection)
        return str(connection.localDescription.sdp)

    @property
    def is_open(self) -> bool:
        """Whether all channels can be sent on."""
        return self.opened.is_set() and all(channel.readyState == "open" for channel in self.channels.values())

    @property
    def path(self) -> PathKind:
        """Which way packets go, once open."""
        return path_of(self._connection) if self._connection is not None else PathKind.DIRECT

    @property
    def base_address(self) -> str:
        """The address of this computer that packets leave from; empty over a relay."""
        return base_address_of(self._connection) if self._connection is not None else ""

    def undelivered(self) -> Undelivered:
        """What the peer makes this association hold."""
        return undelivered(self._connection) if self._connection is not None else Undelivered(0, 0)

    def wire_bytes(self) -> tuple[int, int]:
        """Bytes sent and received, headers included; keeps the last figures after `dispose`."""
        if self._connection is not None:
            self._last_wire_bytes = wire_bytes(self._connection)
        return self._last_wire_bytes

    async def dispose(self) -> None:
        """Close. Safe to repeat."""
        self.wire_bytes()
        connection, self._connection = self._connection, None
        if connection is None:
            return
        # aiortc closes on its own too when the peer does; to cancel one call to `close` would break the other.
        closing = self._closing = asyncio.ensure_future(connection.close())
        await asyncio.wait({closing}, timeout=self._config.close_timeout_seconds)
        if not closing.done():
            log.info("association %d did not close in time", self.number)
        else:
            closing.result()

    def _living(self) -> RTCPeerConnection:
        if self._connection is None:
            raise ConnectionError("the association is closed")
        return self._connection

    def _render(self, transport: Transport) -> str:
        return render(transport, reachable(transport.candidates, loopback_only=self._config.loopback_only))

    def _add_channel(self, number: int) -> RTCDataChannel:
        lossy = number == LINE
        channel = self._living().createDataChannel(
            CHANNEL_LABELS[number],
            negotiated=True,
            id=number,
            ordered=not lossy,
            maxRetransmits=0 if lossy else None,
        )
        channel.on("open", self._on_open)
        channel.on("close", lambda: self._end("the other computer closed the connection", by_peer=True))
        channel.on("message", lambda data: self._owner.association_received(self, number, data))
        return channel

    def _on_open(self) -> None:
        if not self.opened.is_set() and all(channel.readyState == "open" for channel in self.channels.values()):
            self.opened.set()
            self._owner.association_is_open(self)

    def _on_state(self) -> None:
        if self._connection is not None and self._connection.connectionState in ("failed", "closed"):
            self._end("the connection failed", by_peer=False)

    def _end(self, reason: str, *, by_peer: bool) -> None:
        self._owner.association_ended(self, reason, by_peer=by_peer)
