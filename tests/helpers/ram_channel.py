"""A data channel in memory."""

from collections.abc import Callable


class RamChannel:
    """The part of a data channel that a lane uses; `flush` is the network taking everything."""

    def __init__(self) -> None:
        self.readyState = "open"
        self.bufferedAmount = 0
        self.bufferedAmountLowThreshold = 0
        self.sent: list[bytes] = []
        self._low: Callable[[], None] = lambda: None

    def on(self, event: str, handler: Callable[[], None]) -> None:
        assert event == "bufferedamountlow"
        self._low = handler

    def send(self, data: bytes) -> None:
        self.sent.append(data)
        self.bufferedAmount += len(data)

    def flush(self) -> None:
        self.bufferedAmount = 0
        self._low()
