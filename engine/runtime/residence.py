"""PURE. Where a worker may live, and for how long it may hold memory that it does not use.

A device belongs to a process until it ends: drivers keep hundreds of megabytes for one that only freed its tensors. So
a worker leaves a graphics processor by ending, and another takes up its work, on the processor or later.
"""

from typing import Final

REST_AFTER_PAUSE_SECONDS: Final = 600.0
"""A worker that has nothing to do keeps its memory so long, since starting one takes a while."""

LEAVE_GPU_SECONDS: Final = 3.0
"""The same on a graphics processor: its memory is back with the user ten seconds after a pause, ending included."""

MOVE_TO_GPU_SECONDS: Final = 10.0
"""A worker that computes on the processor for want of a graphics processor moves when that was free so long."""


class Residence:
    """One worker's place. Times are in seconds of a clock that does not go back."""

    def __init__(self, wanted: str) -> None:
        """`wanted`: "auto", or the one device that the user named."""
        self._wanted = wanted
        self._cpu_duty, self._gpu_duty = 1.0, 1.0
        self._device = ""  # "" while there is no worker
        self.has_gpu: bool | None = None
        """Whether there is one that can be used; None while no worker has looked."""
        self._unused_since: float | None = None
        self._better_since: float | None = None

    @property
    def duty(self) -> float:
        """Of the worker where it is: 0 on a device that it may not use now."""
        return self._gpu_duty if self._on_gpu else self._cpu_duty

    def allow(self, cpu_duty: float, gpu_duty: float, now: float) -> None:
        """What the limits say from `now` on."""
        self._cpu_duty, self._gpu_duty = cpu_duty, gpu_duty
        self._note(now)

    def settled(self, asked: str, device: str, now: float) -> None:
        """A worker that was asked to compute on `asked` stands on `device`."""
        self._device = device
        if asked == "auto":
            self.has_gpu = self._on_gpu
        self._note(now)

    def left(self) -> None:
        """The worker is gone."""
        self._device = ""
        self._unused_since = self._better_since = None

    def next_device(self) -> str | None:
        """What to start the next worker with; None when it would have nothing to do."""
        if self._wanted != "cpu" and self._gpu_duty > 0.0 and self.has_gpu is not False:
            return self._wanted
        if self._wanted in ("auto", "cpu") and self._cpu_duty > 0.0:
            return "cpu"
        return None

    def rest_at(self) -> float | None:
        """When the worker should end, if nothing changes until then; None: not for what is known now."""
        times = []
        if self._unused_since is not None:
            times.append(self._unused_since + (LEAVE_GPU_SECONDS if self._on_gpu else REST_AFTER_PAUSE_SECONDS))
        if self._better_since is not None:
            times.append(self._better_since + MOVE_TO_GPU_SECONDS)
        return min(times, default=None)

    @property
    def _on_gpu(self) -> bool:
        return bool(self._device) and not self._device.startswith("cpu")

    def _note(self, now: float) -> None:
        unused = bool(self._device) and self.duty <= 0.0
        self._unused_since = _since(self._unused_since, unused, now)
        better = bool(self._device) and not self._on_gpu and self.next_device() == "auto"
        self._better_since = _since(self._better_since, better, now)


def _since(before: float | None, holds: bool, now: float) -> float | None:
    if not holds:
        return None
    return now if before is None else before
