"""A home's computer that stays: `python -m tests.lab.stayer NUMBER [rubbish] [hidden]`. Output is JSON lines.

It keeps links to whoever is in the room, sends 64 KiB of bulk over each twice a second, and tells each change of a link
and, once a second, its memory. With `rubbish` it sends what is no frame, as fast as the line takes it, with
`hidden` it lets nobody see its address; lines `hide` and `show` to it alter that. Ends with its parent.
"""

import asyncio
import contextlib
import os
import sys
from typing import Final

import aiohttp
import psutil

from engine.core.tasks import TaskOwner
from engine.hub.client import HubClient
from engine.hub.errors import HubError
from engine.manifest.verify import open_signed
from engine.signaling.client import HubRoom
from engine.signaling.sdp import parse_sdp
from engine.transport.association import BULK
from engine.transport.base import LinkDown, LinkUp, NetworkEvent
from engine.transport.config import WebRtcConfig
from engine.transport.link import Link
from engine.wire.messages import LineProbe
from tests.helpers.hub_samples import sealed
from tests.helpers.mesh_node import MeshNode
from tests.lab.hub import HUB_URL
from tests.lab.peer import identity, told

BULK_BYTES: Final = 64 * 1024
RUBBISH_BYTES: Final = 16 * 1024
RUBBISH_BUFFER_BYTES: Final = 256 * 1024
NAMES: Final = {identity(number).peer_id: number for number in range(8)}


def tell_event(event: NetworkEvent) -> None:
    """A line for a link that came or went."""
    if isinstance(event, LinkUp):
        told("up", peer=NAMES[event.peer_id], path=str(event.path))
    elif isinstance(event, LinkDown):
        lost = sum(lost.total_bytes for lost in event.lost)
        told("down", peer=NAMES[event.peer_id], code=str(event.code), reason=event.reason, lost_bytes=lost)


async def main(number: int, *, rubbish: bool, hidden: bool) -> None:
    """Until standard input ends."""
    me, publisher = identity(number), identity(1000)
    project = sealed(publisher, name="lab")
    verified = open_signed(project)
    async with aiohttp.ClientSession() as http, TaskOwner("stayer", close_seconds=20.0) as tasks:
        with contextlib.suppress(HubError):  # another home published it first
            await HubClient(HUB_URL, publisher, http).publish(project)
        room = HubRoom(HUB_URL, verified.project_id, me, http)
        node = MeshNode(me, verified.manifest_hash, room, WebRtcConfig(), tasks, on_event=tell_event)
        node.network.set_relay_only(hidden)
        _tell_addresses(node)
        told("start")
        tasks.spawn("node", node.run())
        tasks.spawn("traffic", _rubbish(node) if rubbish else _traffic(node))
        tasks.spawn("memory", _tell_memory(node))
        while order := await asyncio.to_thread(sys.stdin.readline):
            node.network.set_relay_only(order.strip() == "hide")
        await node.network.close()
    told("end")


def _tell_addresses(node: MeshNode) -> None:
    """A line for each session description that leaves this computer: the addresses in it."""
    pass_on = node.network.link_has_sdp

    def tell(link: Link, sdp: str) -> None:
        told("sdp", hosts=sorted({candidate.host for candidate in parse_sdp(sdp).candidates}), text=sdp)
        pass_on(link, sdp)

    node.network.link_has_sdp = tell  # type: ignore[method-assign]


async def _traffic(node: MeshNode) -> None:
    while True:
        await asyncio.sleep(0.5)
        node.tell()
        for peer in node.ready():
            node.peers.send(peer, LineProbe(payload=os.urandom(BULK_BYTES)))


async def _rubbish(node: MeshNode) -> None:
    sent = 0
    while True:
        await asyncio.sleep(0.002)
        for link in list(node.network._up.values()):
            first = link._first
            channel = first.channels[BULK] if first is not None else None
            while (
                channel is not None and channel.readyState == "open" and channel.bufferedAmount < RUBBISH_BUFFER_BYTES
            ):
                channel.send(os.urandom(RUBBISH_BYTES))
                sent += RUBBISH_BYTES


async def _tell_memory(node: MeshNode) -> None:
    process = psutil.Process()
    while True:
        await asyncio.sleep(1.0)
        links = sorted(NAMES[peer] for peer in node.ready())
        cpu = process.cpu_times()
        line = node.network.line()
        told(
            "tick",
            rss=process.memory_info().rss,
            cpu=cpu.user + cpu.system,
            links=links,
            received=node.network.traffic().received_bytes + node.network.traffic().local_received_bytes,
            upload=line.upload_bytes_per_second,
        )


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), rubbish="rubbish" in sys.argv[2:], hidden="hidden" in sys.argv[2:]))
