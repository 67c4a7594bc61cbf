import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.transport.pacing import BURST_SECONDS, Pacer, TokenBucket


def test_no_cap_never_waits() -> None:
    bucket = TokenBucket(None, 0.0)
    bucket.charge(10**12, 0.0)
    assert bucket.delay(0.0) == 0.0


def test_the_cap_is_held_after_the_burst() -> None:
    bucket = TokenBucket(1000, 0.0)
    bucket.charge(1000, 0.0)
    delay = bucket.delay(0.0)
    assert delay == pytest.approx((1000 - 1000 * BURST_SECONDS) / 1000, abs=0.01)
    assert bucket.delay(delay) == 0.0


@given(
    rate=st.integers(100, 10**6),
    sizes=st.lists(st.integers(1, 20_000), min_size=1, max_size=60),
)
def test_over_any_time_no_more_than_rate_burst_and_one_piece_go_out(rate: int, sizes: list[int]) -> None:
    bucket, now, sent = TokenBucket(rate, 0.0), 0.0, 0
    for size in sizes:
        now += bucket.delay(now)
        assert bucket.delay(now) == 0.0
        bucket.charge(size, now)
        sent += size
        assert sent <= rate * now + rate * BURST_SECONDS + size + 1.0


def test_a_long_pause_saves_up_no_more_than_the_burst() -> None:
    bucket = TokenBucket(1000, 0.0)
    bucket.charge(int(1000 * BURST_SECONDS), 1000.0)
    assert bucket.delay(1000.0) > 0.0


def test_control_runs_into_debt_that_bulk_pays() -> None:
    bucket = TokenBucket(1000, 0.0)
    for _ in range(10):
        bucket.charge(1000, 0.0)
    assert bucket.delay(0.0) == pytest.approx(10.0 - BURST_SECONDS, abs=0.01)


def test_changing_the_cap_often_lets_nothing_through() -> None:
    bucket = TokenBucket(1000, 0.0)
    bucket.charge(5000, 0.0)
    for _ in range(100):
        bucket.set_rate(1000, 0.0)
        bucket.set_rate(2000, 0.0)
    assert bucket.delay(0.0) > 2.0
    bucket.set_rate(None, 0.0)
    assert bucket.delay(0.0) == 0.0


def test_a_clock_that_runs_back_gives_nothing() -> None:
    bucket = TokenBucket(1000, 100.0)
    bucket.charge(1000, 100.0)
    before = bucket.delay(100.0)
    assert bucket.delay(50.0) == before


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def settle(condition: Callable[[], bool]) -> None:
    for _ in range(100):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came about")


async def test_a_raised_cap_frees_the_one_that_waits() -> None:
    pacer = Pacer(1, Clock())
    pacer.charge(10**9)
    waiting = asyncio.create_task(pacer.pass_through(1000))
    await settle(pacer._turn.locked)
    assert not waiting.done()
    pacer.set_rate(None)
    async with asyncio.timeout(5):
        await waiting


async def test_first_come_first_served() -> None:
    pacer, order = Pacer(1, Clock()), []
    pacer.charge(10**9)

    async def go(name: int) -> None:
        await pacer.pass_through(1)
        order.append(name)

    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        for name in range(5):
            tasks.create_task(go(name))
        await settle(pacer._turn.locked)
        pacer.set_rate(None)
    assert order == [0, 1, 2, 3, 4]


async def test_cancelling_a_waiter_lets_the_next_one_go() -> None:
    pacer = Pacer(1, Clock())
    pacer.charge(10**9)
    first, second = (asyncio.create_task(pacer.pass_through(1)) for _ in range(2))
    await settle(pacer._turn.locked)
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    pacer.set_rate(None)
    async with asyncio.timeout(5):
        await second
