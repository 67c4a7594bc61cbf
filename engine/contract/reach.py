"""What was found out about how others can reach this computer: the verdicts that faces put into words."""

from enum import StrEnum


class Mapping(StrEnum):
    """What the routers between this computer and the internet do to its UDP, in the terms of RFC 4787."""

    UNKNOWN = "unknown"  # not asked yet
    UNREADABLE = "unreadable"  # asked, and the answers do not tell: none, too few, or from within the home
    NO_UDP = "no_udp"  # servers that answer over TCP do not over UDP
    NONE = "none"  # the address is this computer's own, and public
    STEADY = "steady"  # endpoint-independent: one door for all, so others can be let in
    CHANGING = "changing"  # address- or port-dependent ("symmetric"): a new door for each, so mostly relays are left


class Relay(StrEnum):
    """What became of asking the hub's TURN server for an address (RFC 8656)."""

    UNKNOWN = "unknown"  # not asked yet
    NOT_OFFERED = "not_offered"
    UDP = "udp"  # it gave one, asked over UDP
    TCP = "tcp"  # it gave one, but only over TCP or TLS
    FAILED = "failed"  # no answer, or a refusal
