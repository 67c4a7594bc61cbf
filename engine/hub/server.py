"""The hub as an application and as a running server."""

import contextlib
import errno
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from sqlalchemy.exc import SQLAlchemyError

from engine.core.errors import UserError
from engine.hub import api, kits
from engine.hub import web as hub_web
from engine.hub.config import HubConfig
from engine.hub.database import Database, Overloaded
from engine.hub.limits import MAX_BODY_BYTES
from engine.hub.protocol import ErrorDetail, ErrorReply
from engine.hub.refusals import Refusal
from engine.hub.state import DATABASE, STATE, address_of, new_state

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS: Final = 10.0
_COMMON_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
_HTTP_CODES: Final = {404: "not_found", 405: "not_found", 413: "too_large"}


@dataclass(frozen=True, slots=True)
class RunningHub:
    """A hub that answers at `url`."""

    url: str
    host: str
    port: int


def build_app(config: HubConfig, now: Callable[[], float] = time.time) -> web.Application:
    """The application; opens its database when it starts (which raises UserError) and closes it at the end."""
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_answer_errors, _limit_rate])
    app[STATE] = new_state(config, now)
    app.add_routes(api.routes)
    app.add_routes(hub_web.routes)
    app.add_routes(kits.routes)
    app.cleanup_ctx.append(_database)
    app.on_shutdown.append(_stop_rooms)
    app.on_response_prepare.append(_add_headers)
    return app


@contextlib.asynccontextmanager
async def running_hub(config: HubConfig, now: Callable[[], float] = time.time) -> AsyncIterator[RunningHub]:
    """Serve until the block ends; then say goodbye to open websockets and close the database.

    Raises:
        UserError: the database cannot be used, or the port cannot be listened on.
    """
    runner = web.AppRunner(
        build_app(config, now),
        access_log=None,
        shutdown_timeout=SHUTDOWN_SECONDS,
        auto_decompress=False,
        handle_signals=False,
    )
    try:
        await runner.setup()
        await _listen(runner, config)
        port: int = runner.addresses[0][1]
        hub = RunningHub(url=_url(config.host, port), host=config.host, port=port)
        log.info("hub listens at %s", hub.url)
        yield hub
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, config: HubConfig) -> None:
    # On Windows this option would let two programs share a port.
    site = web.TCPSite(runner, config.host, config.port, reuse_address=os.name == "posix")
    try:
        await site.start()
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            why = "is in use by another program" if error.errno == errno.EADDRINUSE else "may not be used by this user"
            raise UserError(
                f"Port {config.port} on {config.host} {why}.", "Choose another port for the hub."
            ) from error
        raise UserError(
            f"The hub cannot listen on {config.host}, port {config.port}: {error.strerror or error}.",
            "Check the address.",
        ) from error


def _url(host: str, port: int) -> str:
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 (not bound here)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


async def _database(app: web.Application) -> AsyncIterator[None]:
    app[DATABASE] = database = await Database.open(app[STATE].config.database_url)
    yield
    await database.close()


async def _stop_rooms(app: web.Application) -> None:
    app[STATE].rooms.stop()


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in _COMMON_HEADERS.items():
        response.headers.setdefault(name, value)


@web.middleware
async def _limit_rate(request: web.Request, handler: Handler) -> web.StreamResponse:
    state = request.app[STATE]
    limiter = state.reads if request.method in ("GET", "HEAD") else state.writes
    if not limiter.allow(address_of(request), time.monotonic()):
        raise Refusal("rate_limited", "too many calls from this address; try again in a moment")
    return await handler(request)


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Refusal as refusal:
        return _error(request, refusal.status, refusal.code, refusal.detail)
    except Overloaded:
        return _error(request, HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", "the hub is busy; try again in a moment")
    except SQLAlchemyError as error:
        log.error("database failed in %s %r: %s", request.method, request.path, error)
        return _error(request, HTTPStatus.SERVICE_UNAVAILABLE, "storage", "the hub cannot use its database now")
    except web.HTTPException as error:
        if error.status < HTTPStatus.BAD_REQUEST:
            raise
        code = _HTTP_CODES.get(error.status, "bad_request")
        return _error(request, HTTPStatus(error.status), code, error.reason)


def _error(request: web.Request, status: HTTPStatus, code: str, detail: str) -> web.Response:
    if request.path.startswith("/api/"):
        return api.json_response(ErrorReply(error=ErrorDetail(code=code, detail=detail[:500])), status=status)
    heading = "There is no such page" if status == HTTPStatus.NOT_FOUND else "This did not work"
    return hub_web.page_response(request, request.app[STATE].pages.error(heading, detail), status)
