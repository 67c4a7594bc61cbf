"""Events in order for one consumer."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class EventStream(Generic[T]):
    """An async iterator that is no generator: dropping it half-way leaves no task behind that ends it later."""

    def __init__(self, max_events: int | None = None) -> None:
        self._events: deque[tuple[T, Callable[[], None] | None]] = deque()
        self._max = max_events
        self._changed = asyncio.Event()
        self._closed = False

    def put(self, event: T, consumed: Callable[[], None] | None = None) -> None:
        """Append, unless closed; `consumed` is called when the consumer takes the event. The caller keeps the bound."""
        if not self._closed:
            self._events.append((event, consumed))
            self._changed.set()

    async def put_bounded(self, event: T) -> None:
        """Append when fewer than `max_events` wait, unless closed."""
        while self._max is not None and len(self._events) >= self._max and not self._closed:
            await self._change()
        self.put(event)

    def close(self) -> None:
        """What is queued is still handed out, then iteration ends."""
        self._closed = True
        self._changed.set()

    async def aclose(self) -> None:
        """The consumer wants no more: what is queued is dropped, and nothing more is taken."""
        self._events.clear()
        self.close()

    def __aiter__(self) -> "EventStream[T]":
        return self

    async def __anext__(self) -> T:
        while not self._events:
            if self._closed:
                raise StopAsyncIteration
            await self._change()
        event, consumed = self._events.popleft()
        self._changed.set()
        if consumed is not None:
            consumed()
        return event

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
