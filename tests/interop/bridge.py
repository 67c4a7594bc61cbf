"""Signs and carries a browser's introductions: the hub's room on one side, the page's descriptions on the other."""

import asyncio
import base64
import json
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

from engine.identity.keys import Identity
from engine.signaling.client import HubRoom
from engine.signaling.envelope import EnvelopeChecker, make_answer, make_offer, seal_description
from engine.signaling.messages import OFFER_NONCE_BYTES, Answer, Offer, description_hash
from engine.signaling.room import Envelope, PeerPresent, RoomEvent, RoomJoined
from engine.transport.base import Lane
from tests.interop.browser import PATIENCE_SECONDS, Page


class BrowserPeer:
    """A peer whose link is a browser's and whose key is here. One link at a time."""

    def __init__(self, identity: Identity, run: bytes, room: HubRoom, page: Page) -> None:
        self.id = identity.peer_id
        self.page = page
        self._identity = identity
        self._run = run
        self._room = room
        self._events: AsyncIterator[RoomEvent] = room.events()
        self._checker = EnvelopeChecker(identity.peer_id, run)

    async def meet(self, other: str, *, probes: bool, lane_limit: int = 0, payload_bytes: int = 61_440) -> None:
        """Until the channels to `other` are open in the page. The smaller peer id offers."""
        await self.page.call(f"begin({_js(probes=probes, laneLimit=lane_limit, payloadBytes=payload_bytes)})")
        if self.id < other:
            await self._present(other)
            await self._offer(other)
        else:
            await self._answer(other)
        await self.page.event("open")

    async def send(self, lane: Lane, message: bytes) -> None:
        """Until the page handed all of it to its data channels."""
        await self.page.call(f"link.send({int(lane)}, {json.dumps(base64.b64encode(message).decode())})")

    async def _offer(self, other: str) -> None:
        sdp = await self.page.call("link.first.offer()")
        offer = make_offer(self._identity, other, self._run, _nonce(), sdp, time.time())
        payload, signed = seal_description(offer, self._identity)
        await self._room.send(other, payload)
        answer, _ = await self._description(other)
        assert isinstance(answer, Answer)
        assert answer.offer_hash == description_hash(signed)
        await self.page.call(f"link.first.use({json.dumps(answer.sdp)})")

    async def _answer(self, other: str) -> None:
        offer, offer_hash = await self._description(other)
        assert isinstance(offer, Offer)
        sdp = await self.page.call(f"link.first.answer({json.dumps(offer.sdp)})")
        answer = make_answer(self._identity, offer, offer_hash, _nonce(), sdp, time.time())
        payload, _ = seal_description(answer, self._identity)
        await self._room.send(other, payload)

    async def _present(self, other: str) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for event in self._events:
                here = event.peers if isinstance(event, RoomJoined) else ()
                if other in here or event == PeerPresent(other):
                    return

    async def _description(self, other: str) -> tuple[Any, bytes]:
        """What the other one signed for this peer, and the hash to which an answer refers."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for event in self._events:
                if isinstance(event, Envelope) and event.from_peer == other:
                    opened = self._checker.open(other, event.payload, time.time())
                    return opened.description, opened.payload_hash
        raise AssertionError("the room was closed")


def _nonce() -> bytes:
    return secrets.token_bytes(OFFER_NONCE_BYTES)


def _js(**options: object) -> str:
    return json.dumps(options)
