"""A peer's session description (RFC 8866, 8839, 8842) parsed once into bounded facts, and written anew from them. PURE.

The transport library only ever sees text that `render` wrote, so its parser is not exposed to peers.
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from engine.signaling.messages import MAX_SDP_BYTES, SignalingError

MAX_SDP_LINES: Final = 120
MAX_CANDIDATES: Final = 24
MIN_MESSAGE_BYTES: Final = 65536
"""Data-channel messages of this size must be taken (our frames are below it)."""

_FINGERPRINT: Final = re.compile(r"(sha-256|sha-384|sha-512) ([0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){31,63})")
_DIGEST_BYTES: Final = {"sha-256": 32, "sha-384": 48, "sha-512": 64}
_CANDIDATE: Final = re.compile(
    r"([A-Za-z0-9+/]{1,32}) 1 (?:udp|UDP) ([0-9]{1,10}) (\S{1,64}) ([0-9]{1,5}) typ (host|srflx|relay)(?: [ -~]*)?"
)
_UFRAG: Final = re.compile(r"[A-Za-z0-9+/]{4,256}")
_PASSWORD: Final = re.compile(r"[A-Za-z0-9+/]{22,256}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_SETUPS: Final = ("actpass", "active", "passive")


@dataclass(frozen=True, slots=True)
class Candidate:
    """Somewhere to send checks to: a UDP address."""

    foundation: str
    priority: int
    host: str  # a literal IPv4 or IPv6 address
    port: int
    kind: str  # host, srflx or relay


@dataclass(frozen=True, slots=True)
class Transport:
    """One data-channel transport."""

    fingerprints: tuple[tuple[str, str], ...]  # (hash, upper-case hex with colons); one is SHA-256
    ufrag: str
    password: str
    setup: str
    sctp_port: int
    candidates: tuple[Candidate, ...]


def parse_sdp(text: str) -> Transport:
    """The one transport that `text` describes. Lines of no interest are passed over, as RFC 8866 section 5 asks.

    Raises:
        SignalingError: naming what is missing, malformed or too much.
    """
    lines = _lines(text)
    media = [line for line in lines if line.startswith("m=")]
    if len(media) != 1 or not media[0].startswith("m=application "):
        raise SignalingError("a session description must have exactly one section, for data channels")
    message_bytes = int(_one(lines, "max-message-size", _NUMBER))
    if 0 < message_bytes < MIN_MESSAGE_BYTES:
        raise SignalingError(f"a session description takes only messages up to {message_bytes} bytes")
    setup = _one(lines, "setup", re.compile("|".join(_SETUPS)))
    port = int(_one(lines, "sctp-port", _NUMBER))
    if not 0 < port < 65536:
        raise SignalingError(f"a session description names SCTP port {port}")
    return Transport(
        fingerprints=_fingerprints(_values(lines, "fingerprint")),
        ufrag=_one(lines, "ice-ufrag", _UFRAG),
        password=_one(lines, "ice-pwd", _PASSWORD),
        setup=setup,
        sctp_port=port,
        candidates=_candidates(_values(lines, "candidate")),
    )


def _lines(text: str) -> list[str]:
    if len(text) > MAX_SDP_BYTES:
        raise SignalingError(f"a session description of {len(text)} bytes exceeds {MAX_SDP_BYTES}")
    if not all(character in "\r\n" or " " <= character <= "~" for character in text):
        raise SignalingError("a session description has characters other than printable ASCII")
    lines = text.splitlines()
    if len(lines) > MAX_SDP_LINES:
        raise SignalingError(f"a session description of {len(lines)} lines exceeds {MAX_SDP_LINES}")
    return lines


def _values(lines: list[str], name: str) -> list[str]:
    prefix = f"a={name}:"
    return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]


def _one(lines: list[str], name: str, pattern: re.Pattern[str]) -> str:
    values = _values(lines, name)
    if len(values) != 1:
        raise SignalingError(f"a session description has {len(values)} {name} lines instead of one")
    if not pattern.fullmatch(values[0]):
        raise SignalingError(f"a session description has a malformed {name} line")
    return values[0]


def _fingerprints(values: list[str]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for value in values:
        match = _FINGERPRINT.fullmatch(value)
        if match is None:
            raise SignalingError("a session description has a malformed fingerprint line")
        kind, digits = match[1], match[2].upper()
        if len(digits) != 3 * _DIGEST_BYTES[kind] - 1 or kind in found:
            raise SignalingError(f"a session description has a malformed or repeated {kind} fingerprint")
        found[kind] = digits
    if "sha-256" not in found:
        raise SignalingError("a session description has no SHA-256 fingerprint of its DTLS certificate")
    return tuple(found.items())


def _candidates(values: list[str]) -> tuple[Candidate, ...]:
    """Those at a literal address. Host names are passed over: to resolve a `.local` name is to ask a whole network."""
    if len(values) > MAX_CANDIDATES:
        raise SignalingError(f"a session description has {len(values)} candidates, more than {MAX_CANDIDATES}")
    found = []
    for value in values:
        match = _CANDIDATE.fullmatch(value)
        if match is None:
            continue
        foundation, priority, host, port, kind = match.groups()
        try:
            address = str(ipaddress.ip_address(host))
        except ValueError:
            continue
        if int(priority) < 2**31 and 1024 <= int(port) < 65536:
            found.append(Candidate(foundation, int(priority), address, int(port), kind))
    return tuple(found)


def reachable(candidates: tuple[Candidate, ...], *, loopback_only: bool) -> tuple[Candidate, ...]:
    """The candidates that this computer sends to: unicast, and on loopback if and only if `loopback_only`."""
    kept = []
    for candidate in candidates:
        address = ipaddress.ip_address(candidate.host)
        if address.is_multicast or address.is_unspecified or (address.is_reserved and address.version == 4):
            continue
        if address.is_loopback == loopback_only:
            kept.append(candidate)
    return tuple(kept)


def render(transport: Transport, candidates: tuple[Candidate, ...]) -> str:
    """A description of `transport` with only `candidates`, in the form that aiortc writes itself."""
    lines = [
        "v=0",
        "o=- 0 0 IN IP4 0.0.0.0",
        "s=-",
        "t=0 0",
        "a=group:BUNDLE 0",
        "m=application 9 UDP/DTLS/SCTP webrtc-datachannel",
        "c=IN IP4 0.0.0.0",
        "a=mid:0",
        f"a=sctp-port:{transport.sctp_port}",
        f"a=max-message-size:{MIN_MESSAGE_BYTES}",
    ]
    lines += [f"a=candidate:{c.foundation} 1 udp {c.priority} {c.host} {c.port} typ {c.kind}" for c in candidates]
    lines += ["a=end-of-candidates", f"a=ice-ufrag:{transport.ufrag}", f"a=ice-pwd:{transport.password}"]
    lines += [f"a=fingerprint:{kind} {digits}" for kind, digits in transport.fingerprints]
    lines.append(f"a=setup:{transport.setup}")
    return "\r\n".join(lines) + "\r\n"
