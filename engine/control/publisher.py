"""The one holder of the engine's state tree; keeps every subscribed face's copy true and waits for none of them."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from engine.contract.codec import Patch, SnapshotMessage
from engine.contract.snapshot import EngineState
from engine.control.diff import changed_topics, diff, plain

FLUSH_SECONDS: Final = 0.25
"""Least time between two flushes of one topic: at most four a second."""


class Timer(Protocol):
    """A planned call."""

    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """The part of an event loop that the publisher uses; tests bring a virtual one."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], None], /) -> Timer: ...


class Sink(Protocol):
    """Where one face's messages go."""

    def deliver(self, message: SnapshotMessage | Patch) -> None:
        """Take a message without waiting."""
        ...

    def behind(self) -> bool:
        """Whether so much is undelivered that patches should be dropped until `Subscription.resync`."""
        ...


class Subscription:
    """One face's copy of the tree: what it was last sent, and its own gap-free revisions."""

    def __init__(self, sink: Sink, state: EngineState, close: Callable[["Subscription"], None]) -> None:
        self._sink = sink
        self._sent = state
        self._rev = 0
        self._dropping = False
        self._close = close
        self._snapshot(state)

    @property
    def dropping(self) -> bool:
        """Patches are being dropped; a snapshot is due as soon as the face has read what it was sent."""
        return self._dropping

    def close(self) -> None:
        """Send nothing more. Safe to repeat."""
        self._close(self)

    def flush(self, state: EngineState, topic: str) -> None:
        """Send what changed in `topic` since it was last sent."""
        if self._dropping:
            return
        if self._sink.behind():
            self._dropping = True
            return
        patches = diff(self._sent, state, (topic,), self._rev)
        self._sent = msgspec.structs.replace(self._sent, **{topic: getattr(state, topic)})
        self._rev += len(patches)
        for patch in patches:
            self._sink.deliver(patch)

    def resync(self, state: EngineState) -> None:
        """Send a fresh snapshot if patches were dropped."""
        if self._dropping:
            self._dropping = False
            self._snapshot(state)

    def _snapshot(self, state: EngineState) -> None:
        self._sent = state
        self._rev += 1
        self._sink.deliver(SnapshotMessage(rev=self._rev, state=plain(state)))


class StatePublisher:
    """Holds the newest `EngineState`. To be used from the event loop's thread only.

    A subscriber gets a snapshot at once and then patches: those of one topic (top-level field) are merged and sent at
    most every FLUSH_SECONDS, the first without delay. `scheduler` defaults to the running event loop.
    """

    def __init__(self, initial: EngineState, scheduler: Scheduler | None = None) -> None:
        self._state = initial
        self._scheduler = scheduler
        self._subscriptions: list[Subscription] = []
        self._timers: dict[str, Timer] = {}
        self._flushed_at: dict[str, float] = {}

    @property
    def state(self) -> EngineState:
        """The newest tree, published or not."""
        return self._state

    def set(self, state: EngineState) -> None:
        """Replace the whole tree; only what differs is sent."""
        topics = changed_topics(self._state, state)
        self._state = state
        if self._subscriptions:
            for topic in topics:
                self._plan(topic)

    def update(self, **changes: Any) -> None:
        """Replace top-level fields: `update(status=..., session=...)`.

        Raises:
            TypeError: there is no such field.
        """
        self.set(msgspec.structs.replace(self._state, **changes))

    def update_in(self, topic: str, **changes: Any) -> None:
        """Replace fields of one top-level node: `update_in("session", global_step=7)`.

        Raises:
            TypeError: the node is None or no node, or has no such field.
            AttributeError: there is no such topic.
        """
        self.update(**{topic: msgspec.structs.replace(getattr(self._state, topic), **changes)})

    def subscribe(self, sink: Sink) -> Subscription:
        """Send `sink` a snapshot now and patches from now on, until the subscription is closed."""
        subscription = Subscription(sink, self._state, self._unsubscribe)
        self._subscriptions.append(subscription)
        return subscription

    def resync(self, subscription: Subscription) -> None:
        """The subscriber has read all that it was sent: make up for dropped patches, if any were."""
        subscription.resync(self._state)

    def close(self) -> None:
        """Cancel what is planned and forget all subscribers. Safe to repeat."""
        self._subscriptions.clear()
        self._cancel_timers()

    def _unsubscribe(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
        if not self._subscriptions:
            self._cancel_timers()

    def _cancel_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _plan(self, topic: str) -> None:
        if topic in self._timers:
            return
        scheduler = self._scheduler or asyncio.get_running_loop()
        due = max(scheduler.time(), self._flushed_at.get(topic, float("-inf")) + FLUSH_SECONDS)
        self._timers[topic] = scheduler.call_at(due, partial(self._flush, topic))

    def _flush(self, topic: str) -> None:
        scheduler = self._scheduler or asyncio.get_running_loop()
        self._timers.pop(topic, None)
        self._flushed_at[topic] = scheduler.time()
        for subscription in tuple(self._subscriptions):
            subscription.flush(self._state, topic)
