"""A real hub on the lab's public side: `python -m tests.lab.hub FOLDER [ICE_SERVERS_JSON]`. Ends with its parent."""

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from engine.hub.config import HubConfig, sqlite_url
from engine.hub.server import running_hub
from engine.signaling.messages import IceServer
from tests.lab.topology import SERVER_ADDRESS

HUB_PORT = 8470
HUB_HOST = os.environ.get("POTLUCK_LAB_HUB", SERVER_ADDRESS)
HUB_URL = f"http://{HUB_HOST}:{HUB_PORT}"


async def serve(folder: Path, servers: tuple[IceServer, ...]) -> None:
    """Until standard input ends."""
    config = HubConfig(database_url=sqlite_url(folder / "hub.db"), host=HUB_HOST, port=HUB_PORT, ice_servers=servers)
    async with running_hub(config) as hub:
        sys.stdout.write(hub.url + "\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    told = sys.argv[2] if len(sys.argv) > 2 else "[]"
    asyncio.run(serve(Path(sys.argv[1]), msgspec.json.decode(told, type=tuple[IceServer, ...])))
