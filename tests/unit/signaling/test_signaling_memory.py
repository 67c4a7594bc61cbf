import pytest

from engine.signaling.memory import MemoryRendezvous
from engine.signaling.room import Envelope, PeerAbsent, PeerPresent, RoomJoined, RoomLost, RoomUnavailable


async def test_peers_meet_talk_and_leave() -> None:
    rendezvous = MemoryRendezvous()
    one, two = rendezvous.room("one"), rendezvous.room("two")
    here, there = one.events(), two.events()
    assert await anext(here) == RoomJoined(())
    assert await anext(here) == PeerPresent("two")
    assert await anext(there) == RoomJoined(("one",))
    await one.send("two", b"hello")
    assert await anext(there) == Envelope("one", b"hello")
    await two.close()
    await two.close()
    assert await anext(here) == PeerAbsent("two")
    assert [event async for event in there] == []
    await one.send("two", b"nobody hears this")
    with pytest.raises(RoomUnavailable):
        await two.send("one", b"x")


async def test_a_cut_is_told_and_can_be_mended() -> None:
    rendezvous = MemoryRendezvous()
    one, two = rendezvous.room("one"), rendezvous.room("two")
    here, there = one.events(), two.events()
    for _ in range(2):
        await anext(here)
    await anext(there)
    rendezvous.cut("two")
    assert await anext(here) == PeerAbsent("two")
    assert await anext(there) == RoomLost("cut")
    with pytest.raises(RoomUnavailable):
        await two.send("one", b"x")
    rendezvous.restore(two)
    assert await anext(here) == PeerPresent("two")
    assert await anext(there) == RoomJoined(("one",))


async def test_tampering_and_a_second_visit() -> None:
    rendezvous = MemoryRendezvous()
    one, two = rendezvous.room("one"), rendezvous.room("two")
    there = two.events()
    await anext(there)
    rendezvous.tamper = lambda from_peer, to_peer, payload: None if payload == b"drop" else payload + b"!"
    await one.send("two", b"drop")
    await one.send("two", b"keep")
    assert await anext(there) == Envelope("one", b"keep!")
    again = rendezvous.room("two")
    assert await anext(there) == RoomLost("replaced by another visit")
    await two.close()
    await one.send("two", b"x")
    events = again.events()
    assert await anext(events) == RoomJoined(("one",))
    assert await anext(events) == Envelope("one", b"x!")
