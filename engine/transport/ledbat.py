"""How fast a link may send so that its queue at the bottleneck stays small. PURE.

After LEDBAT (RFC 6817) and LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus): a window that grows while the one-way delay is
below a target above its lowest, and shrinks by a factor while it is above. Three things differ, each for a reason:

- The window sets a rate (window over base delay and present queue) instead of bytes in flight, because the data lies
  in several associations with windows of their own. A queue that grows lowers the rate at once, which damps the loop.
- Growth is by a factor, not by a segment a round trip: a background transfer should take a free line in a second or
  two. The factor is so small that a round's growth adds a fraction of the target to the queue, unless the queue was
  empty for some rounds.
- The queue is also bounded by the round trip above its lowest, so that two clocks that drift apart (50 ppm is 30 ms in
  ten minutes) cannot be taken for a queue.

Loss does not slow this controller: the associations below react to it on their own.
"""

from collections import deque
from typing import Final

TARGET_SECONDS: Final = 0.020
"""Queueing delay that this end is willing to add (RFC 6817 allows at most 100 ms, LEDBAT++ asks for 60 ms)."""
FILTER_SAMPLES: Final = 3
"""The present delay is the lowest of so many samples."""
BASE_MINUTES: Final = 5
"""The base delay is the lowest of so many minutes (RFC 6817's BASE_HISTORY)."""
REACTION_SECONDS: Final = 0.075
"""From a change of the rate to its effect in the filtered delay, besides the round trip; a round is both together."""
STEP: Final = 0.25
"""Of the target: what a round's growth may add to the queue of a full line."""
MAX_GROWTH: Final = 0.25
"""Of the window each round: what the growth comes to after some rounds of an empty queue, each half as much again as
the one before."""
START_GROWTH: Final = 1.5
"""Of the window each round in slow start; twice, as TCP has it, would be noticed two rounds too late."""
EMPTY: Final = 0.25
"""Of the target: a queue below it counts as empty."""
MAX_SHRINK: Final = 0.5
"""Of the window each round, at most (LEDBAT++ section 4.2)."""
SHRINK: Final = 0.25
"""Of the window each round, for each target of delay above the target."""
USED: Final = 0.5
"""A window that was not used by this much does not grow (RFC 7661)."""
START_EXIT: Final = 0.75
"""Slow start ends when the present delay lies above this share of the target (LEDBAT++ section 4.4)."""
SLOWDOWN_EVERY_SECONDS: Final = 20.0
SLOWDOWN_SHARE: Final = 0.25
"""Now and then the rate drops for a round, so that the bottleneck drains and others' measurements of their base
delay are right (LEDBAT++ section 4.5, at a fraction of its cost)."""
DELIVERED_SAMPLES: Final = 6
"""The rate that the line delivers is measured over so many samples."""
IDLE_SECONDS: Final = 5.0
"""After so long without sending, what was known of the line is old: back to slow start from half the window."""
INITIAL_WINDOW_BYTES: Final = 32 * 1024
MIN_WINDOW_BYTES: Final = 2 * 1200
MAX_WINDOW_BYTES: Final = 64 * 1024 * 1024


class MinimumOverMinutes:
    """The lowest value of the last minutes, kept as one minimum for each (RFC 6817 section 4.2)."""

    def __init__(self) -> None:
        self._minutes: deque[tuple[int, float]] = deque(maxlen=BASE_MINUTES)

    def add(self, value: float, now: float) -> None:
        """One more value."""
        minute = int(now // 60.0)
        if not self._minutes or self._minutes[-1][0] != minute:
            self._minutes.append((minute, value))
        elif value < self._minutes[-1][1]:
            self._minutes[-1] = (minute, value)

    @property
    def lowest(self) -> float:
        """Raises ValueError before the first value."""
        return min(value for _, value in self._minutes)


class DelayController:
    """The rate of one link. Feed it every sample of the delay and every byte sent; read `bytes_per_second`."""

    def __init__(self, now: float, target_seconds: float = TARGET_SECONDS) -> None:
        self._target = target_seconds
        self._window = float(INITIAL_WINDOW_BYTES)
        self._starting = True
        self._just_left_start = False
        self._base_delay = MinimumOverMinutes()
        self._base_round_trip = MinimumOverMinutes()
        self._samples: deque[tuple[float, float]] = deque(maxlen=FILTER_SAMPLES)  # one way, round trip
        self._delivered: deque[tuple[float, int]] = deque(maxlen=DELIVERED_SAMPLES)
        self._queue = 0.0
        self._base = REACTION_SECONDS
        self._round_began_at = now
        self._round_sent = 0
        self._round_allowed = 0.0
        self._empty_rounds = 0
        self._allowed_at = now
        self._sent_at = now
        self._slow_until = 0.0
        self._slow_next_at = now + SLOWDOWN_EVERY_SECONDS

    @property
    def queue_seconds(self) -> float:
        """Delay above the base, as last measured."""
        return self._queue

    @property
    def window_bytes(self) -> float:
        """What may be under way: what the rate sends in a round trip and until it is reported."""
        return self._window

    @property
    def bytes_per_second(self) -> float:
        """What may be sent now."""
        window = self._window * (SLOWDOWN_SHARE if self._allowed_at < self._slow_until else 1.0)
        return window / (self._base + REACTION_SECONDS + self._queue)

    def on_sent(self, size_bytes: int, now: float) -> None:
        """Bytes went out under this rate."""
        if now - self._sent_at > IDLE_SECONDS:
            self._window = max(self._window / 2.0, INITIAL_WINDOW_BYTES)
            self._starting = True
            self._begin_round(now)
        self._sent_at = now
        self._round_sent += size_bytes

    def on_sample(self, one_way_seconds: float, round_trip_seconds: float, delivered_bytes: int, now: float) -> None:
        """A delay was measured; the clocks of the one-way delay need not agree. `delivered_bytes` is what the receiver
        has got since the link came up.
        """
        self._delivered.append((now, delivered_bytes))
        self._base_delay.add(one_way_seconds, now)
        self._base_round_trip.add(round_trip_seconds, now)
        self._samples.append((one_way_seconds, round_trip_seconds))
        self._allow(now)
        self._base = self._base_round_trip.lowest
        self._queue = min(
            min(delay for delay, _ in self._samples) - self._base_delay.lowest,
            min(round_trip for _, round_trip in self._samples) - self._base,
        )
        if self._starting and self._queue > START_EXIT * self._target:
            self._leave_start(now)
        if now - self._round_began_at >= self._base + REACTION_SECONDS + self._queue:
            self._end_round(now)

    def _allow(self, now: float) -> None:
        """Add up what could have been sent, to tell whether the rate was used."""
        self._round_allowed += self.bytes_per_second * max(0.0, now - self._allowed_at)
        self._allowed_at = now

    def _begin_round(self, now: float) -> None:
        self._round_began_at = self._allowed_at = now
        self._round_sent, self._round_allowed = 0, 0.0

    def _end_round(self, now: float) -> None:
        used = self._round_sent >= USED * self._round_allowed
        above = self._queue / self._target
        self._empty_rounds = self._empty_rounds + 1 if used and above < EMPTY else 0
        if self._just_left_start and above < EMPTY:
            # It was this computer that was late, not the line: a queue takes longer than a round to drain.
            self._starting = True
        self._just_left_start = False
        if self._starting:
            self._window *= START_GROWTH if used else 1.0
        elif above > 1.0:
            self._window *= 1.0 - min(MAX_SHRINK, SHRINK * (above - 1.0))
        elif used and now >= self._slow_until:
            self._window *= 1.0 + self._growth() * (1.0 - above)
        self._window = min(max(self._window, MIN_WINDOW_BYTES), MAX_WINDOW_BYTES)
        if now >= self._slow_next_at and not self._starting:
            self._slow_until = now + self._base + REACTION_SECONDS + self._queue
            self._slow_next_at = now + SLOWDOWN_EVERY_SECONDS
        self._begin_round(now)

    def _growth(self) -> float:
        gentle = STEP * self._target / (self._base + REACTION_SECONDS)
        return min(MAX_GROWTH, gentle * 1.5**self._empty_rounds)

    def _leave_start(self, now: float) -> None:
        """Noticed at the first samples, not at the round's end: by then the window would have doubled once more. There
        is a queue now, so what the line delivers is what it can.
        """
        self._starting, self._just_left_start = False, True
        (began_at, first), (ended_at, last) = self._delivered[0], self._delivered[-1]
        fitting = (last - first) / max(ended_at - began_at, 1e-3) * (self._base + REACTION_SECONDS)
        self._window = min(max(fitting, self._window / 4.0, MIN_WINDOW_BYTES), self._window)
        self._begin_round(now)
