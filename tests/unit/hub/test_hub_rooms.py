"""The rules of the rooms, without sockets."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.hub.limits import HubLimits, Rate
from engine.hub.rooms import Deliver, Hangup, RoomAction, Rooms
from engine.signaling.messages import (
    Absent,
    Auth,
    Challenge,
    Delivered,
    IceServer,
    Joined,
    Present,
    Send,
    ToHub,
    encode_room,
)
from tests.helpers.hub_samples import identity

PROJECT, OTHER_PROJECT = "01" * 32, "02" * 32
ANN, BEN, CAT = sorted(identity(number).peer_id for number in range(3))
ICE = (IceServer(urls=("stun:stun.example.org",)),)
GOOD, BAD = b"\x01" * 64, b"\x02" * 64


def rooms(**limits: object) -> Rooms:
    return Rooms(HubLimits(**limits), lambda peer_id: ICE, lambda peer_id, data, signature: signature == GOOD)  # type: ignore[arg-type]


def say(hub: Rooms, connection: int, message: ToHub, now: float = 0.0) -> list[RoomAction]:
    return hub.on_frame(connection, encode_room(message), now)


def enter(hub: Rooms, connection: int, peer_id: str, project: str = PROJECT) -> list[RoomAction]:
    (challenge,) = hub.open(connection, project, "127.0.0.1", b"\x07" * 32, 0.0)
    assert challenge == Deliver(connection, Challenge(nonce=b"\x07" * 32))
    return say(hub, connection, Auth(peer_id=peer_id, signature=GOOD))


def code_of(action: RoomAction) -> str:
    assert isinstance(action, Hangup)
    return action.code


def test_the_challenge_is_bound_to_project_and_nonce() -> None:
    asked: list[tuple[str, bytes, bytes]] = []
    hub = Rooms(HubLimits(), lambda peer_id: (), lambda *question: asked.append(question) is None)
    enter(hub, 1, ANN)
    assert asked == [(ANN, b"potluck room v1\n" + bytes.fromhex(PROJECT) + b"\x07" * 32, GOOD)]


def test_peers_learn_of_each_other() -> None:
    hub = rooms()
    assert enter(hub, 1, BEN) == [Deliver(1, Joined(peers=(), ice_servers=ICE))]
    assert enter(hub, 2, ANN) == [Deliver(2, Joined(peers=(BEN,), ice_servers=ICE)), Deliver(1, Present(peer_id=ANN))]
    assert enter(hub, 3, CAT)[0] == Deliver(3, Joined(peers=(ANN, BEN), ice_servers=ICE))
    assert hub.peers_in(PROJECT) == 3
    assert hub.on_closed(2) == [Deliver(1, Absent(peer_id=ANN)), Deliver(3, Absent(peer_id=ANN))]
    assert hub.on_closed(2) == []
    assert hub.peers_in(PROJECT) == 2


def test_payloads_are_carried_with_the_sender_that_was_proved() -> None:
    hub = rooms()
    enter(hub, 1, ANN)
    enter(hub, 2, BEN)
    assert say(hub, 1, Send(to=BEN, payload=b"hi")) == [Deliver(2, Delivered(from_peer=ANN, payload=b"hi"))]
    assert say(hub, 1, Send(to=CAT, payload=b"hi")) == []
    assert say(hub, 1, Send(to=ANN, payload=b"hi")) == []


def test_rooms_are_apart() -> None:
    hub = rooms()
    enter(hub, 1, ANN)
    assert enter(hub, 2, BEN, OTHER_PROJECT) == [Deliver(2, Joined(peers=(), ice_servers=ICE))]
    assert say(hub, 1, Send(to=BEN, payload=b"hi")) == []
    assert (hub.peers_in(PROJECT), hub.peers_in(OTHER_PROJECT)) == (1, 1)


def test_nothing_is_carried_before_the_challenge_is_answered() -> None:
    hub = rooms()
    enter(hub, 1, BEN)
    hub.open(2, PROJECT, "127.0.0.1", b"\x07" * 32, 0.0)
    (action,) = say(hub, 2, Send(to=BEN, payload=b"hi"))
    assert code_of(action) == "not_authenticated"
    assert hub.on_frame(2, encode_room(Auth(peer_id=ANN, signature=GOOD)), 0.0) == []  # no longer heard
    assert hub.peers_in(PROJECT) == 1


def test_a_bad_signature_closes() -> None:
    hub = rooms()
    hub.open(1, PROJECT, "127.0.0.1", b"\x07" * 32, 0.0)
    (action,) = say(hub, 1, Auth(peer_id=ANN, signature=BAD))
    assert code_of(action) == "bad_signature"
    assert hub.peers_in(PROJECT) == 0


def test_a_second_connection_of_a_peer_replaces_the_first() -> None:
    hub = rooms()
    enter(hub, 1, ANN)
    enter(hub, 2, BEN)
    replaced, joined, present = enter(hub, 3, ANN)
    assert isinstance(replaced, Hangup)
    assert (replaced.connection, replaced.code) == (1, "replaced")
    assert joined == Deliver(3, Joined(peers=(BEN,), ice_servers=ICE))
    assert present == Deliver(2, Present(peer_id=ANN))
    assert hub.on_closed(1) == []  # does not take the new one along
    assert say(hub, 2, Send(to=ANN, payload=b"x")) == [Deliver(3, Delivered(from_peer=BEN, payload=b"x"))]


def test_an_impostor_does_not_replace_anyone() -> None:
    hub = rooms()
    enter(hub, 1, ANN)
    hub.open(2, PROJECT, "127.0.0.1", b"\x07" * 32, 0.0)
    assert [code_of(action) for action in say(hub, 2, Auth(peer_id=ANN, signature=BAD))] == ["bad_signature"]
    assert hub.peers_in(PROJECT) == 1


def test_only_those_who_did_not_answer_are_late() -> None:
    hub = rooms()
    enter(hub, 1, ANN)
    hub.open(2, PROJECT, "127.0.0.1", b"\x07" * 32, 0.0)
    assert hub.on_auth_deadline(1) == []
    assert [code_of(action) for action in hub.on_auth_deadline(2)] == ["auth_timeout"]
    assert hub.on_auth_deadline(2) == []


def test_a_second_auth_closes_and_the_others_hear_it() -> None:
    hub = rooms()
    enter(hub, 1, ANN)
    enter(hub, 2, BEN)
    hangup, absent = say(hub, 1, Auth(peer_id=CAT, signature=GOOD))
    assert code_of(hangup) == "bad_message"
    assert absent == Deliver(2, Absent(peer_id=ANN))


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "{",
        "[]",
        "null",
        '{"type":"challenge","nonce":""}',
        '{"type":"send"}',
        '{"type":"send","to":"../etc","payload":""}',
        "[" * 5000,
        b"\x00\x01",
        "\ud800",
    ],
)
def test_nonsense_closes(frame: str | bytes) -> None:
    hub = rooms()
    enter(hub, 1, ANN)
    (action,) = hub.on_frame(1, frame, 0.0)
    assert code_of(action) == "bad_message"
    assert hub.peers_in(PROJECT) == 0


def test_a_full_room_takes_nobody_but_those_who_come_anew() -> None:
    hub = rooms(max_room_peers=2)
    enter(hub, 1, ANN)
    enter(hub, 2, BEN)
    (action,) = enter(hub, 3, CAT)
    assert code_of(action) == "room_full"
    assert [type(action) for action in enter(hub, 4, ANN)] == [Hangup, Deliver, Deliver]


def test_a_full_hub_opens_no_room() -> None:
    hub = rooms(max_rooms=1)
    enter(hub, 1, ANN)
    assert [code_of(action) for action in enter(hub, 2, ANN, OTHER_PROJECT)] == ["hub_full"]
    hub.on_closed(1)
    assert enter(hub, 3, ANN, OTHER_PROJECT) == [Deliver(3, Joined(peers=(), ice_servers=ICE))]


def test_connections_are_counted_by_address_and_in_all() -> None:
    hub = rooms(max_connections_per_address=2, max_connections=3)
    home, nonce = "2001:db8::1", b"\x07" * 32
    hub.open(1, PROJECT, home, nonce, 0.0)
    hub.open(2, PROJECT, "2001:db8::2", nonce, 0.0)
    (action,) = hub.open(3, PROJECT, "2001:db8::3", nonce, 0.0)
    assert code_of(action) == "too_many_connections"
    hub.on_closed(1)
    hub.open(4, PROJECT, home, nonce, 0.0)
    hub.open(5, PROJECT, "192.0.2.1", nonce, 0.0)
    (action,) = hub.open(6, PROJECT, "192.0.2.2", nonce, 0.0)
    assert code_of(action) == "hub_full"


def test_a_peer_that_floods_is_closed_and_time_heals() -> None:
    hub = rooms(room_messages=Rate(per_second=1.0, burst=3.0))
    enter(hub, 1, ANN)
    nothing = Send(to=BEN, payload=b"")
    assert say(hub, 1, nothing) == say(hub, 1, nothing) == []
    assert say(hub, 1, nothing, now=1.0) == []
    (action,) = say(hub, 1, nothing, now=1.0)
    assert code_of(action) == "rate_limited"


def test_volume_is_limited_as_well() -> None:
    hub = rooms(room_bytes=Rate(per_second=1.0, burst=2000.0))
    enter(hub, 1, ANN)
    (action,) = say(hub, 1, Send(to=BEN, payload=bytes(3000)))
    assert code_of(action) == "rate_limited"


class Crowd:
    """What the peers know by what they were told; used to compare it with what the rooms hold."""

    def __init__(self) -> None:
        self.hub = rooms()
        self.number = 0
        self.connection_of: dict[int, int] = {}
        self.peer_of: dict[int, str] = {}
        self.known: dict[int, set[str]] = {}

    def act(self, kind: str, slot: int, peer_id: str) -> None:
        if kind == "open":
            self.number += 1
            self.connection_of[slot] = self.number
            self.hear(self.hub.open(self.number, PROJECT, "127.0.0.1", b"\x07" * 32, 0.0))
            return
        connection = self.connection_of.get(slot, 0)
        if kind == "auth":
            self.hear(say(self.hub, connection, Auth(peer_id=peer_id, signature=GOOD)), peer_id)
        elif kind == "send":
            self.hear(say(self.hub, connection, Send(to=peer_id, payload=b"")))
        else:
            self.forget(connection)
            self.hear(self.hub.on_closed(connection))

    def hear(self, actions: list[RoomAction], joining: str = "") -> None:
        for action in actions:
            match action:
                case Hangup(connection=connection):
                    self.forget(connection)
                case Deliver(connection=connection, message=Joined(peers=peers)):
                    self.known[connection], self.peer_of[connection] = set(peers), joining
                case Deliver(connection=connection, message=Present(peer_id=other)):
                    self.known[connection].add(other)
                case Deliver(connection=connection, message=Absent(peer_id=other)):
                    self.known[connection].remove(other)

    def forget(self, connection: int) -> None:
        self.known.pop(connection, None)
        self.peer_of.pop(connection, None)


EVENTS = st.tuples(
    st.sampled_from(["open", "auth", "auth", "send", "close"]), st.integers(0, 5), st.sampled_from([ANN, BEN, CAT])
)


@given(st.lists(EVENTS, max_size=60))
def test_every_peer_always_knows_who_is_there(events: list[tuple[str, int, str]]) -> None:
    crowd = Crowd()
    for event in events:
        crowd.act(*event)
        present = set(crowd.peer_of.values())
        assert len(present) == len(crowd.peer_of) == crowd.hub.peers_in(PROJECT)
        for connection, me in crowd.peer_of.items():
            assert crowd.known[connection] == present - {me}


@given(st.binary(max_size=200))
def test_random_frames_never_raise(data: bytes) -> None:
    hub = rooms()
    enter(hub, 1, ANN)
    for frame in (data, data.decode("latin-1"), msgspec.json.encode(data).decode()):
        hub.on_frame(1, frame, 0.0)
