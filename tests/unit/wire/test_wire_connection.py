import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.wire import connection
from engine.wire.budget import Budget
from engine.wire.codec import encode
from engine.wire.connection import PeerConnection
from engine.wire.errors import WireError
from engine.wire.limits import (
    BUDGET_BURST_SECONDS,
    HELLO_DEADLINE_SECONDS,
    MAX_CONTROL_BYTES_PER_SECOND,
    MAX_MESSAGES_PER_SECOND,
)
from engine.wire.messages import Chunk, Goodbye, PeerHello

CONTROL, BULK = False, True
HELLO = PeerHello(protocol_version=1, manifest_hash=b"m" * 32, software="potluck 0.1")
GOODBYE = encode(Goodbye(reason="x"))
CHUNK = Chunk(state_hash=bytes(32), index=0, payload=bytes(1000))


def greeted(now: float = 0.0) -> PeerConnection:
    link = PeerConnection(HELLO, now)
    assert link.on_message(CONTROL, encode(HELLO), now) == []
    return link


def test_both_sides_get_ready_by_their_hellos() -> None:
    mine, theirs = PeerConnection(HELLO, 0.0), PeerConnection(HELLO, 0.0)
    assert not mine.ready
    mine.on_message(CONTROL, theirs.hello(), 0.0)
    theirs.on_message(CONTROL, mine.hello(), 0.0)
    assert mine.ready
    assert theirs.ready
    assert mine.peer_software == "potluck 0.1"
    assert mine.on_message(CONTROL, GOODBYE, 0.0) == [Goodbye(reason="x")]


def test_another_version_is_refused_with_both_versions() -> None:
    other = PeerHello(protocol_version=7, manifest_hash=b"m" * 32, software="potluck 9.9")
    with pytest.raises(WireError, match=r"version 7 \('potluck 9.9'\), this computer version 1 \('potluck 0.1'\)"):
        PeerConnection(HELLO, 0.0).on_message(CONTROL, encode(other), 0.0)


def test_another_manifest_is_refused_with_both_hashes() -> None:
    other = PeerHello(protocol_version=1, manifest_hash=b"n" * 32, software="potluck 0.1")
    link = PeerConnection(HELLO, 0.0)
    with pytest.raises(WireError, match="project 6e6e6e6e6e6e6e6e, this computer project 6d6d6d6d6d6d6d6d"):
        link.on_message(CONTROL, encode(other), 0.0)
    assert not link.ready


def test_anything_before_the_hello_is_refused() -> None:
    with pytest.raises(WireError, match="a Goodbye came before the hello"):
        PeerConnection(HELLO, 0.0).on_message(CONTROL, GOODBYE, 0.0)


def test_a_second_hello_is_refused() -> None:
    with pytest.raises(WireError, match="a second hello"):
        greeted().on_message(CONTROL, encode(HELLO), 0.0)


def test_bulk_that_overtook_the_hello_waits_for_it() -> None:
    link = PeerConnection(HELLO, 0.0)
    assert link.on_message(BULK, encode(CHUNK), 0.0) == []
    assert link.on_message(CONTROL, encode(HELLO), 0.0) == [CHUNK]
    assert link.on_message(BULK, encode(CHUNK), 0.0) == [CHUNK]


def test_bulk_before_the_hello_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_EARLY_BULK_BYTES", 1500)
    link = PeerConnection(HELLO, 0.0)
    link.on_message(BULK, encode(CHUNK), 0.0)
    with pytest.raises(WireError, match="bytes of bulk came before the hello"):
        link.on_message(BULK, encode(CHUNK), 0.0)


def test_a_silent_peer_is_refused_after_the_deadline() -> None:
    link = PeerConnection(HELLO, 5.0)
    link.check_deadline(5.0 + HELLO_DEADLINE_SECONDS)
    with pytest.raises(WireError, match="no hello within 10 seconds"):
        link.check_deadline(5.1 + HELLO_DEADLINE_SECONDS)
    greeted(5.0).check_deadline(500.0)


def test_more_messages_than_the_budget_are_refused() -> None:
    link = greeted()
    allowed = int(MAX_MESSAGES_PER_SECOND * BUDGET_BURST_SECONDS) - 1
    for _ in range(allowed):
        link.on_message(CONTROL, GOODBYE, 0.0)
    with pytest.raises(WireError, match="more than 200 messages a second"):
        link.on_message(CONTROL, GOODBYE, 0.0)


def test_the_budget_refills_with_time() -> None:
    link = greeted()
    for second in range(100):
        for _ in range(int(MAX_MESSAGES_PER_SECOND)):
            link.on_message(CONTROL, GOODBYE, float(second))
    assert link.ready


def test_more_control_bytes_than_the_budget_are_refused() -> None:
    link = greeted()
    long = encode(Goodbye(reason="é" * 200))
    budget = Budget(MAX_CONTROL_BYTES_PER_SECOND, BUDGET_BURST_SECONDS, 0.0)
    assert budget.spend(MAX_CONTROL_BYTES_PER_SECOND * BUDGET_BURST_SECONDS, 0.0)
    link._control_bytes = budget
    with pytest.raises(WireError, match="control bytes a second"):
        link.on_message(CONTROL, long, 0.0)


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 3)), max_size=50))
def test_a_budget_never_gives_more_than_its_burst_and_rate(steps: list[tuple[float, float]]) -> None:
    budget, now, spent = Budget(2.0, 3.0, 0.0), 0.0, 0.0
    for wait, units in steps:
        now += wait
        if budget.spend(units, now):
            spent += units
        assert spent <= 2.0 * 3.0 + 2.0 * now + 1e-6


def test_a_clock_that_runs_back_gives_nothing() -> None:
    budget = Budget(1.0, 1.0, 100.0)
    assert budget.spend(1.0, 100.0)
    assert not budget.spend(0.5, 50.0)
    assert not budget.spend(0.5, 100.0)
    assert budget.spend(0.5, 100.5)


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=100)), max_size=20))
def test_random_messages_raise_wire_errors_only(messages: list[tuple[bool, bytes]]) -> None:
    link = greeted()
    for bulk, data in messages:
        with pytest.raises(WireError):
            link.on_message(bulk, data, 0.0)
