import hashlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checkpoints.errors import BlobError, ChunkError
from engine.checkpoints.transfer import ChunkFetch, Request, chunk_count, chunk_of

BLOB = random.Random(3).randbytes(1000)
CHUNK = 64


def make_fetch(blob: bytes = BLOB, window: int = 4) -> ChunkFetch:
    return ChunkFetch(
        hashlib.sha256(blob).digest(), len(blob), CHUNK, max_bytes=2000, window=window, timeout_seconds=10.0
    )


def answer(fetch: ChunkFetch, requests: list[Request], blobs: dict[str, bytes]) -> None:
    for request in requests:
        fetch.on_chunk(request.peer_id, request.index, chunk_of(blobs[request.peer_id], request.index, CHUNK))


def run_to_end(fetch: ChunkFetch, blobs: dict[str, bytes]) -> bytes | None:
    for _ in range(1000):
        if fetch.complete:
            result = fetch.take()
            if result is not None:
                return result
        if fetch.stuck:
            return None
        answer(fetch, fetch.requests(0.0), blobs)
    raise AssertionError("no end")


def test_one_donor_gives_the_blob() -> None:
    fetch = make_fetch()
    fetch.add_donor("a")
    assert run_to_end(fetch, {"a": BLOB}) == BLOB
    assert fetch.received_bytes == len(BLOB)


def test_donors_share_the_work_within_their_windows() -> None:
    fetch = make_fetch(window=3)
    fetch.add_donor("a")
    fetch.add_donor("b")
    requests = fetch.requests(0.0)
    assert sorted(request.peer_id for request in requests) == ["a"] * 3 + ["b"] * 3
    assert [request.index for request in requests] == [0, 1, 2, 3, 4, 5]
    assert fetch.requests(1.0) == []


def test_a_lost_donors_chunks_go_to_another() -> None:
    fetch = make_fetch()
    fetch.add_donor("a")
    lost = fetch.requests(0.0)
    fetch.add_donor("b")
    fetch.remove_donor("a")
    asked = fetch.requests(1.0)
    assert [request.index for request in asked] == [request.index for request in lost]
    assert {request.peer_id for request in asked} == {"b"}
    answer(fetch, asked, {"b": BLOB})
    assert run_to_end(fetch, {"b": BLOB}) == BLOB


def test_a_silent_donor_is_left_after_two_timeouts() -> None:
    fetch = make_fetch()
    fetch.add_donor("silent")
    assert fetch.requests(0.0)
    assert fetch.next_deadline() == 10.0
    assert fetch.requests(9.9) == []
    assert fetch.requests(10.0)
    assert fetch.requests(20.0) == []
    assert fetch.stuck
    assert fetch.next_deadline() is None


def test_an_answer_clears_the_donors_record() -> None:
    fetch = make_fetch(window=1)
    fetch.add_donor("slow")
    for now in (0.0, 10.0, 20.0, 30.0):
        requests = fetch.requests(now)
        assert len(requests) == 1
        late = fetch.requests(now + 10.0)
        answer(fetch, late, {"slow": BLOB})
    assert not fetch.stuck


def test_a_late_chunk_is_welcome_once() -> None:
    fetch = make_fetch(window=1)
    fetch.add_donor("a")
    (first,) = fetch.requests(0.0)
    fetch.requests(10.0)
    answer(fetch, [first], {"a": BLOB})
    answer(fetch, [first], {"a": BLOB})
    assert fetch.received_bytes == CHUNK


@pytest.mark.parametrize(("index", "length"), [(0, CHUNK - 1), (0, 0), (0, CHUNK + 1), (9, CHUNK), (10**6, 1), (-1, 1)])
def test_a_wrong_chunk_is_refused_and_its_donor_left(index: int, length: int) -> None:
    fetch = make_fetch(window=2)
    fetch.add_donor("a")
    fetch.requests(0.0)
    with pytest.raises(ChunkError):
        fetch.on_chunk("a", index, bytes(length))
    assert fetch.stuck


def test_chunks_of_strangers_are_ignored() -> None:
    fetch = make_fetch()
    fetch.on_chunk("stranger", 0, bytes(CHUNK))
    assert fetch.received_bytes == 0


def test_the_last_chunk_has_its_own_length() -> None:
    last = chunk_count(len(BLOB), CHUNK) - 1
    assert len(chunk_of(BLOB, last, CHUNK)) == len(BLOB) % CHUNK
    with pytest.raises(ChunkError):
        chunk_of(BLOB, last + 1, CHUNK)
    with pytest.raises(ChunkError):
        chunk_of(BLOB, -1, CHUNK)


def test_an_offer_beyond_the_manifest_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(BlobError, match="at most 2000"):
        ChunkFetch(bytes(32), 10**15, CHUNK, max_bytes=2000)
    with pytest.raises(BlobError):
        ChunkFetch(bytes(32), 0, CHUNK, max_bytes=2000)


def test_a_single_liar_is_named_and_not_asked_again() -> None:
    fetch = make_fetch()
    fetch.add_donor("liar")
    assert run_to_end(fetch, {"liar": bytes(len(BLOB))}) is None
    assert fetch.bad_donors == {"liar"}
    fetch.add_donor("liar")
    assert fetch.stuck


@pytest.mark.parametrize("liar", ["a", "b", "c"])
def test_among_several_the_liar_is_found_and_the_honest_ones_finish(liar: str) -> None:
    fetch = make_fetch()
    blobs = dict.fromkeys(("a", "b", "c"), BLOB)
    blobs[liar] = BLOB[:-1] + bytes([BLOB[-1] ^ 1]) if liar != "a" else bytes(len(BLOB))
    for peer in blobs:
        fetch.add_donor(peer)
    assert run_to_end(fetch, blobs) == BLOB
    assert fetch.bad_donors <= {liar}


def test_a_donor_on_trial_that_leaves_ends_its_trial() -> None:
    fetch = make_fetch()
    blobs = {"a": bytes(len(BLOB)), "b": BLOB}
    for peer in blobs:
        fetch.add_donor(peer)
    while not fetch.complete:
        answer(fetch, fetch.requests(0.0), blobs)
    assert fetch.take() is None
    trial = fetch.requests(0.0)
    assert {request.peer_id for request in trial} == {"a"}
    fetch.remove_donor("a")
    assert run_to_end(fetch, blobs) == BLOB
    assert fetch.bad_donors == set()


def test_taking_too_early_is_our_fault() -> None:
    with pytest.raises(ValueError, match="missing"):
        make_fetch().take()


@given(st.integers(1, 2000), st.integers(1, 300), st.lists(st.sampled_from("abc"), max_size=12), st.integers(1, 5))
def test_whoever_leaves_the_blob_is_whole_or_the_fetch_is_stuck(
    size: int, chunk: int, leaving: list[str], window: int
) -> None:
    blob = random.Random(size).randbytes(size)
    fetch = ChunkFetch(hashlib.sha256(blob).digest(), size, chunk, max_bytes=2000, window=window)
    for peer in "abc":
        fetch.add_donor(peer)
    order = list(leaving)
    while not fetch.complete and not fetch.stuck:
        requests = fetch.requests(0.0)
        assert requests, "neither waiting for a donor, nor without one"
        for request in requests:
            fetch.on_chunk(request.peer_id, request.index, chunk_of(blob, request.index, chunk))
        if order:
            fetch.remove_donor(order.pop())
    if set(leaving) < set("abc"):
        assert fetch.complete
    assert fetch.stuck or fetch.take() == blob
