"""A line between two namespaces with a rate, a delay, a buffer and losses: `python -m tests.lab.relay A B JSON`.

Each end is a TUN device `line0`. The kernels at hand have no netem, so packets pass through here: those that find the
buffer full are dropped, as in a home router. Prints "ready", ends with its parent.
"""

import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final

import msgspec

DEVICE: Final = "line0"
ADDRESSES: Final = ("198.18.0.1", "198.18.0.2")  # RFC 2544's range for benchmarks
CLONE_NEWNET: Final = 0x40000000
TUNSETIFF: Final = 0x400454CA
IFF_TUN_NO_PI: Final = 0x0001 | 0x1000
MAX_PACKET: Final = 2048
BATCH: Final = 64
HEADER_BYTES: Final = 14  # of Ethernet, which a line's rate counts


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Both directions alike."""

    bits_per_second: float
    one_way_seconds: float
    buffer_seconds: float = 0.1
    loss: float = 0.0
    seed: int = 1


@dataclass
class Direction:
    """From one device to the other."""

    source: int
    target: int
    shape: Shape
    dice: random.Random
    free_at: float = 0.0  # when the line has sent all that waits
    under_way: deque[tuple[float, bytes]] = field(default_factory=deque)

    def take(self) -> None:
        """Read what came."""
        for _ in range(BATCH):
            try:
                packet = os.read(self.source, MAX_PACKET)
            except BlockingIOError:
                return
            now = time.monotonic()
            begin = max(now, self.free_at)
            if begin - now > self.shape.buffer_seconds:
                continue
            self.free_at = begin + (len(packet) + HEADER_BYTES) * 8 / self.shape.bits_per_second
            if self.dice.random() >= self.shape.loss:
                self.under_way.append((self.free_at + self.shape.one_way_seconds, packet))

    def give(self) -> float | None:
        """Write what is due; seconds until more is, None when nothing is under way."""
        now = time.monotonic()
        while self.under_way and self.under_way[0][0] <= now:
            _, packet = self.under_way.popleft()
            try:
                os.write(self.target, packet)
            except OSError:
                continue  # the device is full or gone: a packet lost
        return self.under_way[0][0] - now if self.under_way else None


def open_device(namespace: str, address: str) -> int:
    """A TUN device in `namespace`; its file descriptor."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}") as target, open("/proc/self/ns/net") as home:
        for place, last in ((target, False), (home, True)):
            if libc.setns(place.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
            if not last:
                device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
                fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH14x", DEVICE.encode(), IFF_TUN_NO_PI))
    for argv in (
        ("addr", "add", f"{address}/24", "dev", DEVICE),
        ("link", "set", DEVICE, "up", "mtu", "1500", "txqueuelen", "2000"),
    ):
        subprocess.run(["ip", "-n", namespace, *argv], check=True)
    return device


def main(first: str, second: str, shape: Shape) -> None:
    """Until standard input ends."""
    devices = [open_device(name, address) for name, address in zip((first, second), ADDRESSES, strict=True)]
    ways = [
        Direction(devices[0], devices[1], shape, random.Random(shape.seed)),
        Direction(devices[1], devices[0], shape, random.Random(shape.seed + 1)),
    ]
    poll = select.epoll()
    for descriptor in (*devices, sys.stdin.fileno()):
        poll.register(descriptor, select.EPOLLIN)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        waits = [wait for way in ways if (wait := way.give()) is not None]
        ready = {descriptor for descriptor, _ in poll.poll(max(0.0, min(waits)) if waits else None)}
        if sys.stdin.fileno() in ready:
            return
        for way in ways:
            if way.source in ready:
                way.take()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], msgspec.json.decode(sys.argv[3], type=Shape))
