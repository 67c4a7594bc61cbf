"""Owners of background tasks: every task has a name, an owner, and an end."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Final, Self

log = logging.getLogger(__name__)

DEFAULT_CLOSE_SECONDS: Final = 5.0


class StuckTasks(RuntimeError):
    """Tasks went on after they were cancelled and the deadline passed: a fault of ours."""


class TaskOwner:
    """Owns tasks and ends them all, at the latest when it is closed.

    As a context manager it works like `asyncio.TaskGroup` with two differences: leaving the block cancels the tasks
    instead of waiting for them to finish by themselves, and waits no longer than `close_seconds`. A task that fails
    cancels the block, and the block raises what the task raised (one failure as itself, several as a group).

    An object that lives longer than a block calls `spawn` and `close` instead: a failure is then logged as an error at
    once, and `close` raises it.

    With `on_failure`, that is called at once with the task's name and exception, and nothing else happens.
    """

    def __init__(
        self,
        name: str,
        *,
        close_seconds: float = DEFAULT_CLOSE_SECONDS,
        on_failure: Callable[[str, BaseException], None] | None = None,
    ) -> None:
        self.name = name
        self._close_seconds = close_seconds
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failures: list[BaseException] = []
        self._closing = False
        self._block: asyncio.Task[Any] | None = None
        self._cancelled_block = False

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def closing(self) -> bool:
        """Whether it is being closed or closed, and starts nothing more."""
        return self._closing

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start `work`, owned from now on. The task may be cancelled and awaited by the caller too.

        Raises:
            RuntimeError: the owner is closing or closed; `work` never starts.
        """
        if self._closing:
            work.close()
            raise RuntimeError(f"{self.name} is closed and cannot start {name}")
        task = asyncio.create_task(work, name=f"{self.name}: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended. Safe to repeat, and safe to be called by an owned task.

        Raises:
            StuckTasks: some did not end in time; they are named, and left.
            BaseException: what failed tasks raised and nobody took.
        """
        self._closing = True
        try:
            await self._cancel_all()
        finally:
            failures, self._failures = self._failures, []
        _raise(self.name, failures)

    async def __aenter__(self) -> Self:
        self._block = asyncio.current_task()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        block, self._block, self._closing = self._block, None, True
        if self._cancelled_block and block is not None and block.uncancel() == 0 and kind is asyncio.CancelledError:
            error = None  # the cancellation was ours, to stop the block; what the task raised replaces it
        try:
            await self._cancel_all()
        except StuckTasks as stuck:
            self._failures.append(stuck)
        if not self._failures:
            return False
        failures, self._failures = self._failures, []
        if error is not None and not isinstance(error, asyncio.CancelledError):
            failures.insert(0, error)
        _raise(self.name, failures)
        return False

    async def _cancel_all(self) -> None:
        own = asyncio.current_task()
        waiting = {task for task in self._tasks if task is not own}
        for task in waiting:
            task.cancel()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._close_seconds
        cancelled: asyncio.CancelledError | None = None
        while waiting and (left := deadline - loop.time()) > 0:
            try:
                _, waiting = await asyncio.wait(waiting, timeout=left)
            except asyncio.CancelledError as error:  # first see the tasks off, then pass it on
                cancelled = error
                waiting = {task for task in waiting if not task.done()}
        if waiting:
            names = ", ".join(sorted(task.get_name() for task in waiting))
            raise StuckTasks(f"not ended {self._close_seconds} s after being cancelled: {names}") from cancelled
        if cancelled is not None:
            raise cancelled

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if self._on_failure is not None:
            self._on_failure(task.get_name(), error)
            return
        self._failures.append(error)
        if self._block is None:
            if not self._closing:
                log.error("%s failed", task.get_name(), exc_info=error)
        elif not self._cancelled_block:
            self._cancelled_block = True
            self._block.cancel()


def _raise(name: str, failures: list[BaseException]) -> None:
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} tasks of {name} failed", failures)
