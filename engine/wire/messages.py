"""Peer messages: msgpack, tagged, bounded. Spec: docs/specs/wire.md.

Tensor bytes ride as `payload` fields, little-endian; their length is checked against the signed manifest by whoever
uses them. Every field from a peer is bounded here or in `codec.decode`.
"""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

PROTOCOL_VERSION: Final = 2
MAX_MEMBERS: Final = 64
MAX_PARTITIONS: Final = 512
MAX_CONTROL_BYTES: Final = 64 * 1024
MAX_STATE_CHUNK_BYTES: Final = 1024 * 1024
MAX_PASSED_ON_BYTES: Final = 40 * 1024
"""Of an introduction; equals `engine.signaling.messages.MAX_ROOM_PAYLOAD_BYTES`, to which a test holds it."""
MAX_LINE_PROBE_BYTES: Final = 256 * 1024

PeerIdText: TypeAlias = Annotated[str, msgspec.Meta(min_length=52, max_length=52, pattern=r"^[a-z2-7]{52}\Z")]
HashBytes: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Signature: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]
CodecNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=255)]
RoundId: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=200)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Small: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
Rate: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=1e15)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=3600.0)]


class Message(msgspec.Struct, frozen=True, kw_only=True, array_like=False, forbid_unknown_fields=False):
    """Base of all peer messages; unknown fields are ignored so that newer peers may add some."""


class PeerHello(Message, frozen=True, kw_only=True, tag="hello"):
    """First message on every link, both ways. Anything else first, or a difference, closes the link."""

    protocol_version: Small
    manifest_hash: HashBytes
    software: Annotated[str, msgspec.Meta(max_length=60)]


class Progress(Message, frozen=True, kw_only=True, tag="progress"):
    """How far a peer is. Pushed when it changes, at least every few seconds. `sequence` only grows."""

    sequence: Count
    global_step: Count
    weights_hash: HashBytes
    samples: Count  # accumulated towards the next step
    samples_per_second: Rate
    upload_bytes_per_second: Rate  # 0: not measured
    download_bytes_per_second: Rate
    training: bool  # accumulates now (not paused, not catching up)
    name: Annotated[str, msgspec.Meta(max_length=40)] = ""
    held_out_loss: Annotated[float, msgspec.Meta(ge=0.0, le=1e6)] | None = None
    held_out_step: Count | None = None


class Goodbye(Message, frozen=True, kw_only=True, tag="goodbye"):
    """The sender leaves on purpose."""

    reason: Text


# Introductions without the hub. Spec: docs/specs/signaling.md.


class Neighbours(Message, frozen=True, kw_only=True, tag="neighbours"):
    """With whom the sender has links: it can introduce the receiver to these."""

    peers: Annotated[tuple[PeerIdText, ...], msgspec.Meta(max_length=MAX_MEMBERS)]


class PassOn(Message, frozen=True, kw_only=True, tag="pass_on"):
    """An envelope of `from_peer` for `to_peer`. Only a neighbour of both passes it on; the envelope is signed."""

    from_peer: PeerIdText
    to_peer: PeerIdText
    payload: Annotated[bytes, msgspec.Meta(max_length=MAX_PASSED_ON_BYTES)]


class LineProbe(Message, frozen=True, kw_only=True, tag="line_probe"):
    """Bulk: bytes without meaning, sent once by a peer that has not seen what its line can do."""

    payload: Annotated[bytes, msgspec.Meta(max_length=MAX_LINE_PROBE_BYTES)]


# The averaging round. Spec and state tables: docs/specs/averaging.md.


class Propose(Message, frozen=True, kw_only=True, tag="propose"):
    """Leader to candidates: begin a round that takes `global_step` to `global_step + 1`."""

    round_id: RoundId
    global_step: Count
    weights_hash: HashBytes
    attempt: Small


class Accept(Message, frozen=True, kw_only=True, tag="accept"):
    """Candidate to leader: my accumulators are frozen; this is what they hold."""

    round_id: RoundId
    samples: Count
    tokens: Count
    loss_sum: Annotated[float, msgspec.Meta(ge=0.0, le=1e18)]  # nats, summed over `tokens`
    upload_bytes_per_second: Rate  # 0: not measured
    download_bytes_per_second: Rate = 0.0


class Decline(Message, frozen=True, kw_only=True, tag="decline"):
    """Candidate to leader: not now."""

    round_id: RoundId
    reason: Text


class Member(Message, frozen=True, kw_only=True):
    """One row of a round's roll, in the order in which aggregators add."""

    peer_id: PeerIdText
    samples: Count
    tokens: Count
    loss_sum: Annotated[float, msgspec.Meta(ge=0.0, le=1e18)]
    share: Annotated[int, msgspec.Meta(ge=0, le=2**40)]  # elements of the vector that it aggregates
    upload_bytes_per_second: Rate = 0.0  # as it said: from these lines all members can check the shares
    download_bytes_per_second: Rate = 0.0


class Begin(Message, frozen=True, kw_only=True, tag="begin"):
    """Leader to members: the roll in ascending order of peer ids, with partitions as consecutive runs in that order."""

    round_id: RoundId
    global_step: Count
    members: Annotated[tuple[Member, ...], msgspec.Meta(min_length=1, max_length=MAX_MEMBERS)]


class Part(Message, frozen=True, kw_only=True, tag="part"):
    """Member to aggregator, bulk: its gradient sum over one of its partitions, as `codec` writes it."""

    round_id: RoundId
    partition: Small = 0
    codec: CodecNumber = 0  # float32; see docs/specs/averaging.md
    payload: bytes


class AveragedPart(Message, frozen=True, kw_only=True, tag="averaged"):
    """Aggregator to member, bulk: the mean of a partition over `contributors`' samples, as `codec` writes it."""

    round_id: RoundId
    partition: Small = 0
    codec: CodecNumber = 0
    contributors: Annotated[tuple[Small, ...], msgspec.Meta(max_length=MAX_MEMBERS)]  # indexes into the roll
    payload: bytes


class Vote(Message, frozen=True, kw_only=True, tag="vote"):
    """Member to leader: I hold every partition; `digests[j]` is the SHA-256 of partition j with its contributors.

    Partitions follow one another through the vector: see docs/specs/averaging.md.
    """

    round_id: RoundId
    digests: Annotated[tuple[HashBytes, ...], msgspec.Meta(max_length=MAX_PARTITIONS)]


class Abstain(Message, frozen=True, kw_only=True, tag="abstain"):
    """Member to leader: something is missing or wrong here."""

    round_id: RoundId
    reason: Text


class Commit(Message, frozen=True, kw_only=True, tag="commit"):
    """Leader to members, and every member to every other once: the round stands.

    `accepted` are the roll indexes whose gradient is in every partition; only they are credited.
    """

    round_id: RoundId
    global_step: Count
    digests: Annotated[tuple[HashBytes, ...], msgspec.Meta(max_length=MAX_PARTITIONS)]
    accepted: Annotated[tuple[Small, ...], msgspec.Meta(max_length=MAX_MEMBERS)]


class Discard(Message, frozen=True, kw_only=True, tag="discard"):
    """Leader to members: the round is void; accumulated gradients stay for the next one.

    Also to a candidate whose answer came too late to be on the roll. `blame` is who broke the round, if one peer did.
    """

    round_id: RoundId
    reason: Text
    blame: PeerIdText | None = None


# State transfer to a joiner or to one that fell behind.


class StateRequest(Message, frozen=True, kw_only=True, tag="state_request"):
    """Ask for what brings the sender from `from_step` to the newest state; None: it has no state yet."""

    from_step: Count | None = None


class StateOffer(Message, frozen=True, kw_only=True, tag="state_offer"):
    """A frozen blob that the sender serves for a while under `state_hash`.

    "state": the whole shared state at `global_step`. "deltas": the committed mean gradients of steps `from_step` to
    `global_step` - 1, float32, one after the other, shape [global_step - from_step, parameter_count]; applied by
    the project's optimizer gives the same bits and costs a third of the state for each step.
    """

    kind: Literal["state", "deltas"]
    from_step: Count
    global_step: Count
    state_hash: HashBytes  # SHA-256 of the whole blob
    weights_hash: HashBytes
    size_bytes: Count
    chunk_bytes: Annotated[int, msgspec.Meta(ge=1024, le=MAX_STATE_CHUNK_BYTES)]


class StateUnavailable(Message, frozen=True, kw_only=True, tag="state_unavailable"):
    """The sender has nothing to offer now, or no longer serves that hash."""

    reason: Text


class ChunkRequest(Message, frozen=True, kw_only=True, tag="chunk_request"):
    """Ask for one chunk of an offered state."""

    state_hash: HashBytes
    index: Small


class Chunk(Message, frozen=True, kw_only=True, tag="chunk"):
    """Bulk: one chunk."""

    state_hash: HashBytes
    index: Small
    payload: bytes


PeerMessage: TypeAlias = (
    PeerHello
    | Progress
    | Goodbye
    | Neighbours
    | PassOn
    | LineProbe
    | Propose
    | Accept
    | Decline
    | Begin
    | Part
    | AveragedPart
    | Vote
    | Abstain
    | Commit
    | Discard
    | StateRequest
    | StateOffer
    | StateUnavailable
    | ChunkRequest
    | Chunk
)

BULK_MESSAGES: Final = (Part, AveragedPart, Chunk, LineProbe)
"""These travel in the bulk lane; all others in the control lane, at most MAX_CONTROL_BYTES each."""
