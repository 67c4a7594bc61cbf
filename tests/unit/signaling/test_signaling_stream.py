import asyncio

import pytest

from engine.signaling.stream import EventStream


async def test_events_in_order_and_then_the_end() -> None:
    stream: EventStream[int] = EventStream()
    taken: list[str] = []
    stream.put(1, lambda: taken.append("one"))
    stream.put(2)
    assert taken == []
    assert await anext(stream) == 1
    assert taken == ["one"]
    stream.close()
    stream.put(3)
    assert [event async for event in stream] == [2]
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_waiting_consumer_wakes_for_an_event_and_for_the_end() -> None:
    stream: EventStream[int] = EventStream()

    async def collect() -> list[int]:
        return [event async for event in stream]

    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(collect())
        stream.put(1)
        stream.close()
    assert task.result() == [1]


async def test_a_full_stream_holds_the_producer() -> None:
    stream: EventStream[int] = EventStream(max_events=1)
    await stream.put_bounded(1)
    waiting = asyncio.create_task(stream.put_bounded(2))
    async with asyncio.timeout(5):
        assert await anext(stream) == 1
        await waiting
        assert await anext(stream) == 2


async def test_closing_frees_a_waiting_producer() -> None:
    stream: EventStream[int] = EventStream(max_events=1)
    await stream.put_bounded(1)
    waiting = asyncio.create_task(stream.put_bounded(2))
    async with asyncio.timeout(5):
        await stream.aclose()
        await waiting
    assert [event async for event in stream] == []
