"""The hub's tables. Migrations in `migrations/versions` make them; a test compares the two."""

from typing import Final

from sqlalchemy import BigInteger, Double, ForeignKey, Index, Integer, LargeBinary, MetaData, String, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

PEER_ID_CHARS: Final = 52
PROJECT_ID_CHARS: Final = 64
SLUG_CHARS: Final = 40
STATE_CHARS: Final = 20
NAME_CHARS: Final = 40

# SQLite numbers rows by itself only in a column of type INTEGER.
RowId = BigInteger().with_variant(Integer(), "sqlite")


class Base(DeclarativeBase):
    """All tables; constraints are named alike on every database, so that migrations can find them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class Project(Base):
    """A published manifest, as its publisher signed it."""

    __tablename__ = "projects"

    sequence: Mapped[int] = mapped_column(RowId, primary_key=True, autoincrement=True)  # order of publication
    project_id: Mapped[str] = mapped_column(String(PROJECT_ID_CHARS), unique=True)
    name: Mapped[str] = mapped_column(String(SLUG_CHARS), index=True)
    publisher_id: Mapped[str] = mapped_column(String(PEER_ID_CHARS), index=True)
    sequence_length: Mapped[int] = mapped_column(Integer)  # tokens a sample
    payload: Mapped[bytes] = mapped_column(LargeBinary)
    public_key: Mapped[bytes] = mapped_column(LargeBinary(32))
    signature: Mapped[bytes] = mapped_column(LargeBinary(64))
    published_at: Mapped[float] = mapped_column(Double)


class StoredReceipt(Base):
    """A receipt that is sound by itself, as its aggregator signed it. `sequence` is the cursor of the export."""

    __tablename__ = "receipts"
    __table_args__ = (
        UniqueConstraint("receipt_hash"),
        Index(None, "project_id", "sequence"),
        Index(None, "project_id", "round_id", "contributor"),
    )

    sequence: Mapped[int] = mapped_column(RowId, primary_key=True, autoincrement=True)
    project_id: Mapped[str] = mapped_column(String(PROJECT_ID_CHARS), ForeignKey("projects.project_id"))
    round_id: Mapped[bytes] = mapped_column(LargeBinary(16))
    contributor: Mapped[str] = mapped_column(String(PEER_ID_CHARS))
    receipt_hash: Mapped[bytes] = mapped_column(LargeBinary(32))  # SHA-256 of the payload
    payload: Mapped[bytes] = mapped_column(LargeBinary)
    signature: Mapped[bytes] = mapped_column(LargeBinary(64))
    received_at: Mapped[float] = mapped_column(Double)


class Contribution(Base):
    """One peer's work in one round: what `engine.ledger.accounting.judge` says of the stored receipts about it."""

    __tablename__ = "contributions"
    __table_args__ = (Index(None, "project_id", "contributor"), Index(None, "project_id", "state"))

    project_id: Mapped[str] = mapped_column(
        String(PROJECT_ID_CHARS), ForeignKey("projects.project_id"), primary_key=True
    )
    round_id: Mapped[bytes] = mapped_column(LargeBinary(16), primary_key=True)
    contributor: Mapped[str] = mapped_column(String(PEER_ID_CHARS), primary_key=True)
    state: Mapped[str] = mapped_column(String(STATE_CHARS))
    reason: Mapped[str] = mapped_column(String(STATE_CHARS))
    tokens: Mapped[int] = mapped_column(BigInteger)
    samples: Mapped[int] = mapped_column(BigInteger)
    global_step: Mapped[int] = mapped_column(BigInteger)
    signers: Mapped[int] = mapped_column(Integer)
    quorum: Mapped[int] = mapped_column(Integer)
    first_received_at: Mapped[float] = mapped_column(Double)


class PeerName(Base):
    """The newest display name that a peer signed: a label, never an identity."""

    __tablename__ = "names"

    peer_id: Mapped[str] = mapped_column(String(PEER_ID_CHARS), primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_CHARS))
    at: Mapped[float] = mapped_column(Double)
    signature: Mapped[bytes] = mapped_column(LargeBinary(64))
