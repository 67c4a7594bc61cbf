import asyncio
import logging

import pytest

from engine.core.tasks import StuckTasks, TaskOwner
from tests.helpers.guards import ExpectLog


class Waiter:
    """A task that waits for ever and knows how it ended."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.ended = asyncio.Event()

    async def run(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def fail(error: BaseException) -> None:
    raise error


async def test_leaving_the_block_ends_its_tasks() -> None:
    waiter = Waiter()
    async with TaskOwner("owner") as owner:
        task = owner.spawn("waiter", waiter.run())
        await waiter.started.wait()
        assert task.get_name() == "owner: waiter"
        assert len(owner) == 1
    assert waiter.ended.is_set()
    assert len(owner) == 0


async def test_a_finished_task_is_forgotten() -> None:
    async with TaskOwner("owner") as owner:
        await owner.spawn("quick", asyncio.sleep(0))
        assert len(owner) == 0


async def test_a_failing_task_stops_the_block_with_its_own_error() -> None:
    waiter = Waiter()
    with pytest.raises(ValueError, match="broken"):
        async with TaskOwner("owner") as owner:
            owner.spawn("waiter", waiter.run())
            await waiter.started.wait()
            owner.spawn("fails", fail(ValueError("broken")))
            await asyncio.Event().wait()
    assert waiter.ended.is_set()
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_several_failures_come_as_a_group() -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        async with TaskOwner("owner") as owner:
            owner.spawn("one", fail(ValueError("one")))
            owner.spawn("two", fail(KeyError("two")))
            await asyncio.Event().wait()
    assert {type(error) for error in caught.value.exceptions} == {ValueError, KeyError}


async def test_the_blocks_own_error_passes_through() -> None:
    waiter = Waiter()
    with pytest.raises(KeyError, match="mine"):
        async with TaskOwner("owner") as owner:
            owner.spawn("waiter", waiter.run())
            await waiter.started.wait()
            raise KeyError("mine")
    assert waiter.ended.is_set()


async def test_an_error_while_ending_is_not_lost() -> None:
    started = asyncio.Event()

    async def fails_at_the_end() -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            raise ValueError("at the end")

    with pytest.raises(ValueError, match="at the end"):
        async with TaskOwner("owner") as owner:
            owner.spawn("late", fails_at_the_end())
            await started.wait()


async def test_cancelling_the_block_from_outside_cancels_it_and_its_tasks() -> None:
    waiter = Waiter()

    async def block() -> None:
        async with TaskOwner("owner") as owner:
            owner.spawn("waiter", waiter.run())
            await asyncio.Event().wait()

    task = asyncio.create_task(block())
    await waiter.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert waiter.ended.is_set()


async def test_an_outside_cancellation_survives_a_failing_task() -> None:
    """The failure is raised; the task that was told to end still knows that it was."""
    waiter, seen = Waiter(), []

    async def block() -> None:
        try:
            async with TaskOwner("owner") as owner:
                owner.spawn("waiter", waiter.run())
                await waiter.started.wait()
                owner.spawn("fails", fail(ValueError("broken")))
                task.cancel()
                await asyncio.Event().wait()
        except ValueError:
            current = asyncio.current_task()
            assert current is not None
            seen.append(current.cancelling())

    task = asyncio.create_task(block())
    await task
    assert seen == [1]


async def test_nothing_starts_after_closing() -> None:
    owner = TaskOwner("owner")
    await owner.close()
    waiter = Waiter()
    with pytest.raises(RuntimeError, match="owner is closed and cannot start late"):
        owner.spawn("late", waiter.run())
    assert not waiter.started.is_set()


async def test_close_is_repeatable_and_raises_what_failed(expect_log: ExpectLog) -> None:
    expect_log("engine.core.tasks", logging.ERROR, match="owner: fails failed")
    owner = TaskOwner("owner")
    task = owner.spawn("fails", fail(ValueError("broken")))
    await asyncio.wait([task])
    with pytest.raises(ValueError, match="broken"):
        await owner.close()
    await owner.close()


async def test_on_failure_takes_the_error() -> None:
    taken: list[tuple[str, BaseException]] = []
    failed = asyncio.Event()

    def take(name: str, error: BaseException) -> None:
        taken.append((name, error))
        failed.set()

    async with TaskOwner("owner", on_failure=take) as owner:
        error = ValueError("broken")
        owner.spawn("fails", fail(error))
        await failed.wait()
    assert taken == [("owner: fails", error)]


async def test_a_task_may_close_its_owner() -> None:
    owner, waiter = TaskOwner("owner"), Waiter()
    owner.spawn("waiter", waiter.run())
    await waiter.started.wait()
    await owner.spawn("closer", owner.close())
    assert waiter.ended.is_set()


async def test_a_task_that_will_not_end_is_named_when_the_deadline_passes() -> None:
    started, let_go = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        started.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    owner = TaskOwner("owner", close_seconds=0.01)
    task = owner.spawn("stubborn", stubborn())
    await started.wait()
    with pytest.raises(StuckTasks, match="owner: stubborn"):
        await owner.close()
    let_go.set()
    await task


async def test_cancelling_close_still_ends_the_tasks_first() -> None:
    started, asked, let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow_to_end() -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            asked.set()
            await let_go.wait()

    owner = TaskOwner("owner")
    slow = owner.spawn("slow", slow_to_end())
    await started.wait()
    closing = asyncio.create_task(owner.close())
    await asked.wait()
    closing.cancel()
    let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert slow.done()
