"""What servers tell a home's computer of its routers: `python -m tests.lab.reach ICE_SERVERS_JSON`.

One line: the mapping, the relay, and how long it took in milliseconds.
"""

import asyncio
import sys
import time

import msgspec

from engine.signaling.messages import IceServer
from engine.transport.reach_check import check_reachability

if __name__ == "__main__":
    servers = msgspec.json.decode(sys.argv[1], type=tuple[IceServer, ...])
    began = time.monotonic()
    found = asyncio.run(check_reachability(servers))
    sys.stdout.write(f"{found.mapping} {found.relay} {1000 * (time.monotonic() - began):.0f}\n")
