"""Small kits: wheels that are real zip files, a lock that names them, and a server that can be told to misbehave."""

import asyncio
import contextlib
import hashlib
import io
import zipfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import msgspec
from aiohttp import web

from engine.kit.lock import Kit, KitFile, KitLock


def wheel(members: dict[str, bytes]) -> bytes:
    """A zip file with these members."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in members.items():
            out.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)  # of no time, so always the same bytes
    return data.getvalue()


def torch_like(version: str = "1") -> dict[str, bytes]:
    """Two files: one big enough to be cut in ten places, one small. The first says "works" when it is imported."""
    noise = b"".join(hashlib.sha256(f"{version} {n}".encode()).digest() for n in range(8192))
    return {
        f"toytorch-{version}-py3-none-any.whl": wheel(
            {"toytorch/__init__.py": b"print('works')\n", "toytorch/noise.bin": noise}
        ),
        f"toycompanion-{version}-py3-none-any.whl": wheel({"toycompanion/__init__.py": b""}),
    }


def kit_of(files: dict[str, bytes], version: str = "1", **fields: str) -> Kit:
    """The entry of a lock for these files."""
    named = {"system": "linux", "machine": "x86_64", "python": "3.11", "computes_on": "cpu", **fields}
    listed = tuple(KitFile(name, hashlib.sha256(data).hexdigest(), len(data)) for name, data in files.items())
    return Kit(version=version, files=listed, **named)


def lock_of(**kits: Kit) -> KitLock:
    """As parsed."""
    return KitLock(1, {name.replace("_", "-"): kit for name, kit in kits.items()})


def lock_bytes(lock: KitLock) -> bytes:
    """As a file."""
    return msgspec.json.encode(lock)


@dataclass
class Mirror:
    """Serves `files`; `misbehave` may answer in their place."""

    files: dict[str, bytes]
    url: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)  # name, Range header
    cut_after: list[int] = field(default_factory=list)  # bytes of the next answers, then the line is cut
    holding: bool = False  # half of an answer, and then nothing until `let_go`
    holds: asyncio.Event = field(default_factory=asyncio.Event)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    taken: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    misbehave: Callable[[str], web.StreamResponse | None] = lambda name: None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        self.asked.append((name, request.headers.get("Range", "")))
        odd = self.misbehave(name)
        if odd is not None:
            return odd
        data = self.files.get(name)
        if data is None:
            return web.Response(status=404)
        start = int(request.headers.get("Range", "bytes=0-")[6:-1])
        status, headers = 200, {"Content-Length": str(len(data) - start)}
        if start:
            status = 206
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        response = web.StreamResponse(status=status, headers=headers)
        await response.prepare(request)
        piece = data[start:]
        if self.holding:
            await response.write(piece[: len(piece) // 2])
            self.holds.set()
            async with asyncio.timeout(20):
                await self.let_go.wait()
            return response
        cut = self.cut_after.pop(0) if self.cut_after else None
        with contextlib.suppress(ConnectionError):  # who has had enough hangs up
            await response.write(piece[:cut])
        if cut is not None:
            await self._until(min(start + cut, len(data)))
            if request.transport is not None:
                request.transport.close()
        return response

    def note(self, done: int) -> None:
        """The other side has so many bytes: what is in between when a line is cut is lost, as in life."""
        self.taken = done
        self._news.set()

    async def _until(self, done: int) -> None:
        async with asyncio.timeout(20):
            while self.taken < done:
                self._news.clear()
                await self._news.wait()


@contextlib.asynccontextmanager
async def a_mirror(files: dict[str, bytes]) -> AsyncIterator[Mirror]:
    """On loopback."""
    mirror = Mirror(files)
    app = web.Application()
    app.router.add_get("/kits/{name}", mirror.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port: int = runner.addresses[0][1]
    mirror.url = f"http://127.0.0.1:{port}/kits"
    try:
        yield mirror
    finally:
        await runner.cleanup()
