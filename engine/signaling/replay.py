"""Each introduction counts once. PURE."""

from typing import Final

from engine.signaling.messages import SignalingError

MAX_NONCES_PER_PEER: Final = 64
MAX_PEERS_REMEMBERED: Final = 1024


class ReplayGuard:
    """Remembers nonces until their envelopes have expired, and refuses rather than forgets when it is full."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[bytes, float]] = {}

    def admit(self, peer_id: str, nonce: bytes, forget_at: float, wall: float) -> None:
        """Record an envelope whose signature is good. `forget_at` and `wall` are seconds since the epoch.

        Raises:
            SignalingError: seen before, or too many at once.
        """
        nonces = self._seen.get(peer_id, {})
        if nonce in nonces:
            raise SignalingError("an introduction was repeated")
        if len(nonces) >= MAX_NONCES_PER_PEER or (not nonces and len(self._seen) >= MAX_PEERS_REMEMBERED):
            self._forget(wall)
            nonces = self._seen.get(peer_id, {})
        if len(nonces) >= MAX_NONCES_PER_PEER:
            raise SignalingError(f"more than {MAX_NONCES_PER_PEER} introductions from one peer at once")
        if not nonces and len(self._seen) >= MAX_PEERS_REMEMBERED:
            raise SignalingError(f"introductions from more than {MAX_PEERS_REMEMBERED} peers at once")
        nonces[nonce] = forget_at
        self._seen[peer_id] = nonces

    def _forget(self, wall: float) -> None:
        for peer_id in list(self._seen):
            live = {nonce: at for nonce, at in self._seen[peer_id].items() if at > wall}
            if live:
                self._seen[peer_id] = live
            else:
                del self._seen[peer_id]
