"""The files of training kits, from a folder of the operator. Volunteers check each by the hash that they know."""

import asyncio
import re
from typing import Final

from aiohttp import web

from engine.hub.refusals import Refusal
from engine.hub.state import STATE

CHUNK_BYTES: Final = 256 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}\.whl")

routes = web.RouteTableDef()


@routes.get("/kits/{filename}")
async def get_file(request: web.Request) -> web.StreamResponse:
    """One file, whole or from where an earlier download ended (RFC 9110, Range)."""
    folder, name = request.app[STATE].config.kits_folder, request.match_info["filename"]
    if folder is None or not _NAME.fullmatch(name):
        raise Refusal("not_found", "This hub has no such file.")
    path = folder / name
    if not await asyncio.to_thread(path.is_file):
        raise Refusal("not_found", "This hub has no such file.")
    return web.FileResponse(path, chunk_size=CHUNK_BYTES)
