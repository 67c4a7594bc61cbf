"""aiortc's habit of losing a race on close."""

import asyncio
import logging
from typing import Any

log = logging.getLogger(__name__)

_LIBRARIES = ("aiortc", "aioice")


def tame_losses(loop: asyncio.AbstractEventLoop) -> None:
    """Keep one kind of report out of the log of `loop`: tasks of aiortc that found their connection gone.

    WORKAROUND: aiortc starts tasks that nobody awaits (flush, retransmit, connect); when the connection goes down
    between their start and their turn they raise ConnectionError, which asyncio reports as an error although the link
    has told of its end by other means. Everything else goes to the handler that was there before.
    """
    before = loop.get_exception_handler()
    if getattr(before, "tames_losses", False):
        return

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if _is_lost_race(context):
            log.debug("aiortc met a closed connection: %s", context.get("exception"))
        elif before is not None:
            before(loop, context)
        else:
            loop.default_exception_handler(context)

    handle.tames_losses = True  # type: ignore[attr-defined]
    loop.set_exception_handler(handle)


def _is_lost_race(context: dict[str, Any]) -> bool:
    task = context.get("future")
    if not isinstance(context.get("exception"), ConnectionError) or not isinstance(task, asyncio.Task):
        return False
    code = getattr(task.get_coro(), "cr_code", None)
    parts = code.co_filename.replace("\\", "/").split("/") if code is not None else []
    return any(library in parts for library in _LIBRARIES)
