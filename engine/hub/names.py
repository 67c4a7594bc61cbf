"""Display names: labels that peers sign for themselves. Two peers may have the same one; the id tells them apart."""

from typing import Literal

from sqlalchemy.orm import Session

from engine.hub.limits import MAX_NAME_CLOCK_AHEAD_SECONDS
from engine.hub.models import PeerName
from engine.hub.protocol import NameClaim, SignedName, name_bytes
from engine.hub.refusals import Refusal
from engine.identity.keys import public_key_of
from engine.identity.signing import verify


def set_name(session: Session, signed: SignedName, now: float) -> Literal["stored", "duplicate"]:
    """Show a peer under a name from now on; "" takes the name away.

    Raises:
        Refusal: bad_request (characters, or a time in the future), bad_signature, stale (an older claim comes again).
    """
    if not signed.name.isprintable() or signed.name != signed.name.strip():
        raise Refusal("bad_request", "a name is made of printable characters, without spaces around them")
    if signed.at > now + MAX_NAME_CLOCK_AHEAD_SECONDS:
        raise Refusal("bad_request", "the claim is dated in the future; check the clock of the computer")
    claim = NameClaim(peer_id=signed.peer_id, name=signed.name, at=signed.at)
    if not _signed_by_peer(claim, signed.signature):
        raise Refusal("bad_signature", "the peer did not sign this name")
    stored = session.get(PeerName, signed.peer_id)
    if stored is None:
        session.add(PeerName(peer_id=signed.peer_id, name=signed.name, at=signed.at, signature=signed.signature))
        return "stored"
    if (stored.at, stored.name) == (signed.at, signed.name):
        return "duplicate"
    if stored.at >= signed.at:
        raise Refusal("stale", "a later name is known already")
    stored.name, stored.at, stored.signature = signed.name, signed.at, signed.signature
    return "stored"


def _signed_by_peer(claim: NameClaim, signature: bytes) -> bool:
    try:
        public_key = public_key_of(claim.peer_id)
    except ValueError:
        return False
    return verify(public_key, name_bytes(claim), signature)
