"""Signing introductions and deciding whether to believe one. PURE. Spec: docs/specs/signaling.md."""

from dataclasses import dataclass
from typing import Final

from engine.identity.keys import Identity, public_key_of
from engine.identity.signing import verify
from engine.signaling.messages import (
    ENVELOPE_SIGNING_CONTEXT,
    Answer,
    Call,
    Description,
    Offer,
    SignalingError,
    SignedEnvelope,
    decode_envelope,
    description_hash,
    encode_description,
    encode_envelope,
)
from engine.signaling.replay import ReplayGuard
from engine.signaling.sdp import Transport, parse_sdp

LIFETIME_SECONDS: Final = 60.0
CLOCK_SKEW_SECONDS: Final = 120.0
"""How far two computers' clocks may be apart."""


_KINDS: Final[dict[type[Description], str]] = {Offer: "offer", Answer: "answer", Call: "call"}


def seal_description(description: Description, identity: Identity) -> tuple[bytes, bytes]:
    """The room payload, and the signed bytes inside it (to which an answer refers by hash)."""
    signed = encode_description(description)
    signature = identity.sign(ENVELOPE_SIGNING_CONTEXT + signed)
    return encode_envelope(SignedEnvelope(payload=signed, signature=signature)), signed


@dataclass(frozen=True, slots=True)
class Opened:
    """An introduction that is believed."""

    description: Description
    transport: Transport | None  # of an offer or an answer
    payload_hash: bytes  # to which an answer refers


def _check_setup(kind: str, setup: str) -> None:
    # RFC 8842 section 5: the offerer leaves the DTLS role to the answerer.
    if (setup == "actpass") != (kind == "offer"):
        raise SignalingError(f"the {kind} has the DTLS role {setup}")


class EnvelopeChecker:
    """Opens room payloads for one peer in one run."""

    def __init__(self, my_id: str, run: bytes) -> None:
        self._my_id = my_id
        self._run = run
        self._replay = ReplayGuard()

    def open(self, from_peer: str, payload: bytes, wall: float) -> "Opened":
        """What `from_peer` signed for this peer. `wall` is seconds since the epoch.

        Raises:
            SignalingError: what is wrong with it.
        """
        envelope, description = decode_envelope(payload)
        kind = _KINDS[type(description)]
        if description.from_peer != from_peer:
            raise SignalingError(f"the {kind} says that it is from another peer than the room does")
        if not self._is_signed(envelope, from_peer):
            raise SignalingError(f"the signature of the {kind} is not its sender's")
        if description.to_peer != self._my_id:
            raise SignalingError(f"the {kind} is addressed to another peer")
        if description.run != self._run:
            theirs, mine = description.run.hex()[:16], self._run.hex()[:16]
            raise SignalingError(f"the {kind} is for project {theirs}, this computer trains {mine}")
        self._check_times(kind, description.expires_at, wall)
        transport = None
        if not isinstance(description, Call):
            transport = parse_sdp(description.sdp)
            _check_setup(kind, transport.setup)
        # Last, so that only envelopes that would be believed take room in the memory.
        self._replay.admit(from_peer, description.nonce, description.expires_at + CLOCK_SKEW_SECONDS, wall)
        return Opened(description, transport, description_hash(envelope.payload))

    def _is_signed(self, envelope: SignedEnvelope, from_peer: str) -> bool:
        try:
            key = public_key_of(from_peer)
        except ValueError:
            return False
        return verify(key, ENVELOPE_SIGNING_CONTEXT + envelope.payload, envelope.signature)

    def _check_times(self, kind: str, expires_at: float, wall: float) -> None:
        if wall > expires_at + CLOCK_SKEW_SECONDS:
            raise SignalingError(f"the {kind} expired {wall - expires_at:.0f} seconds ago")
        if expires_at > wall + LIFETIME_SECONDS + CLOCK_SKEW_SECONDS:
            ahead = expires_at - wall - LIFETIME_SECONDS
            raise SignalingError(f"the {kind} comes from a clock {ahead:.0f} seconds ahead of this computer's")


def make_offer(identity: Identity, to_peer: str, run: bytes, nonce: bytes, sdp: str, wall: float) -> Offer:
    """An unsigned offer that lives LIFETIME_SECONDS from `wall`."""
    return Offer(
        from_peer=identity.peer_id,
        to_peer=to_peer,
        run=run,
        nonce=nonce,
        expires_at=wall + LIFETIME_SECONDS,
        sdp=sdp,
    )


def make_answer(identity: Identity, offer: Offer, offer_hash: bytes, nonce: bytes, sdp: str, wall: float) -> Answer:
    """An unsigned answer to `offer`."""
    return Answer(
        from_peer=identity.peer_id,
        to_peer=offer.from_peer,
        run=offer.run,
        nonce=nonce,
        expires_at=wall + LIFETIME_SECONDS,
        offer_hash=offer_hash,
        sdp=sdp,
    )


def make_call(identity: Identity, to_peer: str, run: bytes, nonce: bytes, wall: float) -> Call:
    """An unsigned call for an offer, that lives LIFETIME_SECONDS from `wall`."""
    return Call(from_peer=identity.peer_id, to_peer=to_peer, run=run, nonce=nonce, expires_at=wall + LIFETIME_SECONDS)
