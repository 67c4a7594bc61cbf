"""The first tables: projects, receipts, contributions, names."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Apply."""
    _create_names()
    _create_projects()
    _create_contributions()
    _create_receipts()


def downgrade() -> None:
    """Undo."""
    for table in ("receipts", "contributions", "projects", "names"):
        op.drop_table(table)


def _create_names() -> None:
    op.create_table(
        "names",
        sa.Column("peer_id", sa.String(length=52), nullable=False),
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("signature", sa.LargeBinary(length=64), nullable=False),
        sa.PrimaryKeyConstraint("peer_id", name="pk_names"),
    )


def _create_projects() -> None:
    op.create_table(
        "projects",
        sa.Column("sequence", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("publisher_id", sa.String(length=52), nullable=False),
        sa.Column("sequence_length", sa.Integer(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("public_key", sa.LargeBinary(length=32), nullable=False),
        sa.Column("signature", sa.LargeBinary(length=64), nullable=False),
        sa.Column("published_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_projects"),
        sa.UniqueConstraint("project_id", name="uq_projects_project_id"),
    )
    op.create_index("ix_projects_name", "projects", ["name"], unique=False)
    op.create_index("ix_projects_publisher_id", "projects", ["publisher_id"], unique=False)


def _create_contributions() -> None:
    op.create_table(
        "contributions",
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("round_id", sa.LargeBinary(length=16), nullable=False),
        sa.Column("contributor", sa.String(length=52), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("reason", sa.String(length=20), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("global_step", sa.BigInteger(), nullable=False),
        sa.Column("signers", sa.Integer(), nullable=False),
        sa.Column("quorum", sa.Integer(), nullable=False),
        sa.Column("first_received_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.project_id"], name="fk_contributions_project_id"),
        sa.PrimaryKeyConstraint("project_id", "round_id", "contributor", name="pk_contributions"),
    )
    op.create_index(
        "ix_contributions_project_id_contributor", "contributions", ["project_id", "contributor"], unique=False
    )
    op.create_index("ix_contributions_project_id_state", "contributions", ["project_id", "state"], unique=False)


def _create_receipts() -> None:
    op.create_table(
        "receipts",
        sa.Column("sequence", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("round_id", sa.LargeBinary(length=16), nullable=False),
        sa.Column("contributor", sa.String(length=52), nullable=False),
        sa.Column("receipt_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("signature", sa.LargeBinary(length=64), nullable=False),
        sa.Column("received_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.project_id"], name="fk_receipts_project_id"),
        sa.PrimaryKeyConstraint("sequence", name="pk_receipts"),
        sa.UniqueConstraint("receipt_hash", name="uq_receipts_receipt_hash"),
    )
    op.create_index(
        "ix_receipts_project_id_round_id_contributor",
        "receipts",
        ["project_id", "round_id", "contributor"],
        unique=False,
    )
    op.create_index("ix_receipts_project_id_sequence", "receipts", ["project_id", "sequence"], unique=False)
