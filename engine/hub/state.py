"""What the request handlers share."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from engine.hub.config import HubConfig
from engine.hub.database import Database
from engine.hub.limits import AddressLimiter
from engine.hub.pages import Pages
from engine.hub.rooms_web import RoomService


@dataclass(frozen=True, slots=True)
class HubState:
    """One hub. `now` gives seconds since the epoch."""

    config: HubConfig
    rooms: RoomService
    pages: Pages
    reads: AddressLimiter
    writes: AddressLimiter
    now: Callable[[], float]


STATE: Final = web.AppKey("state", HubState)
DATABASE: Final = web.AppKey("database", Database)


def new_state(config: HubConfig, now: Callable[[], float] = time.time) -> HubState:
    """A hub that nobody has called yet."""
    return HubState(
        config=config,
        rooms=RoomService(config),
        pages=Pages(config.name),
        reads=AddressLimiter(config.limits.reads),
        writes=AddressLimiter(config.limits.writes),
        now=now,
    )


def address_of(request: web.Request) -> str:
    """Who calls: the connection's address, or what our own reverse proxy says of it."""
    if request.app[STATE].config.behind_proxy:
        forwarded = request.headers.getall("X-Forwarded-For", [])
        # The last entry is the one that our proxy wrote; those before it are the caller's own words.
        if forwarded and (last := forwarded[-1].rpartition(",")[2].strip()):
            return last
    return request.remote or ""
