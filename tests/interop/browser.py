"""A headless Chromium with one page, driven over the DevTools protocol. It ends with its context, whatever happens."""

import asyncio
import contextlib
import itertools
import os
import re
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

PATIENCE_SECONDS: Final = 60.0
END_SECONDS: Final = 10.0
NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root, where Chromium has none
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
    "--allow-loopback-in-peer-connection",
    "--disable-features=WebRtcHideLocalIpsWithMdns",
    # Nothing of its own to the outside.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--metrics-recording-only",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
_LISTENING: Final = re.compile(rb"DevTools listening on (ws://127\.0\.0\.1:\d+/\S+)")
_TELL: Final = "tell"
"""The page's function by which it tells events, as JSON."""


class BrowserFault(RuntimeError):
    """The browser did not start, or its page raised; the text says what."""


def program() -> str | None:
    """The path of a Chromium on this computer."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One page of a browser: calls go in, events come out."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._session = ""
        self._reader = asyncio.create_task(self._read())

    async def open(self, file: Path) -> None:
        """Show a local file and wait until its scripts ran."""
        target = await self._command("Target.createTarget", url="about:blank")
        attached = await self._command("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        await self._command("Runtime.enable")
        await self._command("Runtime.addBinding", name=_TELL)
        await self._command("Page.enable")
        await self._command("Page.navigate", url=file.as_uri())
        await self.event("loaded")
        if not await self.call("gathers()"):
            # Without a default route only a page that may record is told of an address, and then of loopback's.
            await self._command("Browser.grantPermissions", permissions=["audioCapture"])

    async def call(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited where it is a promise.

        Raises:
            BrowserFault: it threw.
        """
        reply = await self._command("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if (thrown := reply.get("exceptionDetails")) is not None:
            raise BrowserFault(str(thrown.get("exception", {}).get("description", thrown)))
        return reply["result"].get("value")

    async def event(self, name: str) -> dict[str, Any]:
        """The next event of the page, which has to be this one.

        Raises:
            BrowserFault: it is another one.
        """
        async with asyncio.timeout(PATIENCE_SECONDS):
            event = await self._events.get()
        if event["event"] != name:
            raise BrowserFault(f"{event} came where {name} was due")
        return event

    async def close(self) -> None:
        """Ask the browser to end, with all its processes; the connection to it ends too."""
        self._session = ""
        with contextlib.suppress(BrowserFault, ConnectionError, TimeoutError):
            await self._command("Browser.close")
        await self._socket.close()
        await self._reader

    async def _command(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        reply = self._replies[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": params}
        await self._socket.send_str(msgspec.json.encode(message | self._to_session()).decode())
        async with asyncio.timeout(PATIENCE_SECONDS):
            result: dict[str, Any] = await reply
        return result

    def _to_session(self) -> dict[str, str]:
        return {"sessionId": self._session} if self._session else {}

    async def _read(self) -> None:
        async for frame in self._socket:
            message = msgspec.json.decode(frame.data)
            if (reply := self._replies.pop(message.get("id", 0), None)) is not None:
                self._answered(reply, message)
                continue
            params = message.get("params", {})
            match message.get("method"):
                case "Runtime.bindingCalled":
                    self._events.put_nowait(msgspec.json.decode(params["payload"]))
                case "Runtime.exceptionThrown":
                    self._events.put_nowait({"event": "threw", "what": params["exceptionDetails"]})
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(BrowserFault("the browser is gone"))

    def _answered(self, reply: asyncio.Future[dict[str, Any]], message: dict[str, Any]) -> None:
        if reply.done():
            return
        if "error" in message:
            reply.set_exception(BrowserFault(str(message["error"])))
        else:
            reply.set_result(message["result"])


@contextlib.asynccontextmanager
async def a_browser(profile: Path, page: Path) -> AsyncIterator[Page]:
    """A browser with an own profile in the folder `profile` that shows the local file `page`.

    Raises:
        BrowserFault: there is no Chromium, or it did not start.
    """
    path = program()
    if path is None:
        raise BrowserFault("there is no Chromium on this computer")
    process = await asyncio.create_subprocess_exec(
        *_dying_with_parent(),
        path,
        *FLAGS,
        f"--user-data-dir={profile}",
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
        env={**os.environ, "HOME": str(profile)},
        start_new_session=True,
    )
    try:
        url = await _listening(process)
        rest = asyncio.create_task(_drain(process))
        async with aiohttp.ClientSession() as http, http.ws_connect(url, max_msg_size=0) as socket:
            shown = Page(socket)
            try:
                await shown.open(page)
                yield shown
            finally:
                await shown.close()
                await _end(process, patience_seconds=END_SECONDS)
                await rest
    finally:
        await _end(process)


def _dying_with_parent() -> tuple[str, ...]:
    """Before a command: the system kills it when this process is killed and cannot (Linux's PR_SET_PDEATHSIG)."""
    return ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()


async def _listening(process: Process) -> str:
    """Where it takes commands."""
    if process.stderr is None:
        raise AssertionError("no pipe for its standard error")
    said = b""
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for line in process.stderr:
            said += line
            if (found := _LISTENING.search(line)) is not None:
                return found[1].decode()
    raise BrowserFault(f"the browser did not start: {said[-2000:].decode(errors='replace')}")


async def _drain(process: Process) -> None:
    if process.stderr is not None:
        while await process.stderr.read(65536):
            pass


async def _end(process: Process, patience_seconds: float = 0.0) -> None:
    """The browser and all processes of its own group, by force where it does not end by itself."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience_seconds):
            await process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
