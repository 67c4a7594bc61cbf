"""Who can be reached through whom, when the hub is away. PURE. Spec: docs/specs/signaling.md.

Peers tell those they have links with whom else they have links with. An introduction goes over one such peer, and no
farther: what it carries is signed from end to end, so the one in between can drop it but neither forge nor change it.
"""

from collections.abc import Callable, Iterable
from typing import Final

from engine.wire.budget import Budget

MAX_NEIGHBOURS: Final = 64
MAX_NEW_FROM_ONE: Final = 32
"""Peers that nobody but one neighbour tells of: it may invent no more than these."""
CARRIED_PER_SECOND: Final = 2.0
CARRIED_BURST_SECONDS: Final = 20.0


class Neighbours:
    """Of one peer: its links, and what the peers at their other ends say of theirs."""

    def __init__(self, me: str) -> None:
        self._me = me
        self._lists: dict[str, tuple[str, ...]] = {}
        self._budgets: dict[str, Budget] = {}

    def mine(self) -> tuple[str, ...]:
        """What is told to each of them."""
        return tuple(sorted(self._lists)[:MAX_NEIGHBOURS])

    def on_link(self, peer_id: str, now: float) -> None:
        """A peer can be talked to."""
        self._lists.setdefault(peer_id, ())
        self._budgets[peer_id] = Budget(CARRIED_PER_SECOND, CARRIED_BURST_SECONDS, now)

    def on_link_lost(self, peer_id: str) -> None:
        """It cannot any more, and what it told is void."""
        self._lists.pop(peer_id, None)
        self._budgets.pop(peer_id, None)

    def on_told(self, peer_id: str, theirs: Iterable[str]) -> None:
        """A peer says with whom it has links; from others than neighbours it is ignored."""
        if peer_id in self._lists:
            others = [other for other in theirs if other != self._me]
            self._lists[peer_id] = tuple(others[:MAX_NEIGHBOURS])

    def within_reach(self) -> frozenset[str]:
        """Every peer that is a neighbour or a neighbour's neighbour."""
        found = set(self._lists)
        for theirs in self._lists.values():
            new = [peer for peer in theirs if peer not in found and self._tellers(peer) == 1]
            found.update(peer for peer in theirs if self._tellers(peer) > 1)
            found.update(new[:MAX_NEW_FROM_ONE])
        return frozenset(found)

    def carriers(self, peer_id: str) -> tuple[str, ...]:
        """Who has a link to `peer_id`, itself first where there is one still."""
        own = (peer_id,) if peer_id in self._lists else ()
        return own + tuple(sorted(one for one, theirs in self._lists.items() if peer_id in theirs and one != peer_id))

    def may_carry(self, from_peer: str, to_peer: str, now: float) -> str:
        """Why this peer does not pass on what a neighbour asks it to, or "" when it does."""
        budget = self._budgets.get(from_peer)
        if budget is None or to_peer not in self._lists or from_peer == to_peer:
            return "no link to that peer"
        return "" if budget.spend(1.0, now) else f"more than {CARRIED_PER_SECOND:.0f} a second"

    def _tellers(self, peer_id: str) -> int:
        return sum(peer_id in theirs for theirs in self._lists.values())


Carry = Callable[[str, str, bytes], None]
"""Ask a neighbour (first) to pass a payload on to a peer (second)."""
