from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.codec import Patch, decode_engine, encode
from engine.contract.reasons import RunState
from engine.contract.snapshot import CurvePoint, EngineInfo, EngineState, HubStatus, PeerInfo, SessionState, Status
from engine.control.diff import TOPICS, BadPatch, apply, changed_topics, diff, plain

ENGINE = EngineInfo(version="0.1.0", pid=1, started_at=0.0, peer_id="p", identity_store="file", data_dir="/d")
BASE = EngineState(
    engine=ENGINE, status=Status(state=RunState.IDLE), hub=HubStatus(url="http://127.0.0.1", connected=False)
)


def point(step: int) -> CurvePoint:
    return CurvePoint(global_step=step, at=1.0, train_loss=2.5, held_out_loss=None, tokens_total=step, mine=True)


def all_patches(old: EngineState, new: EngineState) -> list[Patch]:
    return diff(old, new, TOPICS, 10)


def test_no_change_no_patch():
    same = msgspec.structs.replace(BASE, status=Status(state=RunState.IDLE))
    assert changed_topics(BASE, same) == ()
    assert all_patches(BASE, same) == []


def test_only_the_changed_fields_of_a_node_are_sent():
    new = msgspec.structs.replace(BASE, status=Status(state=RunState.TRAINING, since=4.0))
    assert all_patches(BASE, new) == [
        Patch(rev=11, path=("status", "state"), value="training"),
        Patch(rev=12, path=("status", "since"), value=4.0),
    ]


def test_a_node_that_appears_or_goes_is_sent_whole():
    joined = msgspec.structs.replace(BASE, session=SessionState(project_id="a", title="b"))
    (patch,) = all_patches(BASE, joined)
    assert patch.path == ("session",)
    assert patch.value["title"] == "b"
    (patch,) = all_patches(joined, BASE)
    assert patch == Patch(rev=11, path=("session",), value=None)


def test_a_longer_list_is_appended_to():
    one = msgspec.structs.replace(BASE, curve=(point(1),))
    three = msgspec.structs.replace(BASE, curve=(point(1), point(2), point(3)))
    (patch,) = all_patches(one, three)
    assert patch.op == "append"
    assert [row["global_step"] for row in patch.value] == [2, 3]
    (patch,) = all_patches(BASE, one)
    assert patch.op == "set"
    (patch,) = all_patches(three, one)
    assert patch.op == "set"


def test_a_list_whose_past_changed_is_set():
    old = msgspec.structs.replace(BASE, curve=(point(1), point(2)))
    new = msgspec.structs.replace(BASE, curve=(point(1), point(3), point(4)))
    (patch,) = all_patches(old, new)
    assert patch.op == "set"
    assert len(patch.value) == 3


def test_lists_inside_a_node_are_appended_to_as_well():
    peers = tuple(PeerInfo(peer_id=name, name="", connected=True, path="lan") for name in "ab")
    old = msgspec.structs.replace(BASE, session=SessionState(project_id="a", title="b", peers=peers[:1]))
    new = msgspec.structs.replace(BASE, session=SessionState(project_id="a", title="b", peers=peers))
    (patch,) = all_patches(old, new)
    assert (patch.path, patch.op) == (("session", "peers"), "append")


@pytest.mark.parametrize(
    "patch",
    [
        Patch(rev=1, path=(), value=1),
        Patch(rev=1, path=("a", "b", "c"), value=1),
        Patch(rev=1, path=("session", "title"), value="x"),
        Patch(rev=1, path=("status", "state"), value=["x"], op="append"),
        Patch(rev=1, path=("curve",), value=7, op="append"),
    ],
)
def test_patches_that_do_not_fit_are_refused(patch):
    with pytest.raises(BadPatch):
        apply(plain(BASE), patch)


statuses = st.builds(Status, state=st.sampled_from(RunState), since=st.floats(0, 1e9))
curves = st.lists(st.integers(0, 3), max_size=5).map(lambda steps: tuple(point(step) for step in steps))
peer_lists = st.lists(
    st.builds(
        PeerInfo, peer_id=st.sampled_from("abc"), name=st.text(max_size=3), connected=st.booleans(), path=st.just("")
    ),
    max_size=3,
).map(tuple)
sessions = st.none() | st.builds(
    SessionState,
    project_id=st.sampled_from("xy"),
    title=st.text(max_size=3),
    global_step=st.integers(0, 9),
    train_loss=st.none() | st.floats(0, 9),
    peers=peer_lists,
)
states = st.builds(
    lambda status, session, curve: msgspec.structs.replace(BASE, status=status, session=session, curve=curve),
    statuses,
    sessions,
    curves,
)


@given(st.lists(states, min_size=2, max_size=6))
def test_patches_over_the_link_rebuild_the_state(history):
    tree = plain(history[0])
    rev = 0
    for old, new in pairwise(history):
        for patch in diff(old, new, TOPICS, rev):
            rev += 1
            assert patch.rev == rev
            received = decode_engine(encode(patch))
            assert isinstance(received, Patch)
            apply(tree, received)
        assert msgspec.convert(tree, EngineState) == new
        assert msgspec.json.encode(tree) == msgspec.json.encode(new)
