"""The web pages' handlers."""

import re
from typing import Final

from aiohttp import web
from sqlalchemy.orm import Session

from engine.contract.errors import ControlError
from engine.contract.links import JoinLink, build_link
from engine.hub import catalogue, leaderboard
from engine.hub.models import Project
from engine.hub.pages import ProjectView, view_of
from engine.hub.protocol import Board
from engine.hub.refusals import Refusal
from engine.hub.state import DATABASE, STATE
from engine.manifest.verify import VerifiedManifest, open_signed

MAX_ROWS_ON_PAGE: Final = 100
MAX_OLDER_ON_PAGE: Final = 20
MAX_PROJECTS_ON_PAGE: Final = 200
_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")

routes = web.RouteTableDef()


@routes.get("/")
async def get_index(request: web.Request) -> web.Response:
    """All projects, the newest version of each."""
    found, tokens = await request.app[DATABASE].run(_newest)
    rooms = request.app[STATE].rooms
    views = [view_of(v, rooms.peers_in(v.project_id), tokens.get(v.project_id, 0)) for v in found]
    return page_response(request, request.app[STATE].pages.index(views))


@routes.get("/projects/{name}")
async def get_project(request: web.Request) -> web.Response:
    """One project."""
    name = request.match_info["name"]
    found = await request.app[DATABASE].run(lambda session: _project(session, name)) if _SLUG.fullmatch(name) else None
    if found is None:
        raise Refusal("not_found", "This hub has no project of that name.")
    verified, board, older = found
    state = request.app[STATE]
    view: ProjectView = view_of(verified, state.rooms.peers_in(verified.project_id), board.verified_tokens_total)
    link = join_link_of(request, verified.project_id)
    return page_response(request, state.pages.project(view, board, link, older))


def page_response(request: web.Request, text: str, status: int = 200) -> web.Response:
    """A page that may load nothing and run nothing."""
    headers = {
        "Content-Security-Policy": request.app[STATE].pages.content_security_policy,
        "Cache-Control": "no-cache",
        "X-Frame-Options": "DENY",
    }
    return web.Response(text=text, content_type="text/html", charset="utf-8", status=status, headers=headers)


def join_link_of(request: web.Request, project_id: str) -> str:
    """The link that opens Potluck where it is installed. It names the hub as configured, else as this request did.

    Raises:
        Refusal: bad_request, when the request's Host header is no address.
    """
    config = request.app[STATE].config
    secure = request.secure or (config.behind_proxy and request.headers.get("X-Forwarded-Proto") == "https")
    hub_url = config.public_url or f"{'https' if secure else 'http'}://{request.host}"
    try:
        return build_link(JoinLink(hub=hub_url, project=project_id))
    except ControlError as error:
        raise Refusal("bad_request", "The address that this page was asked for under is not one of a hub.") from error


def _newest(session: Session) -> tuple[list[VerifiedManifest], dict[str, int]]:
    newest = [_opened(project) for project in catalogue.newest_of_each(session, MAX_PROJECTS_ON_PAGE)]
    return newest, catalogue.verified_tokens(session, [verified.project_id for verified in newest])


def _project(session: Session, name: str) -> tuple[VerifiedManifest, Board, list[str]] | None:
    versions = catalogue.versions_of(session, name, MAX_OLDER_ON_PAGE + 1)
    if not versions:
        return None
    verified = _opened(versions[0])
    board = leaderboard.read_board(session, verified.project_id, count=MAX_ROWS_ON_PAGE)
    return verified, board, [project.project_id for project in versions[1:]]


def _opened(project: Project) -> VerifiedManifest:
    return open_signed(catalogue.signed_manifest_of(project))
