import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine
from typing import Any, cast

import aioice.stun
import pytest

from engine.transport.library import CONSENT_SECONDS, tame_losses
from tests.helpers.guards import ExpectLog


def failing(file: str, error: Exception) -> Callable[[], Coroutine[Any, Any, None]]:
    """A coroutine function that seems to come from `file`."""

    async def work() -> None:
        raise error

    work.__code__ = work.__code__.replace(co_filename=file)
    return work


async def forget(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a task that nobody awaits."""
    task = asyncio.create_task(work())
    await asyncio.wait([task])
    del task
    gc.collect()


@pytest.mark.parametrize("file", ["/lib/aiortc/rtcsctptransport.py", "C:\\lib\\aioice\\ice.py"])
async def test_a_lost_race_inside_the_library_is_no_news(file: str) -> None:
    tame_losses(asyncio.get_running_loop())
    await forget(failing(file, ConnectionError("not connected")))


@pytest.mark.parametrize(
    ("file", "error"),
    [("/lib/aiortc/sdp.py", ValueError("odd")), ("/lib/engine/transport/link.py", ConnectionError("ours"))],
)
async def test_everything_else_is_reported(file: str, error: Exception, expect_log: ExpectLog) -> None:
    expect_log("asyncio", logging.ERROR, match="never retrieved")
    tame_losses(asyncio.get_running_loop())
    await forget(failing(file, error))


async def test_the_handler_that_was_there_still_hears_the_rest() -> None:
    heard: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: heard.append(context))
    tame_losses(loop)
    tame_losses(loop)
    await forget(failing("/lib/aiortc/x.py", ConnectionError()))
    assert heard == []
    await forget(failing("/lib/other.py", ConnectionError()))
    assert len(heard) == 1


async def test_an_answer_to_a_consent_check_may_take_a_while() -> None:
    """A full buffer on the line, or a busy computer, is no reason to close a connection."""
    request = aioice.stun.Message(aioice.stun.Method.BINDING, aioice.stun.Class.REQUEST)
    check = aioice.stun.Transaction(request, ("192.0.2.1", 1), cast(Any, None), retransmissions=0)
    other = aioice.stun.Transaction(request, ("192.0.2.1", 1), cast(Any, None))
    assert check._Transaction__timeout_delay == CONSENT_SECONDS  # type: ignore[attr-defined]
    assert other._Transaction__timeout_delay == aioice.stun.RETRY_RTO  # type: ignore[attr-defined]
