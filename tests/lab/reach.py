"""What STUN servers tell a home's computer of its routers: `python -m tests.lab.reach ICE_SERVERS_JSON`, one line."""

import asyncio
import sys

import msgspec

from engine.signaling.messages import IceServer
from engine.transport.reachability import mapping_of, observe

if __name__ == "__main__":
    servers = msgspec.json.decode(sys.argv[1], type=tuple[IceServer, ...])
    sys.stdout.write(f"{mapping_of(asyncio.run(observe(servers)))}\n")
