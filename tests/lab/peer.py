"""One home's computer: the engine's own network, introduced through the lab's hub.

`python -m tests.lab.peer NUMBER COMMAND [SECONDS]`; every line of standard output is JSON. Commands: `meet` ends when a
message went there and back; `send` sends bulk for SECONDS; `take` takes it; both tell the rate. Ends with its parent.
"""

import asyncio
import contextlib
import hashlib
import os
import sys
import time
from typing import Any, Final

import aiohttp
import msgspec

from engine.hub.client import HubClient
from engine.hub.errors import HubError
from engine.identity.keys import Identity
from engine.manifest.verify import open_signed
from engine.signaling.client import HubRoom
from engine.transport.base import Lane, LinkClosed, LinkDown, LinkUp, NetworkEvent, Received
from engine.transport.webrtc import WebRtcConfig, WebRtcNetwork
from tests.helpers.hub_samples import sealed
from tests.lab.hub import HUB_URL

MESSAGE_BYTES: Final = 256 * 1024
CONFIG: Final = (
    WebRtcConfig(max_lanes=1, delay_target_seconds=None) if os.environ.get("POTLUCK_LAB_PLAIN") else WebRtcConfig()
)


def told(event: str, **more: Any) -> None:
    """A line for the lab."""
    sys.stdout.write(msgspec.json.encode({"event": event, "at": time.time(), **more}).decode() + "\n")
    sys.stdout.flush()


def identity(number: int) -> Identity:
    """The same in every run."""
    return Identity.from_private_bytes(hashlib.sha256(f"lab {number}".encode()).digest())


async def main(number: int, command: str, seconds: float) -> None:
    """Until the command is done or standard input ends."""
    me, publisher = identity(number), identity(1000)
    project = sealed(publisher, name="lab")
    verified = open_signed(project)
    async with aiohttp.ClientSession() as http:
        with contextlib.suppress(HubError):  # another home published it first
            await HubClient(HUB_URL, publisher, http).publish(project)
        room = HubRoom(HUB_URL, verified.project_id, me, http)
        network = WebRtcNetwork(me, verified.manifest_hash, room, CONFIG)
        began = time.monotonic()
        await room.start()
        await network.start()
        told("start")
        work = asyncio.create_task(_work(network, command, seconds, began))
        parent = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        await asyncio.wait({work, parent}, return_when=asyncio.FIRST_COMPLETED)
        work.cancel()
        await asyncio.wait({work})
        await network.close()
        if not work.cancelled():
            work.result()
    told("end", cpu_seconds=round(time.process_time(), 3))


async def _work(network: WebRtcNetwork, command: str, seconds: float, began: float) -> None:
    sender: asyncio.Task[None] | None = None
    try:
        async for event in network.events():
            if isinstance(event, LinkUp):
                told("up", path=event.path.value, seconds=round(time.monotonic() - began, 3))
                if sender is None and command in ("meet", "send"):
                    sender = asyncio.create_task(_send(network, event.peer_id, command, seconds))
            elif isinstance(event, LinkDown):
                told("down", reason=event.reason, code=str(event.code), lost=len(event.lost))
            elif await _received(network, event, command):
                return
    finally:
        if sender is not None:
            sender.cancel()


_taken: dict[str, float] = {"bytes": 0, "since": 0.0}


async def _received(network: WebRtcNetwork, event: NetworkEvent, command: str) -> bool:
    """Whether the command is done."""
    if not isinstance(event, Received):
        return False
    if event.message.startswith(b"hello"):
        with contextlib.suppress(LinkClosed):
            await network.send(event.peer_id, Lane.CONTROL, b"again" + event.message[5:])
        return False
    if event.message.startswith(b"again"):
        told("met")
        return command == "meet"
    if event.message == b"done":
        told("done")
        return True
    now = time.monotonic()
    _taken["bytes"] += len(event.message)
    if not _taken["since"]:
        _taken["since"] = now
        _taken["bytes"] = 0
    elif now - _taken["since"] > 0.0:
        told("taken", bytes=_taken["bytes"], seconds=round(now - _taken["since"], 3))
    return False


async def _send(network: WebRtcNetwork, peer: str, command: str, seconds: float) -> None:
    with contextlib.suppress(LinkClosed):
        await network.send(peer, Lane.CONTROL, b"hello there")
        if command == "meet":
            return
        message, until = b"\x5a" * MESSAGE_BYTES, time.monotonic() + seconds
        while time.monotonic() < until:
            await network.send(peer, Lane.BULK, message)
        stats = network.stats(peer)
        if stats is not None:
            told("stats", lanes=stats.lanes, loss=stats.loss, queue=stats.queue_seconds, rtt=stats.round_trip_seconds)
        await network.send(peer, Lane.BULK, b"done")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 0.0))
