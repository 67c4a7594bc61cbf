"""Identities and session descriptions for tests of introductions."""

from engine.identity.keys import Identity

FINGERPRINT = ":".join(["AB"] * 32)


def identities(count: int) -> list[Identity]:
    """The same ones in every run, by ascending peer id."""
    made = [Identity.from_private_bytes(bytes([number + 1]) * 32) for number in range(count)]
    return sorted(made, key=lambda identity: identity.peer_id)


def sdp_text(
    setup: str = "actpass", fingerprint: str = FINGERPRINT, candidates: tuple[str, ...] = ("127.0.0.1 40000",)
) -> str:
    """A description as aiortc writes it; a candidate is "host port"."""
    lines = [
        "v=0",
        "o=- 1 1 IN IP4 0.0.0.0",
        "s=-",
        "t=0 0",
        "a=group:BUNDLE 0",
        "m=application 40000 UDP/DTLS/SCTP webrtc-datachannel",
        "c=IN IP4 127.0.0.1",
        "a=mid:0",
        "a=sctp-port:5000",
        "a=max-message-size:262144",
        *(f"a=candidate:abc{n} 1 udp 2130706431 {place} typ host" for n, place in enumerate(candidates)),
        "a=end-of-candidates",
        "a=ice-ufrag:1mT3",
        "a=ice-pwd:sIAnL2SwTEfeJCD9kNaZlJ",
        f"a=fingerprint:sha-256 {fingerprint}",
        f"a=setup:{setup}",
    ]
    return "\r\n".join(lines) + "\r\n"
