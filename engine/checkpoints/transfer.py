"""Fetching a blob from peers, chunk by chunk, from several at once. Pure: requests come out, chunks and the time go in.

`to_blob` and `from_blob` of `format` make and read what is transferred.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Final

from engine.checkpoints.errors import BlobError, ChunkError
from engine.checkpoints.format import from_blob, max_blob_bytes, to_blob

__all__ = ["ChunkFetch", "Request", "chunk_count", "chunk_of", "from_blob", "max_blob_bytes", "to_blob"]

MAX_TIMEOUTS: Final = 2
"""A donor that is late this often in a row is left."""


@dataclass(frozen=True, slots=True)
class Request:
    """Ask `peer_id` for chunk `index`."""

    peer_id: str
    index: int


@dataclass(slots=True)
class _Donor:
    asked_at: dict[int, float] = field(default_factory=dict)  # by chunk, while unanswered
    asked: set[int] = field(default_factory=set)  # ever
    timeouts: int = 0


def chunk_count(size_bytes: int, chunk_bytes: int) -> int:
    """How many chunks a blob has; the last may be shorter."""
    return -(-size_bytes // chunk_bytes)


def chunk_of(blob: bytes, index: int, chunk_bytes: int) -> bytes:
    """The donor's side.

    Raises:
        ChunkError: there is no such chunk.
    """
    if not 0 <= index < chunk_count(len(blob), chunk_bytes):
        raise ChunkError(f"chunk {index} of {chunk_count(len(blob), chunk_bytes)} was asked for")
    return blob[index * chunk_bytes : (index + 1) * chunk_bytes]


class ChunkFetch:
    """One blob, known by its SHA-256, from all donors that offer it.

    Drive it: `add_donor`, send what `requests(now)` gives, feed `on_chunk`, call `requests` again after every event
    and at `next_deadline()`. When `complete`, `take()` gives the verified blob, or starts over with one donor at a
    time to find the liar, who ends up in `bad_donors`.
    """

    def __init__(
        self,
        state_hash: bytes,
        size_bytes: int,
        chunk_bytes: int,
        *,
        max_bytes: int,
        window: int = 4,
        timeout_seconds: float = 20.0,
    ) -> None:
        """`max_bytes` follows from the manifest; `window` is the number of unanswered requests to one donor.

        Raises:
            BlobError: the offer is larger than can be, or empty; nothing was allocated.
        """
        if not 0 < size_bytes <= max_bytes or chunk_bytes < 1:
            raise BlobError(
                f"{size_bytes} bytes are offered in chunks of {chunk_bytes}, at most {max_bytes} can be right"
            )
        self.state_hash = state_hash
        self._chunk_bytes = chunk_bytes
        self._window = window
        self._timeout_seconds = timeout_seconds
        self._buffer = bytearray(size_bytes)
        self._missing = set(range(chunk_count(size_bytes, chunk_bytes)))
        self._donors: dict[str, _Donor] = {}
        self._givers: set[str] = set()
        self._only: str | None = None  # after a failure: the one donor on trial
        self._one_by_one = False
        self.bad_donors: set[str] = set()
        """Each gave a whole blob that was not what its hash promised."""

    @property
    def complete(self) -> bool:
        """All chunks are here; not yet verified."""
        return not self._missing

    @property
    def stuck(self) -> bool:
        """Chunks are missing and no donor is left: look for offers anew."""
        return bool(self._missing) and not self._donors

    @property
    def received_bytes(self) -> int:
        """For a progress display."""
        return sum(self._length(index) for index in range(self._chunks) if index not in self._missing)

    @property
    def _chunks(self) -> int:
        return chunk_count(len(self._buffer), self._chunk_bytes)

    def add_donor(self, peer_id: str) -> None:
        """A peer offers this very blob. One that was found bad is ignored."""
        if peer_id not in self.bad_donors:
            self._donors.setdefault(peer_id, _Donor())

    def remove_donor(self, peer_id: str) -> None:
        """A donor is gone or no longer offers: its unanswered requests go to others. Safe to repeat."""
        self._donors.pop(peer_id, None)
        if self._only == peer_id:
            self._start_over()

    def requests(self, now: float) -> list[Request]:
        """What to send now, spread over the donors; takes back what is overdue."""
        self._expire(now)
        if self._one_by_one and self._only is None and self._donors:
            self._only = min(self._donors)
        found: list[Request] = []
        wanted = sorted(self._missing - {index for donor in self._donors.values() for index in donor.asked_at})
        while wanted:
            free = [
                (len(donor.asked_at), peer_id)
                for peer_id, donor in self._donors.items()
                if len(donor.asked_at) < self._window and self._only in (None, peer_id)
            ]
            if not free:
                break
            _, peer_id = min(free)
            index = wanted.pop(0)
            donor = self._donors[peer_id]
            donor.asked_at[index] = now
            donor.asked.add(index)
            found.append(Request(peer_id, index))
        return found

    def next_deadline(self) -> float | None:
        """When the oldest unanswered request is overdue."""
        times = [at for donor in self._donors.values() for at in donor.asked_at.values()]
        return min(times) + self._timeout_seconds if times else None

    def on_chunk(self, peer_id: str, index: int, payload: bytes) -> None:
        """Store a chunk. Late ones are welcome while they are still missing.

        Raises:
            ChunkError: it was not asked for, or has a wrong length; the donor was removed.
        """
        donor = self._donors.get(peer_id)
        if donor is None:
            return
        if index not in donor.asked or len(payload) != self._length(index):
            self.remove_donor(peer_id)
            raise ChunkError(f"chunk {index} of {len(payload)} bytes was not asked for in this length")
        donor.asked_at.pop(index, None)
        donor.timeouts = 0
        if index in self._missing and self._only in (None, peer_id):
            begin = index * self._chunk_bytes
            self._buffer[begin : begin + len(payload)] = payload
            self._missing.discard(index)
            self._givers.add(peer_id)

    def take(self) -> bytes | None:
        """The blob if its hash is right. None: it was not, and the fetch goes on with other donors or is `stuck`.

        Raises:
            ValueError: called before `complete`.
        """
        if self._missing:
            raise ValueError("chunks are missing")
        if hashlib.sha256(self._buffer).digest() == self.state_hash:
            return bytes(self._buffer)
        if len(self._givers) == 1:
            (liar,) = self._givers
            self.bad_donors.add(liar)
            self._donors.pop(liar, None)
        self._one_by_one = True
        self._start_over()
        return None

    def _length(self, index: int) -> int:
        return min(self._chunk_bytes, len(self._buffer) - index * self._chunk_bytes)

    def _start_over(self) -> None:
        self._only = None
        self._givers.clear()
        self._missing = set(range(self._chunks))
        for donor in self._donors.values():
            donor.asked_at.clear()

    def _expire(self, now: float) -> None:
        for peer_id, donor in list(self._donors.items()):
            overdue = [index for index, at in donor.asked_at.items() if now - at >= self._timeout_seconds]
            if not overdue:
                continue
            for index in overdue:
                del donor.asked_at[index]
            donor.timeouts += 1
            if donor.timeouts >= MAX_TIMEOUTS:
                self.remove_donor(peer_id)
