"""The leaderboard, as sums over judged contributions. Functions of a database session."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from engine.hub.limits import MAX_BOARD_ROWS
from engine.hub.models import Contribution, PeerName
from engine.hub.protocol import Board, BoardEntry
from engine.ledger.accounting import CreditState


def read_board(session: Session, project_id: str, since: float | None = None, count: int = MAX_BOARD_ROWS) -> Board:
    """The best `count` peers of a project.

    `since`: only contributions that the hub first heard of at or after that time (seconds since the epoch).
    """
    chosen = [Contribution.project_id == project_id]
    if since is not None:
        chosen.append(Contribution.first_received_at >= since)
    totals = sa.select(sa.func.count(Contribution.contributor.distinct()), _sum_of(CreditState.VERIFIED))
    peers_total, tokens_total = session.execute(totals.where(*chosen)).one()
    return Board(
        project_id=project_id,
        rows=_entries(session, chosen, count),
        peers_total=int(peers_total),
        verified_tokens_total=int(tokens_total),
    )


def _entries(session: Session, chosen: Sequence[sa.ColumnElement[bool]], count: int) -> tuple[BoardEntry, ...]:
    verified, pending = _sum_of(CreditState.VERIFIED), _sum_of(CreditState.PENDING)
    rounds = sa.func.sum(sa.case((Contribution.state == CreditState.VERIFIED.value, 1), else_=0))
    name = sa.func.max(PeerName.name)
    rows = session.execute(
        sa.select(Contribution.contributor, name, verified, pending, _sum_of(CreditState.REJECTED), rounds)
        .outerjoin(PeerName, PeerName.peer_id == Contribution.contributor)
        .where(*chosen)
        .group_by(Contribution.contributor)
        .order_by(verified.desc(), pending.desc(), Contribution.contributor)
        .limit(count)
    )
    return tuple(
        BoardEntry(
            peer_id=row[0],
            name=row[1] or "",
            verified_tokens=int(row[2]),
            pending_tokens=int(row[3]),
            rejected_tokens=int(row[4]),
            rounds=int(row[5]),
        )
        for row in rows
    )


def _sum_of(state: CreditState) -> sa.ColumnElement[int]:
    tokens = sa.case((Contribution.state == state.value, Contribution.tokens), else_=0)
    return sa.func.coalesce(sa.func.sum(tokens), 0)
