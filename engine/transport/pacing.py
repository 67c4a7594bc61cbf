"""The user's caps as token buckets (RFC 2697's committed bucket), and the upload cap's waiting side."""

import asyncio
import math
from collections.abc import Callable
from typing import Final, Protocol

BURST_SECONDS: Final = 0.25
"""What may go out at once after a pause, in seconds of the cap."""


class TokenBucket:
    """PURE. Lets bytes through at `rate` bytes a second; None is no cap. May run into debt by what cannot wait."""

    def __init__(self, rate: int | None, now: float) -> None:
        self._rate = rate
        self._tokens = 0.0 if rate is None else rate * BURST_SECONDS
        self._at = now

    def set_rate(self, rate: int | None, now: float) -> None:
        """Change the cap. Debt stays, so that changing it often lets nothing through."""
        self._refill(now)
        if self._rate is None and rate is not None:
            self._tokens = rate * BURST_SECONDS
        self._rate = rate
        if rate is not None:
            self._tokens = min(self._tokens, rate * BURST_SECONDS)

    def charge(self, size_bytes: int, now: float) -> None:
        """Count bytes that went out without waiting."""
        self._refill(now)
        if self._rate is not None:
            self._tokens -= size_bytes

    def delay(self, now: float) -> float:
        """Seconds until something may go out; 0.0 is now. A piece may go while any token is left and then be charged,
        so pieces larger than the burst pass too.
        """
        self._refill(now)
        if self._rate is None or self._tokens > 0.0:
            return 0.0
        # A little above nought, or rounding could make the wait end just short of it.
        return (1.0 - self._tokens) / self._rate

    def available(self, now: float) -> float:
        """Bytes that may go at once; negative in debt, infinite without a cap."""
        self._refill(now)
        return math.inf if self._rate is None else self._tokens

    def _refill(self, now: float) -> None:
        if now > self._at:
            if self._rate is not None:
                self._tokens = min(self._rate * BURST_SECONDS, self._tokens + (now - self._at) * self._rate)
            self._at = now


class Pacer:
    """One bucket for all links: bulk waits its turn, control is counted and goes at once."""

    def __init__(self, rate: int | None, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._bucket = TokenBucket(rate, monotonic())
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()

    def set_rate(self, rate: int | None) -> None:
        """Takes effect on the next frame, also on one that waits now."""
        self._bucket.set_rate(rate, self._monotonic())
        self._changed.set()

    def charge(self, size_bytes: int) -> None:
        """Count a frame that does not wait."""
        self._bucket.charge(size_bytes, self._monotonic())

    async def pass_through(self, size_bytes: int) -> None:
        """Wait for a turn and for the cap; first come, first served over all links."""
        async with self._turn:
            while (delay := self._bucket.delay(self._monotonic())) > 0.0:
                self._changed.clear()
                try:
                    async with asyncio.timeout(delay):
                        await self._changed.wait()
                except TimeoutError:
                    continue
            self._bucket.charge(size_bytes, self._monotonic())


class Pacing(Protocol):
    """What a link's lanes need of a pacer."""

    def charge(self, size_bytes: int) -> None: ...

    async def pass_through(self, size_bytes: int) -> None: ...


class Unpaced:
    """For links that no cap is about."""

    def charge(self, size_bytes: int) -> None:
        """Nothing to count."""

    async def pass_through(self, size_bytes: int) -> None:
        """Nothing to wait for."""


class DownloadLimit:
    """The user's download cap over all links: a receiver grants no more than this lets it."""

    WINDOW_SECONDS: Final = 0.5
    """Of the cap: what may be granted to one peer and not yet received, so that a peer has little saved up."""
    MIN_WINDOW_BYTES: Final = 64 * 1024
    SHARE_SECONDS: Final = 1.0
    """Whoever asked for more within this time has a share."""

    def __init__(self, rate: int | None, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._rate = rate
        self._bucket = TokenBucket(rate, monotonic())
        self._asked: dict[int, float] = {}  # when each taker asked last

    def set_rate(self, rate: int | None) -> None:
        """Takes effect on the next grant."""
        self._rate = rate
        self._bucket.set_rate(rate, self._monotonic())

    def window(self, most_bytes: int) -> int:
        """What one peer may have under way."""
        if self._rate is None:
            return most_bytes
        return min(most_bytes, max(self.MIN_WINDOW_BYTES, int(self._rate * self.WINDOW_SECONDS)))

    def take(self, taker: object, size_bytes: int) -> int:
        """How much of `size_bytes` may be granted now; it counts as received. Those who ask have equal shares."""
        now = self._monotonic()
        self._asked[id(taker)] = now
        for one in [one for one, at in self._asked.items() if at < now - self.SHARE_SECONDS]:
            del self._asked[one]
        share = max(0.0, self._bucket.available(now)) / len(self._asked)
        allowed = size_bytes if share >= size_bytes else int(share)
        self._bucket.charge(allowed, now)
        return allowed

    @property
    def in_debt(self) -> bool:
        """Whether more came than the cap lets through."""
        return self._bucket.available(self._monotonic()) < 0.0

    def charge(self, size_bytes: int) -> None:
        """Count what came without a grant."""
        self._bucket.charge(size_bytes, self._monotonic())
