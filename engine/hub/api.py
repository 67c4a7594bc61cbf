"""The JSON API. Spec: docs/specs/hub.md."""

import asyncio
import re
from typing import Final, TypeVar

import msgspec
from aiohttp import web
from sqlalchemy.orm import Session

from engine.contract.version import PRODUCT_VERSION
from engine.hub import catalogue, leaderboard, names, receipts
from engine.hub.limits import MAX_BOARD_DAYS, MAX_RECEIPTS_PER_PAGE, REQUEST_BODY_SECONDS
from engine.hub.protocol import (
    API_VERSION,
    Board,
    HubInfo,
    NameStored,
    ProjectEntry,
    ProjectPage,
    Published,
    ReceiptPage,
    ReceiptResults,
    ReceiptsPost,
    SignedName,
)
from engine.hub.refusals import Refusal
from engine.hub.state import DATABASE, STATE, address_of
from engine.manifest.schema import SignedManifest

T = TypeVar("T")

SECONDS_PER_DAY: Final = 86_400.0
MAX_CURSOR: Final = 2**62
_PROJECT_ID: Final = re.compile(r"[0-9a-f]{64}")

routes = web.RouteTableDef()


def json_response(body: msgspec.Struct, status: int = 200) -> web.Response:
    """`body` as JSON."""
    return web.Response(body=msgspec.json.encode(body), content_type="application/json", status=status)


@routes.get("/api/v1/hub")
async def get_hub(request: web.Request) -> web.Response:
    """Who this is. TURN credentials are for peers in a room only."""
    config = request.app[STATE].config
    public = tuple(server for server in config.ice_servers if not server.credential)
    return json_response(
        HubInfo(name=config.name[:120], version=PRODUCT_VERSION, api_version=API_VERSION, ice_servers=public)
    )


@routes.get("/api/v1/projects")
async def get_projects(request: web.Request) -> web.Response:
    """A page of the catalogue."""
    before = _whole_number(request, "after", 0, MAX_CURSOR)
    rooms = request.app[STATE].rooms

    def read(session: Session) -> tuple[list[tuple[str, SignedManifest]], int | None, dict[str, int]]:
        projects, cursor = catalogue.page(session, before)
        signed = [(project.project_id, catalogue.signed_manifest_of(project)) for project in projects]
        return signed, cursor, catalogue.verified_tokens(session, [project_id for project_id, _ in signed])

    signed, cursor, tokens = await request.app[DATABASE].run(read)
    entries = tuple(
        ProjectEntry(
            signed_manifest=manifest,
            peers_now=rooms.peers_in(project_id),
            tokens_verified=tokens.get(project_id, 0),
        )
        for project_id, manifest in signed
    )
    return json_response(ProjectPage(projects=entries, next=cursor))


@routes.post("/api/v1/projects")
async def post_project(request: web.Request) -> web.Response:
    """Publish."""
    signed = await _body(request, SignedManifest)
    state = request.app[STATE]
    config, now = state.config, state.now()
    project_id, status = await request.app[DATABASE].run(
        lambda session: catalogue.publish(session, signed, config.publishers, config.limits, now)
    )
    return json_response(Published(project_id=project_id, status=status))


@routes.get("/api/v1/projects/{project_id}/leaderboard")
async def get_leaderboard(request: web.Request) -> web.Response:
    """The board, of all time or of the last `days`."""
    project_id = _project_id(request)
    days = _whole_number(request, "days", 1, MAX_BOARD_DAYS)
    since = None if days is None else request.app[STATE].now() - days * SECONDS_PER_DAY

    def read(session: Session) -> Board:
        _check_known(catalogue.is_known(session, project_id))
        return leaderboard.read_board(session, project_id, since)

    return json_response(await request.app[DATABASE].run(read))


@routes.get("/api/v1/projects/{project_id}/receipts")
async def get_receipts(request: web.Request) -> web.Response:
    """A page of the stored receipts."""
    project_id = _project_id(request)
    after = _whole_number(request, "after", 0, MAX_CURSOR) or 0

    def read(session: Session) -> ReceiptPage:
        _check_known(catalogue.is_known(session, project_id))
        entries, cursor = receipts.export(session, project_id, after, MAX_RECEIPTS_PER_PAGE)
        return ReceiptPage(receipts=entries, next=cursor)

    return json_response(await request.app[DATABASE].run(read))


@routes.post("/api/v1/receipts")
async def post_receipts(request: web.Request) -> web.Response:
    """Receipts in; each one has its own result."""
    posted = await _body(request, ReceiptsPost)
    now = request.app[STATE].now()
    results = await request.app[DATABASE].run(lambda session: receipts.store_all(session, posted.receipts, now))
    return json_response(ReceiptResults(results=results))


@routes.post("/api/v1/names")
async def post_name(request: web.Request) -> web.Response:
    """A peer says what it wants to be called."""
    signed = await _body(request, SignedName)
    now = request.app[STATE].now()
    return json_response(
        NameStored(status=await request.app[DATABASE].run(lambda session: names.set_name(session, signed, now)))
    )


@routes.get("/api/v1/rooms/{project_id}", allow_head=False)
async def get_room(request: web.Request) -> web.StreamResponse:
    """The websocket of a project's room."""
    project_id = _project_id(request)
    rooms = request.app[STATE].rooms
    if not await request.app[DATABASE].run(lambda session: catalogue.is_known(session, project_id)):
        return await rooms.refuse(request, "unknown_project", "this hub does not have that project")
    return await rooms.serve(request, project_id, address_of(request))


async def _body(request: web.Request, kind: type[T]) -> T:
    """The request's JSON.

    Raises:
        Refusal: unsupported, timeout, bad_request.
        web.HTTPRequestEntityTooLarge: more than MAX_BODY_BYTES.
    """
    if request.content_type != "application/json":
        raise Refusal("unsupported", "the body must be application/json")
    try:
        async with asyncio.timeout(REQUEST_BODY_SECONDS):
            data = await request.read()
    except TimeoutError as error:
        raise Refusal("timeout", "the body did not arrive in time") from error
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal("bad_request", str(error)[:300]) from error


def _project_id(request: web.Request) -> str:
    project_id = request.match_info["project_id"]
    if not _PROJECT_ID.fullmatch(project_id):
        raise Refusal("bad_request", "a project id is 64 hex digits")
    return project_id


def _check_known(known: bool) -> None:
    if not known:
        raise Refusal("unknown_project", "this hub does not have that project")


def _whole_number(request: web.Request, name: str, least: int, most: int) -> int | None:
    text = request.query.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 20 or not least <= int(text) <= most:
        raise Refusal("bad_request", f"{name} must be a whole number from {least} to {most}")
    return int(text)
