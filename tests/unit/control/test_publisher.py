import asyncio
import heapq
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.codec import Patch, SnapshotMessage
from engine.contract.reasons import RunState
from engine.contract.snapshot import EngineInfo, EngineState, HubStatus, SessionState, Status, Today
from engine.control.diff import apply
from engine.control.publisher import StatePublisher

ENGINE = EngineInfo(version="0.1.0", pid=1, started_at=0.0, peer_id="p", identity_store="file", data_dir="/d")
BASE = EngineState(
    engine=ENGINE, status=Status(state=RunState.IDLE), hub=HubStatus(url="http://127.0.0.1", connected=False)
)


class VirtualTimer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualLoop:
    def __init__(self) -> None:
        self.now = 100.0
        self.count = 0
        self.heap: list[tuple[float, int, Callable[[], None], VirtualTimer]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None], /) -> VirtualTimer:
        timer = VirtualTimer()
        self.count += 1
        heapq.heappush(self.heap, (when, self.count, callback, timer))
        return timer

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self.heap and self.heap[0][0] <= end:
            when, _, callback, timer = heapq.heappop(self.heap)
            self.now = max(self.now, when)
            if not timer.cancelled:
                callback()
        self.now = end


class Face:
    """Keeps what it was sent, checks the numbering, and mirrors the tree."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.is_behind = False
        self.received: list[tuple[float, SnapshotMessage | Patch]] = []
        self.tree: dict[str, Any] = {}
        self.rev: int | None = None

    def deliver(self, message: SnapshotMessage | Patch) -> None:
        message = msgspec.json.decode(msgspec.json.encode(message), type=type(message))
        self.received.append((self.loop.now, message))
        assert self.rev is None or message.rev == self.rev + 1
        self.rev = message.rev
        if isinstance(message, SnapshotMessage):
            self.tree = message.state
        else:
            apply(self.tree, message)

    def behind(self) -> bool:
        return self.is_behind

    @property
    def patches(self) -> list[Patch]:
        return [message for _, message in self.received if isinstance(message, Patch)]

    @property
    def state(self) -> EngineState:
        return msgspec.convert(self.tree, EngineState)


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop()


@pytest.fixture
def publisher(loop: VirtualLoop) -> StatePublisher:
    return StatePublisher(BASE, loop)


def test_a_face_gets_a_snapshot_then_patches(loop, publisher):
    face = Face(loop)
    publisher.subscribe(face)
    assert face.state == BASE
    publisher.update(status=Status(state=RunState.TRAINING))
    assert face.patches == []
    loop.advance(0)
    assert [patch.path for patch in face.patches] == [("status", "state")]
    assert face.state == publisher.state


def test_changes_of_one_moment_are_one_patch(loop, publisher):
    face = Face(loop)
    publisher.subscribe(face)
    for step in range(50):
        publisher.update(today=Today(tokens_trained=step))
    loop.advance(0)
    assert [patch.value for patch in face.patches] == [49]


def test_a_change_that_is_taken_back_is_not_sent(loop, publisher):
    face = Face(loop)
    publisher.subscribe(face)
    publisher.update(today=Today(rounds=1))
    publisher.update(today=Today())
    loop.advance(1)
    assert face.patches == []


def test_at_most_four_flushes_a_second_a_topic(loop, publisher):
    face = Face(loop)
    publisher.subscribe(face)
    for step in range(1, 301):  # three seconds, a change every 10 ms in two topics
        publisher.update(today=Today(tokens_trained=step), status=Status(state=RunState.TRAINING, since=float(step)))
        loop.advance(0.01)
    loop.advance(1)
    for topic in ("today", "status"):
        times = sorted({at for at, message in face.received if isinstance(message, Patch) and message.path[0] == topic})
        assert 12 <= len(times) <= 14
        assert all(later - earlier >= 0.25 - 1e-9 for earlier, later in pairwise(times))
    assert face.state == publisher.state


def test_each_face_has_its_own_revisions(loop, publisher):
    early = Face(loop)
    publisher.subscribe(early)
    publisher.update(today=Today(rounds=1))
    loop.advance(1)
    late = Face(loop)
    publisher.subscribe(late)
    publisher.update(today=Today(rounds=2))
    loop.advance(1)
    assert (early.rev, late.rev) == (3, 2)
    assert early.state == late.state == publisher.state


def test_a_face_that_subscribes_before_a_flush_is_not_told_twice(loop, publisher):
    early, late = Face(loop), Face(loop)
    publisher.subscribe(early)
    publisher.update(today=Today(rounds=1))
    publisher.subscribe(late)
    loop.advance(1)
    assert len(early.patches) == 1
    assert late.patches == []
    assert late.state == publisher.state


def test_a_slow_face_is_dropped_then_resynced(loop, publisher):
    slow, quick = Face(loop), Face(loop)
    subscription = publisher.subscribe(slow)
    publisher.subscribe(quick)
    slow.is_behind = True
    for step in range(1, 6):
        publisher.update(today=Today(rounds=step))
        loop.advance(1)
    assert subscription.dropping
    assert len(quick.patches) == 5
    assert slow.patches == []
    slow.is_behind = False
    publisher.update(today=Today(rounds=9))
    loop.advance(1)
    assert slow.patches == []  # a gap was made: nothing but a snapshot may follow it
    publisher.resync(subscription)
    assert isinstance(slow.received[-1][1], SnapshotMessage)
    assert slow.state == publisher.state
    publisher.update(today=Today(rounds=10))
    loop.advance(1)
    assert slow.state == publisher.state


def test_resync_without_a_gap_sends_nothing(loop, publisher):
    face = Face(loop)
    subscription = publisher.subscribe(face)
    publisher.resync(subscription)
    assert len(face.received) == 1


def test_a_closed_subscription_is_left_alone(loop, publisher):
    face = Face(loop)
    subscription = publisher.subscribe(face)
    publisher.update(today=Today(rounds=1))
    subscription.close()
    subscription.close()
    loop.advance(1)
    assert face.patches == []
    assert all(timer.cancelled for *_, timer in loop.heap)


def test_without_faces_nothing_is_planned(loop, publisher):
    publisher.update(today=Today(rounds=1))
    assert loop.heap == []
    assert publisher.state.today.rounds == 1


def test_close_cancels_what_is_planned(loop, publisher):
    face = Face(loop)
    publisher.subscribe(face)
    publisher.update(today=Today(rounds=1))
    publisher.close()
    loop.advance(1)
    assert face.patches == []


def test_fields_inside_a_node(loop, publisher):
    publisher.update(session=SessionState(project_id="a", title="b"))
    publisher.update_in("session", global_step=7)
    assert publisher.state.session is not None
    assert publisher.state.session.global_step == 7
    publisher.update(session=None)
    with pytest.raises(TypeError):
        publisher.update_in("session", global_step=8)
    with pytest.raises(TypeError):
        publisher.update(nonsense=1)


async def test_the_running_loop_is_the_default_scheduler():
    publisher = StatePublisher(BASE)
    delivered = asyncio.get_running_loop().create_future()

    class Waiting:
        def deliver(self, message: SnapshotMessage | Patch) -> None:
            if isinstance(message, Patch):
                delivered.set_result(message.value)

        def behind(self) -> bool:
            return False

    publisher.subscribe(Waiting())
    publisher.update(today=Today(rounds=3))
    assert await delivered == 3
    publisher.close()


actions = st.one_of(
    st.tuples(st.just("status"), st.sampled_from(RunState)),
    st.tuples(st.just("session"), st.none() | st.integers(0, 3)),
    st.tuples(st.just("today"), st.integers(0, 3)),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.1, 0.25, 1.0])),
    st.tuples(st.just("behind"), st.booleans()),
    st.tuples(st.just("subscribe"), st.just(None)),
)


def act(kind: str, value: Any, publisher: StatePublisher) -> None:
    if kind == "status":
        publisher.update(status=Status(state=value))
    elif kind == "session":
        session = None if value is None else SessionState(project_id="a", title="b", global_step=value)
        publisher.update(session=session)
    elif kind == "today":
        publisher.update(today=Today(rounds=value))


@given(st.lists(actions, max_size=40))
def test_any_history_leaves_every_face_with_the_engines_state(history):
    loop = VirtualLoop()
    publisher = StatePublisher(BASE, loop)
    faces: list[tuple[Face, Any]] = []
    for kind, value in [("subscribe", None), *history]:
        act(kind, value, publisher)
        if kind == "wait":
            loop.advance(value)
        elif kind == "behind":
            faces[0][0].is_behind = value
        elif kind == "subscribe":
            face = Face(loop)
            faces.append((face, publisher.subscribe(face)))
    faces[0][0].is_behind = False
    loop.advance(1)
    for face, subscription in faces:
        publisher.resync(subscription)
        assert face.state == publisher.state
