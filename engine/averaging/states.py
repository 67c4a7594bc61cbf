"""The round's states, transitions and what each state makes of each message, as tables."""

from enum import Enum, auto
from typing import Final, TypeAlias

from engine.averaging.effects import RoundMessage
from engine.wire.messages import (
    Abstain,
    Accept,
    AveragedPart,
    Begin,
    Commit,
    Decline,
    Discard,
    Part,
    Propose,
    Vote,
)


class RoundState(Enum):
    """Where one peer stands in a round."""

    FREEZING = "freezing"  # the worker is asked to freeze
    GATHERING = "gathering"  # frozen; the leader awaits answers, a member awaits the roll
    EXCHANGING = "exchanging"  # the roll is known; parts and averages travel
    VOTED = "voted"  # every partition is held; the outcome is awaited
    ABSTAINED = "abstained"  # a partition will not come; the outcome is awaited
    CONCLUDING = "concluding"  # the commit is known, a partition is still on its way
    COMMITTED = "committed"
    MISSED = "missed"
    DISCARDED = "discarded"


class Trigger(Enum):
    """What moves a machine."""

    FROZE = auto()
    BEGAN = auto()
    ALL_HELD = auto()
    GAVE_UP = auto()
    COMMIT_HEARD = auto()  # while a partition is missing
    COMMIT_MATCHES = auto()
    COMMIT_UNMATCHED = auto()  # this peer lacks a partition or holds another one
    VOIDED = auto()


S = RoundState
T = Trigger

TRANSITIONS: Final[dict[tuple[RoundState, Trigger], RoundState]] = {
    (S.FREEZING, T.FROZE): S.GATHERING,
    (S.FREEZING, T.VOIDED): S.DISCARDED,
    (S.GATHERING, T.BEGAN): S.EXCHANGING,
    (S.GATHERING, T.COMMIT_UNMATCHED): S.MISSED,  # an echo came, the roll never did
    (S.GATHERING, T.VOIDED): S.DISCARDED,
    (S.EXCHANGING, T.ALL_HELD): S.VOTED,
    (S.EXCHANGING, T.GAVE_UP): S.ABSTAINED,
    (S.EXCHANGING, T.COMMIT_HEARD): S.CONCLUDING,
    (S.EXCHANGING, T.COMMIT_UNMATCHED): S.MISSED,
    (S.EXCHANGING, T.VOIDED): S.DISCARDED,
    (S.VOTED, T.COMMIT_MATCHES): S.COMMITTED,
    (S.VOTED, T.COMMIT_UNMATCHED): S.MISSED,
    (S.VOTED, T.VOIDED): S.DISCARDED,
    (S.ABSTAINED, T.COMMIT_UNMATCHED): S.MISSED,
    (S.ABSTAINED, T.VOIDED): S.DISCARDED,
    (S.CONCLUDING, T.COMMIT_MATCHES): S.COMMITTED,
    (S.CONCLUDING, T.COMMIT_UNMATCHED): S.MISSED,
}

ENDED: Final = frozenset({S.COMMITTED, S.MISSED, S.DISCARDED})
ROLL_KNOWN: Final = frozenset({S.EXCHANGING, S.VOTED, S.ABSTAINED, S.CONCLUDING})


class Handling(Enum):
    """What a state makes of a message. A pair that is in no table is the sender's fault."""

    TAKE = auto()
    KEEP = auto()  # came before the leader's roll did (another link): taken when the roll is known
    LATE = auto()  # ignored


H = Handling
Table: TypeAlias = dict[tuple[type[RoundMessage], RoundState], Handling]


def _rows(
    message: type[RoundMessage],
    take: tuple[RoundState, ...] = (),
    keep: tuple[RoundState, ...] = (),
    late: tuple[RoundState, ...] = (),
) -> Table:
    pairs = ((take, H.TAKE), (keep, H.KEEP), (late, H.LATE))
    return {(message, state): handling for states, handling in pairs for state in states}


_OVER: Final = (S.COMMITTED, S.MISSED, S.DISCARDED)

LEADER_HANDLES: Final[Table] = {
    **_rows(Accept, take=(S.FREEZING, S.GATHERING), late=(S.EXCHANGING, S.VOTED, *_OVER)),
    **_rows(Decline, take=(S.FREEZING, S.GATHERING, S.EXCHANGING, S.VOTED), late=_OVER),
    **_rows(Part, take=(S.EXCHANGING,), late=(S.VOTED, *_OVER)),
    **_rows(AveragedPart, take=(S.EXCHANGING,), late=(S.VOTED, *_OVER)),
    **_rows(Vote, take=(S.EXCHANGING, S.VOTED), late=_OVER),
    **_rows(Abstain, take=(S.EXCHANGING, S.VOTED), late=_OVER),
    **_rows(Commit, late=_OVER),
}
"""A leader never abstains or concludes: lacking a partition it voids the round."""

MEMBER_HANDLES: Final[Table] = {
    **_rows(Propose, late=tuple(S)),
    **_rows(Begin, take=(S.GATHERING,), late=(S.EXCHANGING, S.VOTED, S.ABSTAINED, S.CONCLUDING, *_OVER)),
    **_rows(Part, take=(S.EXCHANGING, S.ABSTAINED, S.CONCLUDING), keep=(S.GATHERING,), late=(S.VOTED, *_OVER)),
    **_rows(
        AveragedPart,
        take=(S.EXCHANGING, S.CONCLUDING),
        keep=(S.GATHERING,),
        late=(S.VOTED, S.ABSTAINED, *_OVER),
    ),
    **_rows(Commit, take=(S.EXCHANGING, S.VOTED, S.ABSTAINED), keep=(S.GATHERING,), late=(S.CONCLUDING, *_OVER)),
    **_rows(
        Discard,
        take=(S.FREEZING, S.GATHERING, S.EXCHANGING, S.VOTED, S.ABSTAINED),
        late=(S.CONCLUDING, *_OVER),
    ),
}

FROM_LEADER_ONLY: Final = frozenset({Propose, Begin, Discard})
