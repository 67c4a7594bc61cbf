"""The HTTP API's bodies, as frozen types with bounds, for the hub and its client alike. Spec: docs/specs/hub.md."""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from engine.hub.limits import MAX_BOARD_ROWS, MAX_NAME_CHARS, MAX_RECEIPTS_PER_PAGE, MAX_RECEIPTS_PER_POST
from engine.ledger.receipts import SignedReceipt
from engine.manifest.schema import SignedManifest
from engine.signaling.messages import IceServer
from engine.wire.messages import PeerIdText, Signature

API_VERSION: Final = 1
NAME_SIGNING_CONTEXT: Final = b"potluck name v1\n"

ProjectId: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
NotNegative: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
At: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=2.0**40)]  # seconds since the epoch
DisplayName: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_NAME_CHARS)]
Code: TypeAlias = Annotated[str, msgspec.Meta(max_length=40, pattern=r"^[a-z_]*\Z")]
Detail: TypeAlias = Annotated[str, msgspec.Meta(max_length=500)]


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """Base; unknown fields are ignored, so that newer ends may add some."""


class HubInfo(Body, frozen=True, kw_only=True):
    """GET /api/v1/hub. Servers with credentials are told in rooms only."""

    name: Annotated[str, msgspec.Meta(max_length=120)]
    version: Annotated[str, msgspec.Meta(max_length=40)]
    api_version: NotNegative
    ice_servers: Annotated[tuple[IceServer, ...], msgspec.Meta(max_length=16)] = ()


class ProjectEntry(Body, frozen=True, kw_only=True):
    """One project as it stands in the catalogue."""

    signed_manifest: SignedManifest
    peers_now: NotNegative
    tokens_verified: NotNegative


class ProjectPage(Body, frozen=True, kw_only=True):
    """GET /api/v1/projects, newest first. `next` is the cursor of the next page, None on the last."""

    projects: tuple[ProjectEntry, ...]
    next: NotNegative | None = None


class RawProjectPage(Body, frozen=True, kw_only=True):
    """A `ProjectPage` whose entries are not parsed yet, so that one bad entry spoils only itself."""

    projects: Annotated[tuple[msgspec.Raw, ...], msgspec.Meta(max_length=1000)]
    next: NotNegative | None = None


class Published(Body, frozen=True, kw_only=True):
    """Reply to POST /api/v1/projects."""

    project_id: ProjectId
    status: Literal["stored", "duplicate"]


class BoardEntry(Body, frozen=True, kw_only=True):
    """One volunteer. `name` is what the peer calls itself, "" when it has said nothing."""

    peer_id: PeerIdText
    name: DisplayName
    verified_tokens: NotNegative
    pending_tokens: NotNegative
    rejected_tokens: NotNegative
    rounds: NotNegative  # verified ones


class Board(Body, frozen=True, kw_only=True):
    """GET /api/v1/projects/{project_id}/leaderboard: best first, at most MAX_BOARD_ROWS; totals are of all peers."""

    project_id: ProjectId
    rows: Annotated[tuple[BoardEntry, ...], msgspec.Meta(max_length=MAX_BOARD_ROWS)]
    peers_total: NotNegative
    verified_tokens_total: NotNegative


class ReceiptEntry(Body, frozen=True, kw_only=True):
    """A stored receipt and when the hub got it, by the hub's clock."""

    receipt: SignedReceipt
    received_at: At


class ReceiptPage(Body, frozen=True, kw_only=True):
    """GET /api/v1/projects/{project_id}/receipts, oldest first. `next` is the cursor to go on from; None: no more."""

    receipts: Annotated[tuple[ReceiptEntry, ...], msgspec.Meta(max_length=MAX_RECEIPTS_PER_PAGE)]
    next: NotNegative | None = None


class ReceiptsPost(Body, frozen=True, kw_only=True):
    """POST /api/v1/receipts; entries are parsed one by one."""

    receipts: Annotated[tuple[msgspec.Raw, ...], msgspec.Meta(max_length=MAX_RECEIPTS_PER_POST)]


class ReceiptResult(Body, frozen=True, kw_only=True):
    """What became of one posted receipt; `reason` is a code, "" unless it was rejected."""

    status: Literal["stored", "duplicate", "rejected"]
    reason: Code = ""


class ReceiptResults(Body, frozen=True, kw_only=True):
    """Reply to POST /api/v1/receipts, in the order of the post."""

    results: Annotated[tuple[ReceiptResult, ...], msgspec.Meta(max_length=MAX_RECEIPTS_PER_POST)]


class NameClaim(Body, frozen=True, kw_only=True):
    """What a peer signs to be shown under a name. Its canonical bytes are its msgpack encoding, in this order."""

    peer_id: PeerIdText
    name: DisplayName
    at: At  # only a later claim replaces an earlier one


class SignedName(Body, frozen=True, kw_only=True):
    """POST /api/v1/names: the claim's fields and the peer's signature over `name_bytes`."""

    peer_id: PeerIdText
    name: DisplayName
    at: At
    signature: Signature


class NameStored(Body, frozen=True, kw_only=True):
    """Reply to POST /api/v1/names."""

    status: Literal["stored", "duplicate"]


class ErrorDetail(Body, frozen=True, kw_only=True):
    """Why a call was refused."""

    code: Code
    detail: Detail = ""


class ErrorReply(Body, frozen=True, kw_only=True):
    """The body of every reply that is not 200."""

    error: ErrorDetail


def name_bytes(claim: NameClaim) -> bytes:
    """What is signed for a display name."""
    return NAME_SIGNING_CONTEXT + msgspec.msgpack.encode(claim)
