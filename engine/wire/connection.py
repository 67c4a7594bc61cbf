"""One link's conversation: hello first, versions compared, budgets kept. PURE. Spec: docs/specs/wire.md."""

from engine.wire.budget import Budget
from engine.wire.codec import decode, encode
from engine.wire.errors import WireError
from engine.wire.limits import (
    BUDGET_BURST_SECONDS,
    HELLO_DEADLINE_SECONDS,
    MAX_CONTROL_BYTES_PER_SECOND,
    MAX_EARLY_BULK_BYTES,
    MAX_MESSAGES_PER_SECOND,
)
from engine.wire.messages import PeerHello, PeerMessage


class PeerConnection:
    """What one peer may say on one link. Its owner sends `hello()` first, in the control lane, and closes the link on
    any WireError. Until `ready`, its owner sends nothing else.
    """

    def __init__(self, mine: PeerHello, now: float) -> None:
        self._mine = mine
        self._opened_at = now
        self._theirs: PeerHello | None = None
        self._messages = Budget(MAX_MESSAGES_PER_SECOND, BUDGET_BURST_SECONDS, now)
        self._control_bytes = Budget(MAX_CONTROL_BYTES_PER_SECOND, BUDGET_BURST_SECONDS, now)
        self._early: list[PeerMessage] = []
        self._early_bytes = 0

    def hello(self) -> bytes:
        """The first message to send, in the control lane."""
        return encode(self._mine)

    @property
    def ready(self) -> bool:
        """Whether both speak the same protocol about the same project."""
        return self._theirs is not None

    @property
    def peer_software(self) -> str:
        """What the peer says that it runs; empty before its hello."""
        return self._theirs.software if self._theirs else ""

    def check_deadline(self, now: float) -> None:
        """Call now and then.

        Raises:
            WireError: the hello is overdue.
        """
        if self._theirs is None and now - self._opened_at > HELLO_DEADLINE_SECONDS:
            raise WireError(f"no hello within {HELLO_DEADLINE_SECONDS:.0f} seconds")

    def on_message(self, lane_is_bulk: bool, data: bytes, now: float) -> list[PeerMessage]:
        """The messages to act on now, in order. The peer's hello is not among them.

        Lanes are not ordered against each other, so bulk that overtook the hello is held until the hello comes.

        Raises:
            WireError: over budget, malformed, in the wrong lane, or another protocol version or manifest.
        """
        self._charge(lane_is_bulk, len(data), now)
        message = decode(data, lane_is_bulk)
        if isinstance(message, PeerHello):
            return self._on_hello(message)
        if self._theirs is not None:
            return [message]
        if not lane_is_bulk:
            raise WireError(f"a {type(message).__name__} came before the hello")
        self._early_bytes += len(data)
        if self._early_bytes > MAX_EARLY_BULK_BYTES:
            raise WireError(f"{self._early_bytes} bytes of bulk came before the hello")
        self._early.append(message)
        return []

    def _charge(self, lane_is_bulk: bool, size: int, now: float) -> None:
        if not self._messages.spend(1.0, now):
            raise WireError(f"more than {MAX_MESSAGES_PER_SECOND:.0f} messages a second")
        if not lane_is_bulk and not self._control_bytes.spend(float(size), now):
            raise WireError(f"more than {MAX_CONTROL_BYTES_PER_SECOND:.0f} control bytes a second")

    def _on_hello(self, hello: PeerHello) -> list[PeerMessage]:
        if self._theirs is not None:
            raise WireError("a second hello")
        mine = self._mine
        if hello.protocol_version != mine.protocol_version:
            raise WireError(
                f"the peer speaks protocol version {hello.protocol_version} ({hello.software!r}), "
                f"this computer version {mine.protocol_version} ({mine.software!r})"
            )
        if hello.manifest_hash != mine.manifest_hash:
            raise WireError(
                f"the peer trains project {hello.manifest_hash.hex()[:16]}, "
                f"this computer project {mine.manifest_hash.hex()[:16]}"
            )
        self._theirs = hello
        early, self._early = self._early, []
        self._early_bytes = 0
        return early
