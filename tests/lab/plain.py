"""One data channel of the library as it comes, for comparison: `python -m tests.lab.plain send|take SECONDS`.

Descriptions pass through the parent: each end prints its own as a line and reads the other's. `take` prints a line for
each 256 KiB, as `tests.lab.peer` does; both tell their processor seconds at the end.
"""

import asyncio
import sys
import time
from typing import Any, Final

import msgspec
from aiortc import RTCConfiguration, RTCDataChannel, RTCPeerConnection, RTCSessionDescription

from tests.lab.peer import told

MESSAGE_BYTES: Final = 16 * 1024
BUFFER_BYTES: Final = 1024 * 1024
STEP_BYTES: Final = 256 * 1024


async def read_line() -> dict[str, Any]:
    """What the parent says."""
    return dict(msgspec.json.decode(await asyncio.to_thread(sys.stdin.readline)))


async def send(connection: RTCPeerConnection, channel: RTCDataChannel, seconds: float) -> None:
    """As fast as the library takes it."""
    await connection.setLocalDescription(await connection.createOffer())
    told("description", sdp=connection.localDescription.sdp)
    answer = await read_line()
    await connection.setRemoteDescription(RTCSessionDescription(answer["sdp"], "answer"))
    opened, low = asyncio.Event(), asyncio.Event()
    channel.on("open", opened.set)
    channel.on("bufferedamountlow", low.set)
    channel.bufferedAmountLowThreshold = BUFFER_BYTES // 2
    await opened.wait()
    until, message = time.monotonic() + seconds, b"\x5a" * MESSAGE_BYTES
    while time.monotonic() < until:
        if channel.bufferedAmount > BUFFER_BYTES:
            low.clear()
            await low.wait()
        channel.send(message)


async def take(connection: RTCPeerConnection, channel: RTCDataChannel, seconds: float) -> None:
    """Count what comes."""
    offer = await read_line()
    counted = {"bytes": 0, "told": 0}
    since = 0.0

    def on_message(data: bytes) -> None:
        nonlocal since
        now = time.monotonic()
        since = since or now
        counted["bytes"] += len(data)
        if counted["bytes"] - counted["told"] >= STEP_BYTES and now > since:
            counted["told"] = counted["bytes"]
            told("taken", bytes=counted["bytes"], seconds=round(now - since, 3))

    channel.on("message", on_message)
    await connection.setRemoteDescription(RTCSessionDescription(offer["sdp"], "offer"))
    await connection.setLocalDescription(await connection.createAnswer())
    told("description", sdp=connection.localDescription.sdp)
    await asyncio.sleep(seconds + 3.0)


async def main(command: str, seconds: float) -> None:
    """One end."""
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    channel = connection.createDataChannel("bulk", negotiated=True, id=0)
    await (send if command == "send" else take)(connection, channel, seconds)
    told("end", cpu_seconds=round(time.process_time(), 3))
    await asyncio.to_thread(sys.stdin.read)
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
