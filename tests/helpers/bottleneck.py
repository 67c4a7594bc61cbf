"""A line with one queue, on a virtual clock: delay-controlled senders and a TCP Reno flow. Deterministic."""

from collections import deque
from dataclasses import dataclass, field

from engine.transport.ledbat import DelayController

STEP_SECONDS = 0.001
PROBE_SECONDS = 0.025
SEGMENT_BYTES = 1160
TCP_SEGMENT_BYTES = 1448


@dataclass
class Sender:
    """Sends as fast as its controller lets it, from `began_at` on."""

    controller: DelayController
    began_at: float = 0.0
    clock_drift: float = 0.0  # of the receiver's clock, seconds a second
    demand: float = float("inf")  # bytes a second that it has to send
    credit: float = 0.0
    probe_at: float = 0.0
    accepted: int = 0  # by the queue
    delivered: int = 0
    reports: deque[tuple[float, float, float, int]] = field(default_factory=deque)  # when, one way, round trip, bytes


@dataclass
class Tcp:
    """Reno: slow start, one segment a round trip, half on loss."""

    began_at: float
    window: float = 10.0 * TCP_SEGMENT_BYTES
    threshold: float = 1e12
    flight: int = 0
    recovered_at: float = 0.0
    delivered: int = 0
    acknowledgements: deque[tuple[float, bool]] = field(default_factory=deque)


class Bottleneck:
    """`rate` bytes a second, `round_trip` seconds without a queue, and a tail-drop queue of `buffer` seconds."""

    def __init__(self, rate: float, round_trip: float, buffer: float = 0.2) -> None:
        self.rate, self.round_trip, self.buffer = rate, round_trip, buffer
        self.now = 0.0
        self.senders: list[Sender] = []
        self.tcp: Tcp | None = None
        self.queues: list[float] = []  # seconds, one for each step
        self._line: deque[tuple[Sender | Tcp, int]] = deque()
        self._queued = 0
        self._rest = 0.0

    def run(self, until: float) -> None:
        """Let time pass."""
        while self.now < until:
            self.now += STEP_SECONDS
            for sender in self.senders:
                if self.now >= sender.began_at:
                    self._send(sender)
            if self.tcp is not None and self.now >= self.tcp.began_at:
                self._send_tcp(self.tcp)
            self._drain()
            self.queues.append(self._queued / self.rate)

    def _send(self, sender: Sender) -> None:
        controller = sender.controller
        while sender.reports and sender.reports[0][0] <= self.now:
            _, one_way, round_trip, delivered = sender.reports.popleft()
            controller.on_sample(one_way, round_trip, delivered, self.now)
        rate = min(controller.bytes_per_second, sender.demand)
        packets = min(14, max(1, int(rate * 0.005) // SEGMENT_BYTES))
        sender.credit = min(sender.credit + rate * STEP_SECONDS, max(packets * SEGMENT_BYTES, rate * 0.01))
        while sender.credit > 0.0:
            size = packets * SEGMENT_BYTES
            sender.credit -= size
            controller.on_sent(size, self.now)
            sender.accepted += size if self._put(sender, size) else 0
        if self.now >= sender.probe_at:
            sender.probe_at = self.now + PROBE_SECONDS
            wait = self._queued / self.rate
            one_way = 1000.0 + self.round_trip / 2 + wait + sender.clock_drift * self.now
            round_trip = self.round_trip + wait
            sender.reports.append((self.now + round_trip, one_way, round_trip, sender.accepted))

    def _send_tcp(self, tcp: Tcp) -> None:
        while tcp.acknowledgements and tcp.acknowledgements[0][0] <= self.now:
            _, lost = tcp.acknowledgements.popleft()
            tcp.flight -= TCP_SEGMENT_BYTES
            if not lost:
                share = 1.0 if tcp.window < tcp.threshold else TCP_SEGMENT_BYTES / tcp.window
                tcp.window += TCP_SEGMENT_BYTES * share
            elif self.now > tcp.recovered_at:
                tcp.threshold = tcp.window = max(tcp.window / 2.0, 2.0 * TCP_SEGMENT_BYTES)
                tcp.recovered_at = self.now + self.round_trip + self._queued / self.rate
        while tcp.flight + TCP_SEGMENT_BYTES <= tcp.window:
            tcp.flight += TCP_SEGMENT_BYTES
            if not self._put(tcp, TCP_SEGMENT_BYTES):
                tcp.acknowledgements.append((self.now + self.round_trip + self._queued / self.rate, True))

    def _put(self, owner: Sender | Tcp, size: int) -> bool:
        if self._queued + size > self.buffer * self.rate:
            return False
        self._line.append((owner, size))
        self._queued += size
        return True

    def _drain(self) -> None:
        room = self.rate * STEP_SECONDS + self._rest
        while self._line and self._line[0][1] <= room:
            owner, size = self._line.popleft()
            room -= size
            self._queued -= size
            owner.delivered += size
            if isinstance(owner, Tcp):
                owner.acknowledgements.append((self.now + self.round_trip, False))
        self._rest = room if self._line else 0.0


def quantile(values: list[float], share: float) -> float:
    """The value below which `share` of them lie."""
    return sorted(values)[int(len(values) * share)]
