"""The conversation with a compositor, byte by byte; with a real one in the integration tests."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.hardware.wayland_idle import EXT, KDE, LISTED, REGISTRY, IdleClient, Refused, message, string

NOTIFIER = {"ext 1": (EXT, 1), "ext 2": (EXT, 2), "ext 9": (EXT, 9), "kde": (KDE, 1)}


def offer(name: int, interface: str, version: int) -> bytes:
    return message(REGISTRY, 0, struct.pack("=I", name) + string(interface) + struct.pack("=I", version))


DONE = message(LISTED, 0, struct.pack("=I", 0))


def requests_in(data: bytes) -> list[tuple[int, int, bytes]]:
    found = []
    while data:
        target, word = struct.unpack_from("=II", data)
        found.append((target, word & 0xFFFF, data[8 : word >> 16]))
        data = data[word >> 16 :]
    return found


def ready_client(interface: str, version: int, seats: int = 1) -> IdleClient:
    client = IdleClient()
    client.outgoing.clear()
    offers = b"".join(offer(10 + number, "wl_seat", 8) for number in range(seats))
    client.receive(offer(1, "wl_shm", 1) + offers + offer(3, interface, version) + DONE, 0.0)
    assert client.ready
    return client


@pytest.mark.parametrize(
    ("kind", "bound", "opcode", "arguments"),
    [
        ("ext 1", 1, 1, (6, 1000, 5)),
        ("ext 2", 2, 2, (6, 1000, 5)),  # of hands, not of films that keep the screen on
        ("ext 9", 2, 2, (6, 1000, 5)),
        ("kde", 1, 0, (6, 5, 1000)),
    ],
)
def test_what_is_asked(kind: str, bound: int, opcode: int, arguments: tuple[int, ...]) -> None:
    interface, version = NOTIFIER[kind]
    client = ready_client(interface, version)
    bind_notifier, bind_seat, ask = requests_in(bytes(client.outgoing))
    assert bind_notifier == (
        REGISTRY, 0, struct.pack("=I", 3) + string(interface) + struct.pack("=II", bound, 4)
    )  # fmt: skip
    assert bind_seat == (REGISTRY, 0, struct.pack("=I", 10) + string("wl_seat") + struct.pack("=II", 1, 5))
    assert ask == (4, opcode, struct.pack("=III", *arguments))


def test_idle_and_back() -> None:
    client = ready_client(EXT, 1)
    assert client.idle_milliseconds(5.0) == 0
    client.receive(message(6, 0, b""), 10.0)
    assert client.idle_milliseconds(10.0) == 1000
    assert client.idle_milliseconds(70.0) == 61_000
    client.receive(message(6, 1, b""), 80.0)
    assert client.idle_milliseconds(80.0) == 0


def test_of_two_seats_the_one_in_use_counts() -> None:
    client = ready_client(EXT, 1, seats=2)
    client.receive(message(6, 0, b""), 10.0)
    assert client.idle_milliseconds(20.0) == 0
    client.receive(message(8, 0, b""), 15.0)
    assert client.idle_milliseconds(20.0) == 6000


@pytest.mark.parametrize("offers", [[("wl_seat", 1)], [(EXT, 1)], []])
def test_a_compositor_without_it(offers: list[tuple[str, int]]) -> None:
    client = IdleClient()
    data = b"".join(offer(number, *one) for number, one in enumerate(offers))
    with pytest.raises(Refused, match="no notifier or no seat"):
        client.receive(data + DONE, 0.0)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("=II", 1, 4 << 16),  # shorter than its header
        message(1, 0, struct.pack("=II", 3, 1) + string("invalid object")),
        message(REGISTRY, 0, b"\1"),
        message(REGISTRY, 0, struct.pack("=II", 1, 2**31)),
        message(REGISTRY, 0, struct.pack("=II", 1, 3) + b"\xff\xff\0\0" + struct.pack("=I", 1)),
    ],
)
def test_nonsense_is_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        IdleClient().receive(data, 0.0)


@given(st.binary(max_size=200), st.integers(1, 40))
def test_any_bytes_are_read_or_refused(data: bytes, size: int) -> None:
    client = IdleClient()
    try:
        for start in range(0, len(data), size):
            client.receive(data[start : start + size], 0.0)
    except Refused:
        return
    assert not client.ready


@given(st.integers(1, 60))
def test_messages_may_arrive_in_pieces(size: int) -> None:
    client = IdleClient()
    data = offer(2, "wl_seat", 1) + offer(3, EXT, 1) + DONE + message(6, 0, b"")
    for start in range(0, len(data), size):
        client.receive(data[start : start + size], 10.0)
    assert client.idle_milliseconds(11.0) == 2000
