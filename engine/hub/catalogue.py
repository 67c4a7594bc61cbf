"""The catalogue of projects. Functions of a database session, run in the database's thread."""

from collections.abc import Sequence
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.orm import Session

from engine.hub.config import PublishPolicy
from engine.hub.limits import MAX_CATALOGUE_PAGE_BYTES, HubLimits
from engine.hub.models import Contribution, Project
from engine.hub.refusals import Refusal
from engine.ledger.accounting import CreditState
from engine.manifest.errors import ManifestError
from engine.manifest.schema import SignedManifest
from engine.manifest.verify import VerifiedManifest, open_signed


def verify_manifest(signed: SignedManifest) -> VerifiedManifest:
    """Signature and bounds.

    Raises:
        Refusal: bad_manifest.
    """
    try:
        return open_signed(signed)
    except ManifestError as error:
        raise Refusal("bad_manifest", str(error)[:300]) from error


def publish(
    session: Session, signed: SignedManifest, policy: PublishPolicy, limits: HubLimits, now: float
) -> tuple[str, Literal["stored", "duplicate"]]:
    """Add a project; (its id, what happened). Publishing what is there already changes nothing.

    Raises:
        Refusal: bad_manifest, not_allowed, name_taken (a name belongs to whoever published it first), full.
    """
    verified = verify_manifest(signed)
    if is_known(session, verified.project_id):
        return verified.project_id, "duplicate"
    _check_allowed(session, verified, policy, limits)
    session.add(
        Project(
            project_id=verified.project_id,
            name=verified.manifest.name,
            publisher_id=verified.publisher_id,
            sequence_length=verified.manifest.data.sequence_length,
            payload=signed.payload,
            public_key=signed.public_key,
            signature=signed.signature,
            published_at=now,
        )
    )
    return verified.project_id, "stored"


def _check_allowed(session: Session, verified: VerifiedManifest, policy: PublishPolicy, limits: HubLimits) -> None:
    if policy != "open" and verified.publisher_id not in policy:
        raise Refusal("not_allowed", "this hub publishes only the projects of publishers that its operator chose")
    owner = session.scalar(sa.select(Project.publisher_id).where(Project.name == verified.manifest.name).limit(1))
    if owner is not None and owner != verified.publisher_id:
        raise Refusal("name_taken", f"another publisher has a project named {verified.manifest.name} here")
    mine = sa.select(sa.func.count()).select_from(Project).where(Project.publisher_id == verified.publisher_id)
    if (session.scalar(mine) or 0) >= limits.max_projects_per_publisher:
        raise Refusal("full", "this publisher has as many projects here as the hub keeps of one publisher")
    if (session.scalar(sa.select(sa.func.count()).select_from(Project)) or 0) >= limits.max_projects:
        raise Refusal("full", "this hub has as many projects as it keeps")


def is_known(session: Session, project_id: str) -> bool:
    """Whether the catalogue has this project."""
    return session.scalar(sa.select(Project.sequence).where(Project.project_id == project_id)) is not None


def versions_of(session: Session, name: str, count: int) -> Sequence[Project]:
    """Up to `count` projects published under this name, newest first."""
    newest_first = sa.select(Project).where(Project.name == name).order_by(Project.sequence.desc())
    return session.scalars(newest_first.limit(count)).all()


def newest_of_each(session: Session, count: int) -> Sequence[Project]:
    """Up to `count` projects, newest first; of those that share a name, the newest."""
    newest = sa.select(sa.func.max(Project.sequence)).group_by(Project.name)
    query = sa.select(Project).where(Project.sequence.in_(newest)).order_by(Project.sequence.desc())
    return session.scalars(query.limit(count)).all()


def page(session: Session, before: int | None) -> tuple[Sequence[Project], int | None]:
    """Projects newest first, those older than the cursor `before`; and the next page's cursor, None at the end."""
    sizes = sa.select(Project.sequence, sa.func.length(Project.payload)).order_by(Project.sequence.desc())
    if before is not None:
        sizes = sizes.where(Project.sequence < before)
    chosen: list[int] = []
    total_bytes = 0
    more = False
    for sequence, size_bytes in session.execute(sizes):
        total_bytes += size_bytes
        if chosen and total_bytes > MAX_CATALOGUE_PAGE_BYTES:
            more = True
            break
        chosen.append(sequence)
    projects = session.scalars(
        sa.select(Project).where(Project.sequence.in_(chosen)).order_by(Project.sequence.desc())
    ).all()
    return projects, chosen[-1] if more else None


def verified_tokens(session: Session, project_ids: Sequence[str]) -> dict[str, int]:
    """Verified tokens of each project that has any."""
    rows = session.execute(
        sa.select(Contribution.project_id, sa.func.sum(Contribution.tokens))
        .where(Contribution.project_id.in_(project_ids), Contribution.state == CreditState.VERIFIED.value)
        .group_by(Contribution.project_id)
    )
    return {project_id: int(tokens) for project_id, tokens in rows}


def signed_manifest_of(project: Project) -> SignedManifest:
    """As it was published."""
    return SignedManifest(payload=project.payload, public_key=project.public_key, signature=project.signature)
