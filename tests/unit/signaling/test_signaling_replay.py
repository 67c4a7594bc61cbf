import pytest

from engine.signaling import replay
from engine.signaling.messages import SignalingError
from engine.signaling.replay import MAX_NONCES_PER_PEER, ReplayGuard


def nonce(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_the_same_nonce_counts_once_for_each_peer() -> None:
    guard = ReplayGuard()
    guard.admit("a", nonce(1), 10.0, 0.0)
    guard.admit("b", nonce(1), 10.0, 0.0)
    with pytest.raises(SignalingError, match="repeated"):
        guard.admit("a", nonce(1), 10.0, 0.0)


def test_a_full_memory_refuses_rather_than_forgets() -> None:
    guard = ReplayGuard()
    for number in range(MAX_NONCES_PER_PEER):
        guard.admit("a", nonce(number), 10.0, 0.0)
    with pytest.raises(SignalingError, match="more than 64 introductions from one peer"):
        guard.admit("a", nonce(1000), 10.0, 5.0)
    with pytest.raises(SignalingError, match="repeated"):
        guard.admit("a", nonce(0), 10.0, 5.0)
    guard.admit("b", nonce(1000), 10.0, 5.0)
    guard.admit("a", nonce(1000), 20.0, 10.5)


def test_many_peers_do_not_grow_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MAX_PEERS_REMEMBERED", 3)
    guard = ReplayGuard()
    for number in range(3):
        guard.admit(f"peer {number}", nonce(number), 10.0, 0.0)
    with pytest.raises(SignalingError, match="more than 3 peers"):
        guard.admit("one more", nonce(9), 10.0, 5.0)
    guard.admit("one more", nonce(9), 20.0, 11.0)
    assert len(guard._seen) == 1
