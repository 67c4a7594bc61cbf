"""The leaderboard, as sums over judged contributions. Functions of a database session."""

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
    verified = _sum_of(CreditState.VERIFIED)
    pending = _sum_of(CreditState.PENDING)
    rounds = sa.func.coalesce(sa.func.sum(sa.case((Contribution.state == CreditState.VERIFIED.value, 1), else_=0)), 0)
    rows = session.execute(
        sa.select(
            Contribution.contributor,
            sa.func.max(PeerName.name),
            verified,
            pending,
            _sum_of(CreditState.REJECTED),
            rounds,
        )
        .outerjoin(PeerName, PeerName.peer_id == Contribution.contributor)
        .where(*chosen)
        .group_by(Contribution.contributor)
        .order_by(verified.desc(), pending.desc(), Contribution.contributor)
        .limit(count)
    )
    peers_total, tokens_total = session.execute(
        sa.select(sa.func.count(Contribution.contributor.distinct()), verified).where(*chosen)
    ).one()
    entries = tuple(
        BoardEntry(
            peer_id=peer_id,
            name=name or "",
            verified_tokens=int(verified_tokens),
            pending_tokens=int(pending_tokens),
            rejected_tokens=int(rejected_tokens),
            rounds=int(verified_rounds),
        )
        for peer_id, name, verified_tokens, pending_tokens, rejected_tokens, verified_rounds in rows
    )
    return Board(
        project_id=project_id, rows=entries, peers_total=int(peers_total), verified_tokens_total=int(tokens_total)
    )


def _sum_of(state: CreditState) -> sa.ColumnElement[int]:
    tokens = sa.case((Contribution.state == state.value, Contribution.tokens), else_=0)
    return sa.func.coalesce(sa.func.sum(tokens), 0)
