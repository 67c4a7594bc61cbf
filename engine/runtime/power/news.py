"""From whatever thread hears the system to the engine's loop, and back when the engine has saved."""

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

log = logging.getLogger(__name__)

HOLD_SECONDS: Final = 4.5
"""The system is held up at most so long: logind's own limit for a delay is 5 s unless somebody changed it."""


class PowerNews(StrEnum):
    """What the system says."""

    SLEEP = "sleep"  # it is about to sleep
    END = "end"  # it shuts down, or the user logs out
    AWAKE = "awake"  # it slept, and is back; or it does not sleep after all


Handler: TypeAlias = Callable[[PowerNews], Awaitable[None]]
"""Runs in the engine's loop; the system waits for its end, up to HOLD_SECONDS."""


class PowerWatch(Protocol):
    """Listens to the system from `start` to `close`."""

    def start(self) -> None:
        """Begin. Never raises: a system that cannot be heard is logged, and heard of by its signals alone."""

    def close(self) -> None:
        """End; waits for its thread. Safe to repeat."""


class Herald:
    """Carries news into a loop and waits there for the answer. Called by threads other than the loop's."""

    def __init__(self, handler: Handler, loop: asyncio.AbstractEventLoop, hold_seconds: float = HOLD_SECONDS) -> None:
        self._handler = handler
        self._loop = loop
        self._hold_seconds = hold_seconds
        self._asked: set[concurrent.futures.Future[None]] = set()
        self._closed = threading.Event()

    def tell(self, news: PowerNews) -> bool:
        """Whether the engine was done in time. Returns early when the engine ends."""
        work = _handled(self._handler, news)
        try:
            asked = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop has ended
            work.close()
            return True
        self._asked.add(asked)
        if self._closed.is_set():  # by whoever did not see it in the set yet
            asked.cancel()
        try:
            asked.result(self._hold_seconds)
        except concurrent.futures.TimeoutError:
            log.warning("the engine was not ready for the system's %s within %.1f s", news, self._hold_seconds)
            return False
        except concurrent.futures.CancelledError:
            return True
        finally:
            self._asked.discard(asked)
        return True

    def close(self) -> None:
        """Nobody waits any more."""
        self._closed.set()
        for asked in tuple(self._asked):
            asked.cancel()


async def _handled(handler: Handler, news: PowerNews) -> None:
    await handler(news)
