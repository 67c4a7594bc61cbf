"""`HubClient` against servers that are no hub: each fault has its name, nothing is believed, nothing hangs."""

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from engine.core.errors import PeerError, UserError
from engine.hub.client import MAX_ERROR_BYTES, MAX_REPLY_BYTES, HubClient, checked_hub_url
from engine.hub.errors import HubNonsense, HubRefused, HubUnreachable
from engine.ledger.signing import sign_receipt
from engine.manifest.verify import open_signed
from tests.helpers.hub_samples import identity, receipt, sealed

pytestmark = pytest.mark.integration

ANN, BEN = identity(1), identity(2)
SIGNED = sealed(identity(100))
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Answer], Awaitable[HubClient]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start a server that answers everything with one function; gives a client for it."""
    runners: list[web.AppRunner] = []
    async with aiohttp.ClientSession() as session:

        async def start(answer: Answer) -> HubClient:
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", answer)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            runners.append(runner)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            return HubClient(f"http://127.0.0.1:{runner.addresses[0][1]}", ANN, session)

        yield start
    for runner in runners:
        await runner.cleanup()


def saying(body: bytes | str, status: int = 200, **headers: str) -> Answer:
    async def answer(_request: web.Request) -> web.Response:
        data = body.encode() if isinstance(body, str) else body
        return web.Response(body=data, status=status, content_type="application/json", headers=headers)

    return answer


def entry(**changes: Any) -> dict[str, Any]:
    return {
        "signed_manifest": json.loads(msgspec.json.encode(SIGNED)),
        "peers_now": 1,
        "tokens_verified": 2,
        **changes,
    }


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\xff\xfe",
        "<html>Welcome to the airport</html>",
        '{"name":"hub","version":"1"',
        "[]",
        "null",
        '{"name":7,"version":"1","api_version":1}',
        '{"name":"hub","version":"1","api_version":-1}',
        "[" * 100_000,
        json.dumps({"name": "x" * 10_000, "version": "1", "api_version": 1}),
    ],
)
async def test_garbage_is_nonsense(serve: Serve, body: bytes | str) -> None:
    client = await serve(saying(body))
    with pytest.raises(HubNonsense) as caught:
        await client.hub()
    assert isinstance(caught.value, PeerError)
    assert caught.value.url == f"{client.base_url}/api/v1/hub"
    assert caught.value.detail == "its answer is not one of a hub"


async def test_a_huge_reply_is_not_read_to_its_end(serve: Serve) -> None:
    written = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 65536)
                written += 65536
        except ConnectionError:
            return response

    with pytest.raises(HubNonsense, match="more than"):
        await (await serve(answer)).projects()
    assert written < 8 * MAX_REPLY_BYTES


async def test_a_huge_error_is_not_read_either(serve: Serve) -> None:
    with pytest.raises(HubNonsense, match=f"more than {MAX_ERROR_BYTES}"):
        await (await serve(saying(b" " * 100_000, status=404))).hub()


async def test_a_compressed_reply_is_not_unpacked(serve: Serve) -> None:
    async def answer(_request: web.Request) -> web.Response:
        response = web.Response(body=b" " * 50_000_000)
        response.enable_compression(web.ContentCoding.gzip)
        response.headers["Content-Encoding"] = "gzip"
        return response

    with pytest.raises(HubNonsense):
        await (await serve(answer)).hub()


async def test_a_broken_reply_is_named(serve: Serve) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"name":')
        assert request.transport is not None
        request.transport.close()
        return response

    with pytest.raises((HubNonsense, HubUnreachable)):
        await (await serve(answer)).hub()


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_a_hub_in_trouble_is_unreachable_for_now(serve: Serve, status: int) -> None:
    with pytest.raises(HubUnreachable, match=str(status)):
        await (await serve(saying("oops", status=status))).hub()


async def test_a_refusal_keeps_its_code(serve: Serve) -> None:
    client = await serve(saying('{"error":{"code":"rate_limited","detail":"slow down"}}', status=429))
    with pytest.raises(HubRefused) as caught:
        await client.hub()
    assert (caught.value.code, caught.value.detail) == ("rate_limited", "slow down (rate_limited)")


@pytest.mark.parametrize("body", ["", "no", '{"error":"no"}', '{"error":{"code":"<script>"}}'])
async def test_a_refusal_without_a_reason_is_nonsense(serve: Serve, body: str) -> None:
    with pytest.raises(HubNonsense, match="404"):
        await (await serve(saying(body, status=404))).hub()


async def test_redirects_are_not_followed(serve: Serve) -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    with pytest.raises(HubNonsense, match="302"):
        await (await serve(answer)).hub()
    assert seen == ["/api/v1/hub"]


async def test_a_hub_that_never_answers_is_given_up(serve: Serve) -> None:
    release = asyncio.Event()

    async def answer(_request: web.Request) -> web.Response:
        await release.wait()
        return web.Response()

    silent = await serve(answer)
    client = HubClient(silent.base_url, ANN, silent._session, timeout_seconds=0.05)
    with pytest.raises(HubUnreachable, match="no answer within"):
        await client.hub()
    release.set()


async def test_a_hub_that_drips_is_given_up(serve: Serve) -> None:
    release = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{")
        await release.wait()
        return response

    dripping = await serve(answer)
    client = HubClient(dripping.base_url, ANN, dripping._session, timeout_seconds=0.05)
    with pytest.raises(HubUnreachable, match="no answer within"):
        await client.hub()
    release.set()


async def test_nobody_there_is_unreachable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    async with aiohttp.ClientSession() as session:
        with pytest.raises(HubUnreachable) as caught:
            await HubClient(f"http://127.0.0.1:{port}", ANN, session).hub()
    assert str(port) in caught.value.url
    assert caught.value.detail == f"nobody answers at 127.0.0.1, port {port}"


class NoNames(AbstractResolver):
    """A name service that knows none."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def close(self) -> None:
        """Nothing is held."""


async def test_a_name_that_nobody_has_is_told() -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=NoNames())) as session:
        with pytest.raises(HubUnreachable) as caught:
            await HubClient("http://hub.invalid", ANN, session).hub()
    assert caught.value.detail == "the name hub.invalid is not known"


async def test_an_encrypted_call_to_a_plain_server_is_told(serve: Serve) -> None:
    plain = await serve(saying("{}"))
    client = HubClient(plain.base_url.replace("http:", "https:"), ANN, plain._session)
    with pytest.raises(HubUnreachable) as caught:
        await client.hub()
    assert caught.value.detail.startswith("no encrypted connection could be made to 127.0.0.1, port ")


async def test_something_that_does_not_speak_http(serve: Serve) -> None:
    async def babble(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with aiohttp.ClientSession() as session:
        with pytest.raises((HubNonsense, HubUnreachable)):
            await HubClient(f"http://127.0.0.1:{port}", ANN, session).hub()
    server.close()
    await server.wait_closed()


async def test_a_bad_project_spoils_only_itself(serve: Serve) -> None:
    forged = entry()
    forged["signed_manifest"] = {**forged["signed_manifest"], "signature": base64.b64encode(bytes(64)).decode()}
    absurd = msgspec.to_builtins(SIGNED)
    absurd["payload"] = base64.b64encode(b'{"manifest_version":1}').decode()
    listed = [forged, entry(), 7, entry(peers_now=-1), entry(signed_manifest=absurd), {}]
    found = await (await serve(saying(json.dumps({"projects": listed})))).projects()
    assert [p.verified.project_id for p in found.projects] == [open_signed(SIGNED).project_id]
    assert [dropped.index for dropped in found.dropped] == [0, 2, 3, 4, 5]
    assert "signature" in found.dropped[0].reason
    assert all(dropped.reason for dropped in found.dropped)


async def test_an_endless_catalogue_ends(serve: Serve) -> None:
    calls = 0

    async def answer(_request: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return web.json_response({"projects": [], "next": 10**6 - calls})

    assert (await (await serve(answer)).projects()).projects == ()
    assert calls == 50


async def test_a_catalogue_that_goes_in_circles_ends(serve: Serve) -> None:
    found = await (await serve(saying(json.dumps({"projects": [entry()], "next": 5})))).projects()
    assert len(found.projects) == 2


async def test_results_must_match_what_was_posted(serve: Serve) -> None:
    client = await serve(saying('{"results":[{"status":"stored"},{"status":"stored"}]}'))
    with pytest.raises(HubNonsense, match="2 results for 1"):
        await client.post_receipts([sign_receipt(receipt(BEN, ANN, (ANN, BEN)), BEN)])
    assert await client.post_receipts([]) == ()


async def test_a_call_that_is_cancelled_ends(serve: Serve) -> None:
    asked, release = asyncio.Event(), asyncio.Event()

    async def answer(_request: web.Request) -> web.Response:
        asked.set()
        await release.wait()
        return web.Response()

    call = asyncio.create_task((await serve(answer)).hub())
    async with asyncio.timeout(10):
        await asked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    release.set()


async def test_a_project_id_goes_into_no_address_unchecked(serve: Serve) -> None:
    client = await serve(saying("{}"))
    with pytest.raises(ValueError, match="64 hex digits"):
        await client.leaderboard("../../admin")


@pytest.mark.parametrize(
    "good", ["http://127.0.0.1:8000", "https://hub.example.org/", "https://h/base", "http://[::1]:9"]
)
def test_addresses_of_hubs(good: str) -> None:
    assert checked_hub_url(f" {good} ") == good.rstrip("/")


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "hub.example.org",
        "ftp://hub",
        "file:///etc/passwd",
        "http://",
        "http://user:pw@hub",
        "http://hub?x=1",
        "http://hub#x",
        "http://hub:99999",
        "http://hub:0",
        "http://[::1",
        "http://a b",
        "http://h\nost",
        "http://" + "h" * 300,
    ],
)
def test_what_is_no_address_of_a_hub(bad: str) -> None:
    with pytest.raises(UserError) as caught:
        checked_hub_url(bad)
    assert caught.value.action
