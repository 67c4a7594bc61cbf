import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.signaling.memory import MemoryRendezvous
from engine.signaling.mesh import MeshPresence, MeshRoom
from engine.signaling.messages import MAX_ROOM_PAYLOAD_BYTES, IceServer
from engine.signaling.neighbours import (
    CARRIED_BURST_SECONDS,
    CARRIED_PER_SECOND,
    MAX_NEIGHBOURS,
    MAX_NEW_FROM_ONE,
    Neighbours,
)
from engine.signaling.room import (
    Envelope,
    PeerAbsent,
    PeerPresent,
    RoomEvent,
    RoomJoined,
    RoomLost,
    RoomUnavailable,
)
from engine.wire.messages import MAX_MEMBERS, MAX_PASSED_ON_BYTES
from tests.helpers.introductions import identities

ANN, BEN, CLEO, DAN = (identity.peer_id for identity in identities(4))
SERVERS = (IceServer(urls=("stun:198.51.100.1",)),)


def test_limits_of_two_layers_agree() -> None:
    assert MAX_PASSED_ON_BYTES == MAX_ROOM_PAYLOAD_BYTES
    assert MAX_NEIGHBOURS == MAX_MEMBERS


def linked(*peers: str) -> Neighbours:
    neighbours = Neighbours(ANN)
    for peer in peers:
        neighbours.on_link(peer, 0.0)
    return neighbours


def test_neighbours_and_theirs_are_within_reach() -> None:
    neighbours = linked(BEN)
    neighbours.on_told(BEN, (ANN, CLEO))
    assert neighbours.within_reach() == {BEN, CLEO}
    assert neighbours.carriers(CLEO) == (BEN,)
    assert neighbours.carriers(BEN) == (BEN,)
    assert neighbours.mine() == (BEN,)


def test_what_a_lost_neighbour_told_is_void() -> None:
    neighbours = linked(BEN)
    neighbours.on_told(BEN, (CLEO,))
    neighbours.on_link_lost(BEN)
    neighbours.on_told(BEN, (DAN,))
    assert neighbours.within_reach() == frozenset()
    assert neighbours.carriers(CLEO) == ()


def test_one_neighbour_cannot_invent_a_crowd() -> None:
    invented = tuple(f"{number:052d}" for number in range(500))
    neighbours = linked(BEN, CLEO)
    neighbours.on_told(BEN, invented)
    assert len(neighbours.within_reach()) == 2 + MAX_NEW_FROM_ONE
    neighbours.on_told(CLEO, invented)
    assert len(neighbours.within_reach()) == 2 + MAX_NEIGHBOURS


def test_passing_on_is_for_neighbours_of_both_and_has_a_budget() -> None:
    neighbours = linked(BEN, CLEO)
    assert neighbours.may_carry(BEN, DAN, 0.0) == "no link to that peer"
    assert neighbours.may_carry(DAN, BEN, 0.0) == "no link to that peer"
    assert neighbours.may_carry(BEN, BEN, 0.0) == "no link to that peer"
    burst = int(CARRIED_PER_SECOND * CARRIED_BURST_SECONDS)
    assert [neighbours.may_carry(BEN, CLEO, 0.0) for _ in range(burst)] == [""] * burst
    assert "a second" in neighbours.may_carry(BEN, CLEO, 0.0)
    assert neighbours.may_carry(CLEO, BEN, 0.0) == ""
    assert neighbours.may_carry(BEN, CLEO, 10.0) == ""


def test_the_hub_is_away_and_neighbours_stand_in() -> None:
    presence = MeshPresence()
    assert presence.on_hub(RoomJoined((BEN,), SERVERS)) == [RoomJoined((BEN,), SERVERS)]
    assert presence.on_reach(frozenset({BEN})) == []
    assert presence.on_hub(RoomLost("it went away")) == []
    assert not presence.in_hub(BEN)
    assert presence.on_reach(frozenset({BEN, CLEO})) == [PeerPresent(CLEO)]
    assert presence.on_reach(frozenset({CLEO})) == [PeerAbsent(BEN)]
    assert presence.on_reach(frozenset()) == [RoomLost("it went away")]
    assert presence.on_reach(frozenset({DAN})) == [RoomJoined((DAN,), SERVERS)]
    back = presence.on_hub(RoomJoined((BEN,), ()))
    assert back == [RoomJoined(tuple(sorted((BEN, DAN))), ())]


def test_who_came_anew_is_told_although_it_was_there() -> None:
    presence = MeshPresence()
    presence.on_hub(RoomJoined((BEN,)))
    assert presence.on_hub(PeerPresent(BEN)) == [PeerPresent(BEN)]
    assert presence.on_hub(PeerAbsent(BEN)) == [PeerAbsent(BEN)]
    assert presence.on_hub(Envelope(BEN, b"x")) == [Envelope(BEN, b"x")]


def test_news_of_a_room_that_was_never_entered_is_passed_over() -> None:
    presence = MeshPresence()
    assert presence.on_hub(PeerPresent(BEN)) == []
    assert presence.on_hub(RoomLost("no hub")) == []


steps = st.one_of(
    st.frozensets(st.sampled_from([BEN, CLEO, DAN])),
    st.sampled_from([BEN, CLEO, DAN]).map(PeerPresent),
    st.sampled_from([BEN, CLEO, DAN]).map(PeerAbsent),
    st.frozensets(st.sampled_from([BEN, CLEO, DAN])).map(lambda peers: RoomJoined(tuple(sorted(peers)))),
    st.just(RoomLost("lost")),
)


@given(st.lists(steps, max_size=30))
def test_what_is_told_adds_up_to_what_is(events: list[frozenset[str] | RoomEvent]) -> None:
    presence = MeshPresence()
    hub: set[str] | None = None
    reach: frozenset[str] = frozenset()
    believed: set[str] | None = None
    for event in events:
        told = presence.on_reach(event) if isinstance(event, frozenset) else presence.on_hub(event)
        match event:
            case frozenset():
                reach = event
            case RoomJoined(peers=peers):
                hub = set(peers)
            case PeerPresent(peer_id=peer) if hub is not None:
                hub.add(peer)
            case PeerAbsent(peer_id=peer) if hub is not None:
                hub.discard(peer)
            case RoomLost():
                hub = None
            case _:
                pass
        for news in told:
            match news:
                case RoomJoined(peers=peers):
                    believed = set(peers)
                case PeerPresent(peer_id=peer):
                    assert believed is not None
                    believed.add(peer)
                case PeerAbsent(peer_id=peer):
                    assert believed is not None
                    believed.remove(peer)
                case RoomLost():
                    believed = None
                case _:
                    pass
        assert believed == (None if hub is None and not reach else (hub or set()) | reach)


@pytest.fixture
async def room() -> AsyncIterator[tuple[MeshRoom, MemoryRendezvous]]:
    rendezvous = MemoryRendezvous()
    mesh = MeshRoom(rendezvous.room(ANN), ANN, lambda: 0.0)
    yield mesh, rendezvous
    await mesh.close()


async def test_the_hub_carries_while_it_can(room: tuple[MeshRoom, MemoryRendezvous]) -> None:
    mesh, rendezvous = room
    ben = rendezvous.room(BEN)
    await mesh.start()
    events = mesh.events()
    async with asyncio.timeout(10):
        assert await anext(events) == RoomJoined(())
        assert await anext(events) == PeerPresent(BEN)
        carried: list[tuple[str, str, bytes]] = []
        mesh.carry = lambda via, to, payload: carried.append((via, to, payload))
        await mesh.send(BEN, b"by the hub")
        assert rendezvous.carried == [(ANN, BEN, b"by the hub")]
        with pytest.raises(RoomUnavailable):
            await mesh.send(CLEO, b"x")
        mesh.on_link(BEN)
        mesh.on_told(BEN, (CLEO,))
        assert await anext(events) == PeerPresent(CLEO)
        await mesh.send(CLEO, b"by Ben")
        rendezvous.cut(ANN)
        await mesh.send(BEN, b"over the link")
        assert carried == [(BEN, CLEO, b"by Ben"), (BEN, BEN, b"over the link")]
        mesh.on_payload(CLEO, b"answer")
        assert await anext(events) == Envelope(CLEO, b"answer")
        mesh.on_link_lost(BEN)
        assert await anext(events) == PeerAbsent(CLEO)
        assert await anext(events) == RoomLost("cut")
    await ben.close()
