"""An event loop on virtual time: when nothing can run, its clock jumps to the next timer. Nothing waits.

For code without sockets and processes. Threads are no threads here: what goes to the default executor runs at once, so
the same test has the same history every time. A test that would hang fails instead: no timer and nothing to run is an
error.
"""

import asyncio
import concurrent.futures
import functools
import gc
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

P = ParamSpec("P")

EPOCH = 1_760_000_000.0


class Deadlock(RuntimeError):
    """Everything waits for something else."""


class _InlineExecutor(concurrent.futures.ThreadPoolExecutor):
    """Runs work in the caller's thread, before `submit` returns."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 (Border: whatever the work raises belongs to who awaits it)
            future.set_exception(error)
        return future


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`time()` begins at 1000.0 and moves only in jumps."""

    def __init__(self) -> None:
        self._virtual_now = 1000.0
        super().__init__(_JumpingSelector(self._jump))
        self.set_default_executor(_InlineExecutor(max_workers=1))

    def time(self) -> float:
        return self._virtual_now

    def _jump(self, seconds: float | None) -> None:
        if seconds is None:
            raise Deadlock("nothing can happen any more")
        # A timer is due when the clock has passed it, not when it is a rounding error before it.
        self._virtual_now += seconds + 1e-9


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self, jump: Callable[[float | None], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and (timeout is None or timeout > 0):
            self._jump(timeout)
        return ready


class LoopClock:
    """A `Clock` that shows the running loop's time."""

    def now(self) -> float:
        return EPOCH + asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


def virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test on a `VirtualTimeLoop`. A task that is left at its end fails it."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(_watched(test(*args, **kwargs)))
            gc.collect()  # so that "exception was never retrieved" is logged in the test that caused it

    return run


async def _watched(work: Coroutine[Any, Any, None]) -> None:
    await work
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, "tasks still pending after the test:\n" + "\n".join(sorted(repr(task) for task in left))
