"""Who offers to whom, when, and what comes of it: one state per peer. PURE. Spec: docs/specs/signaling.md.

The smaller peer id of a pair offers, so offers never cross. Every try has a number of its own; whatever comes late
for an older try is passed over. `now` is monotonic seconds, `wall` seconds since the epoch (only envelopes use it).
"""

import hashlib
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from engine.identity.keys import Identity
from engine.signaling.envelope import EnvelopeChecker, Opened, make_answer, make_call, make_offer, seal_description
from engine.signaling.messages import Answer, Call, Offer, SignalingError, description_hash
from engine.signaling.sdp import Transport

FIRST_RETRY_SECONDS: Final = 1.0
LONGEST_RETRY_SECONDS: Final = 60.0
STABLE_SECONDS: Final = 30.0
"""A link that held this long starts the next retries from FIRST_RETRY_SECONDS again."""
CALL_SPACING_SECONDS: Final = 3.0
"""A call is followed by an offer no sooner than this after the try before: it may have crossed with that one."""


class Phase(StrEnum):
    """How far the introduction to one peer is."""

    IDLE = "idle"  # the other one's turn to offer
    RESTING = "resting"  # this one offers again at `retry_at`
    OFFERING = "offering"  # the transport writes an offer
    OFFERED = "offered"  # an answer is awaited
    ANSWERING = "answering"  # the transport writes an answer
    CONNECTING = "connecting"  # both descriptions are exchanged
    UP = "up"


@dataclass(frozen=True, slots=True)
class MakeOffer:
    """Open a transport and hand its description to `on_local_sdp`."""

    peer_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class MakeAnswer:
    """Open a transport for this offer and hand its description to `on_local_sdp`."""

    peer_id: str
    attempt: int
    transport: Transport


@dataclass(frozen=True, slots=True)
class UseAnswer:
    """Complete the offering transport with the peer's description."""

    peer_id: str
    attempt: int
    transport: Transport


@dataclass(frozen=True, slots=True)
class SendPayload:
    """Hand this to the room; report a refusal with `on_failed`."""

    peer_id: str
    attempt: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class MakeCall:
    """Ask the peer, whose turn it is, for an offer: send what `call` gives."""

    peer_id: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """Close the transport of this try, whatever its state."""

    peer_id: str
    attempt: int
    reason: str


Action: TypeAlias = MakeOffer | MakeAnswer | UseAnswer | SendPayload | MakeCall | Abandon


@dataclass(slots=True)
class _Pair:
    present: bool = False
    phase: Phase = Phase.IDLE
    attempt: int = 0
    deadline: float = 0.0
    retry_at: float = 0.0
    failures: int = 0
    up_since: float = 0.0
    begun_at: float = -math.inf  # the last try
    calls: bool = False  # the peer is to be asked for an offer as soon as the room is within reach
    offer: Offer | None = None
    offer_hash: bytes = field(default=b"")


_BUSY: Final = (Phase.OFFERING, Phase.OFFERED, Phase.ANSWERING, Phase.CONNECTING)


class IntroductionMachine:
    """All introductions of one peer in one run."""

    def __init__(self, identity: Identity, run: bytes, connect_timeout_seconds: float) -> None:
        self._identity = identity
        self._me = identity.peer_id
        self._run = run
        self._timeout = connect_timeout_seconds
        self._checker = EnvelopeChecker(self._me, run)
        self._pairs: dict[str, _Pair] = {}
        self._attempts = 0
        self._in_room = False

    @property
    def in_room(self) -> bool:
        """Whether the room is within reach, as far as is known."""
        return self._in_room

    def phase(self, peer_id: str) -> Phase:
        """How far the introduction to `peer_id` is."""
        pair = self._pairs.get(peer_id)
        return pair.phase if pair else Phase.IDLE

    def is_present(self, peer_id: str) -> bool:
        """Whether the room last said that the peer is there."""
        pair = self._pairs.get(peer_id)
        return pair is not None and pair.present

    def on_joined(self, peers: tuple[str, ...], now: float) -> list[Action]:
        """The room's whole membership, on every (re)entry."""
        self._in_room = True
        for peer_id in [peer_id for peer_id, pair in self._pairs.items() if pair.present and peer_id not in peers]:
            self.on_absent(peer_id)
        return [action for peer_id in peers for action in self.on_present(peer_id, now)]

    def on_lost(self) -> None:
        """The room is out of reach: what is under way may succeed, new offers wait for `on_joined`."""
        self._in_room = False

    def on_present(self, peer_id: str, now: float) -> list[Action]:
        """A peer came, or came anew: try at once, unless a try is under way or the link is up."""
        if peer_id == self._me:
            return []
        pair = self._pairs.setdefault(peer_id, _Pair())
        pair.present = True
        if pair.phase in (Phase.IDLE, Phase.RESTING) and self._me < peer_id:
            pair.failures = 0
            return [self._begin_offer(peer_id, pair, now)]
        return self._calls_due(peer_id, pair)

    def on_absent(self, peer_id: str) -> None:
        """A peer left the room: what is under way may still succeed, nothing new is begun."""
        pair = self._pairs.get(peer_id)
        if pair is None:
            return
        pair.present = False
        if pair.phase in (Phase.IDLE, Phase.RESTING):
            del self._pairs[peer_id]

    def on_envelope(self, from_peer: str, payload: bytes, now: float, wall: float) -> list[Action]:
        """A payload came through the room.

        Raises:
            SignalingError: it is refused, and why. Nothing changed.
        """
        opened = self._checker.open(from_peer, payload, wall)
        description, transport = opened.description, opened.transport
        if isinstance(description, Call) or transport is None:
            return self._on_call(from_peer, now)
        if isinstance(description, Offer):
            return self._on_offer(from_peer, opened, description, transport, now)
        return self._on_answer(from_peer, description, transport)

    def on_local_sdp(self, peer_id: str, attempt: int, sdp: str, nonce: bytes, wall: float) -> list[Action]:
        """The transport of `attempt` wrote its description. `nonce` is OFFER_NONCE_BYTES random bytes."""
        pair = self._current(peer_id, attempt)
        if pair is None:
            return []
        if pair.phase is Phase.OFFERING:
            offer = make_offer(self._identity, peer_id, self._run, nonce, sdp, wall)
            payload, signed = seal_description(offer, self._identity)
            pair.offer_hash = description_hash(signed)
            pair.phase = Phase.OFFERED
        elif pair.phase is Phase.ANSWERING and pair.offer is not None:
            answer = make_answer(self._identity, pair.offer, pair.offer_hash, nonce, sdp, wall)
            payload, _ = seal_description(answer, self._identity)
            pair.phase = Phase.CONNECTING
        else:
            return []
        return [SendPayload(peer_id, attempt, payload)]

    def on_up(self, peer_id: str, attempt: int, now: float) -> None:
        """The transport of `attempt` connected."""
        pair = self._current(peer_id, attempt)
        if pair is not None:
            pair.phase = Phase.UP
            pair.up_since = now
            pair.offer = None

    def on_failed(
        self, peer_id: str, attempt: int, now: float, *, wanted: bool = False, moved: bool = False
    ) -> list[Action]:
        """The transport of `attempt` could not be made, or its link is gone. The caller has closed it.

        `wanted`: neither side meant it to end, so the larger id calls, since the other one may not know yet. `moved`:
        this computer's address changed, so that the next try need not wait.
        """
        pair = self._current(peer_id, attempt)
        if pair is None:
            return []
        was_up = pair.phase is Phase.UP
        if moved:
            pair.failures = 0
        self._rest(peer_id, pair, now)
        if moved and pair.phase is Phase.RESTING:
            pair.retry_at, pair.failures = now, 0
        pair.calls = wanted and was_up and pair.phase is Phase.IDLE
        return self._calls_due(peer_id, pair)

    def call(self, peer_id: str, nonce: bytes, wall: float) -> list[Action]:
        """What `MakeCall` asks to be sent. `nonce` is OFFER_NONCE_BYTES random bytes."""
        payload, _ = seal_description(make_call(self._identity, peer_id, self._run, nonce, wall), self._identity)
        return [SendPayload(peer_id, 0, payload)]

    def on_tick(self, now: float) -> list[Action]:
        """Call at `wake_at` or later."""
        actions: list[Action] = []
        for peer_id, pair in list(self._pairs.items()):
            if pair.phase in _BUSY and now >= pair.deadline:
                reason = f"no connection within {self._timeout:.0f} seconds"
                actions.append(Abandon(peer_id, pair.attempt, reason))
                self._rest(peer_id, pair, now)
            elif pair.phase is Phase.RESTING and self._in_room and now >= pair.retry_at:
                actions.append(self._begin_offer(peer_id, pair, now))
        return actions

    def wake_at(self) -> float | None:
        """When `on_tick` has something to do, if ever."""
        times = [pair.deadline for pair in self._pairs.values() if pair.phase in _BUSY]
        if self._in_room:
            times += [pair.retry_at for pair in self._pairs.values() if pair.phase is Phase.RESTING]
        return min(times, default=None)

    def _current(self, peer_id: str, attempt: int) -> _Pair | None:
        pair = self._pairs.get(peer_id)
        if pair is None or pair.attempt != attempt or pair.phase in (Phase.IDLE, Phase.RESTING):
            return None
        return pair

    def _begin_offer(self, peer_id: str, pair: _Pair, now: float) -> MakeOffer:
        self._begin(pair, Phase.OFFERING, now)
        return MakeOffer(peer_id, pair.attempt)

    def _begin(self, pair: _Pair, phase: Phase, now: float) -> None:
        self._attempts += 1
        pair.attempt = self._attempts
        pair.begun_at, pair.calls = now, False
        pair.phase = phase
        pair.deadline = now + self._timeout
        pair.offer = None
        pair.offer_hash = b""

    def _rest(self, peer_id: str, pair: _Pair, now: float) -> None:
        """Wait for the next try: the larger id for an offer, the smaller for its retry time."""
        if pair.phase is Phase.UP and now - pair.up_since >= STABLE_SECONDS:
            pair.failures = 0
        pair.offer = None
        if not pair.present:
            del self._pairs[peer_id]
        elif self._me < peer_id:
            pair.phase = Phase.RESTING
            pair.retry_at = now + self._retry_seconds(peer_id, pair.failures)
            pair.failures += 1
        else:
            pair.phase = Phase.IDLE

    def _retry_seconds(self, peer_id: str, failures: int) -> float:
        """Doubling, and spread by a factor of 0.75 to 1.25 that differs from pair to pair and from try to try."""
        seed = f"{self._me}{peer_id}{failures}".encode("ascii")
        spread = 0.75 + hashlib.sha256(seed).digest()[0] / 510.0
        return min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(failures, 10)) * spread

    def _calls_due(self, peer_id: str, pair: _Pair) -> list[Action]:
        if not (pair.calls and pair.present and self._in_room):
            return []
        pair.calls = False
        return [MakeCall(peer_id)]

    def _on_call(self, from_peer: str, now: float) -> list[Action]:
        if from_peer <= self._me:
            raise SignalingError("a call came from the smaller peer id, which makes the offers")
        pair = self._pairs.setdefault(from_peer, _Pair())
        pair.present = True
        if pair.phase in _BUSY:
            return []
        due = max(now, pair.begun_at + CALL_SPACING_SECONDS)
        if pair.phase is Phase.RESTING:
            pair.retry_at = min(pair.retry_at, due)
            return []
        if due > now:
            return []
        actions: list[Action] = []
        if pair.phase is Phase.UP:
            actions.append(Abandon(from_peer, pair.attempt, "the other computer lost the connection"))
        return [*actions, self._begin_offer(from_peer, pair, now)]

    def _on_offer(self, from_peer: str, opened: Opened, offer: Offer, transport: Transport, now: float) -> list[Action]:
        if from_peer >= self._me:
            raise SignalingError("an offer came from the larger peer id, which must wait for one")
        pair = self._pairs.setdefault(from_peer, _Pair())
        actions: list[Action] = []
        if pair.phase is not Phase.IDLE:
            # The offerer began anew, so it has given up what there was.
            actions.append(Abandon(from_peer, pair.attempt, "the other computer connects anew"))
        pair.present = True
        self._begin(pair, Phase.ANSWERING, now)
        pair.offer, pair.offer_hash = offer, opened.payload_hash
        actions.append(MakeAnswer(from_peer, pair.attempt, transport))
        return actions

    def _on_answer(self, from_peer: str, answer: Answer, transport: Transport) -> list[Action]:
        pair = self._pairs.get(from_peer)
        if pair is None or pair.phase is not Phase.OFFERED:
            raise SignalingError("an answer came to no offer")
        if answer.offer_hash != pair.offer_hash:
            raise SignalingError("an answer refers to another offer")
        pair.phase = Phase.CONNECTING
        return [UseAnswer(from_peer, pair.attempt, transport)]
