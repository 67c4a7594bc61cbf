"""A real hub on loopback: API, pages, restarts, and what callers do wrong."""

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import sqlalchemy as sa

from engine.contract.links import JoinLink, parse_link
from engine.core.errors import UserError
from engine.hub.client import HubClient
from engine.hub.config import HubConfig, sqlite_url
from engine.hub.errors import HubRefused
from engine.hub.limits import MAX_BODY_BYTES, HubLimits, Rate
from engine.hub.server import RunningHub, running_hub
from engine.ledger.accounting import board, tally
from engine.ledger.signing import open_receipt, sign_receipt
from engine.manifest.verify import open_signed
from engine.signaling.messages import IceServer
from tests.helpers.guards import ExpectLog
from tests.helpers.hub_samples import SEQUENCE_LENGTH, identity, receipt, sealed

pytestmark = pytest.mark.integration

NOW = 1_700_000_000.0
PUBLISHER = identity(100)
ANN, BEN, CAT = TABLE = tuple(identity(number) for number in range(3))
SIGNED = sealed(PUBLISHER)
PROJECT = open_signed(SIGNED)


@pytest.fixture
def config(tmp_path: Path) -> HubConfig:
    return HubConfig(database_url=sqlite_url(tmp_path / "hub.db"), name="Test hub")


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
async def hub(config: HubConfig) -> AsyncIterator[RunningHub]:
    async with running_hub(config, now=lambda: NOW) as running:
        yield running


@pytest.fixture
def client(hub: RunningHub, session: aiohttp.ClientSession) -> HubClient:
    return HubClient(hub.url, ANN, session)


async def error_of(response: aiohttp.ClientResponse) -> tuple[int, str]:
    body = await response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "detail"}
    return response.status, body["error"]["code"]


async def test_publish_contribute_and_read_the_board(client: HubClient) -> None:
    info = await client.hub()
    assert (info.name, info.api_version) == ("Test hub", 1)
    assert (await client.publish(SIGNED)).status == "stored"
    assert (await client.publish(SIGNED)).status == "duplicate"
    receipts = [
        sign_receipt(receipt(by, whom, TABLE, manifest_hash=PROJECT.manifest_hash), by)
        for by in TABLE
        for whom in TABLE
        if by is not whom
    ]
    assert {result.status for result in await client.post_receipts(receipts)} == {"stored"}
    assert {result.status for result in await client.post_receipts(receipts)} == {"duplicate"}
    await client.set_name("Ann", NOW)
    shown = await client.leaderboard(PROJECT.project_id, days=1)
    assert {row.peer_id: row.name for row in shown.rows}[ANN.peer_id] == "Ann"
    assert shown.verified_tokens_total == 3 * 4 * SEQUENCE_LENGTH
    page = await client.receipts(PROJECT.project_id)
    rows = tally([open_receipt(entry.receipt) for entry in page.receipts], {PROJECT.manifest_hash: SEQUENCE_LENGTH})
    recomputed = board(rows, PROJECT.manifest_hash)
    assert [(r.peer_id, r.verified_tokens) for r in recomputed] == [(r.peer_id, r.verified_tokens) for r in shown.rows]
    found = await client.projects()
    assert [(p.verified.project_id, p.peers_now, p.tokens_verified) for p in found.projects] == [
        (PROJECT.project_id, 0, 3 * 4 * SEQUENCE_LENGTH)
    ]
    assert found.dropped == ()


async def test_a_restart_keeps_everything(config: HubConfig, session: aiohttp.ClientSession) -> None:
    signed = sign_receipt(receipt(BEN, ANN, TABLE, manifest_hash=PROJECT.manifest_hash), BEN)
    async with running_hub(config) as first:
        client = HubClient(first.url, ANN, session)
        await client.publish(SIGNED)
        await client.post_receipts([signed])
        before = await client.leaderboard(PROJECT.project_id)
    async with running_hub(config) as second:
        client = HubClient(second.url, ANN, session)
        assert await client.leaderboard(PROJECT.project_id) == before
        assert [p.signed for p in (await client.projects()).projects] == [SIGNED]
        assert [r.status for r in await client.post_receipts([signed])] == ["duplicate"]


async def test_more_receipts_than_one_post_takes_go_in_several(client: HubClient) -> None:
    await client.publish(SIGNED)
    receipts = [
        sign_receipt(
            receipt(BEN, ANN, TABLE, manifest_hash=PROJECT.manifest_hash, round_id=number.to_bytes(16, "big")), BEN
        )
        for number in range(300)
    ]
    results = await client.post_receipts(receipts)
    assert [result.status for result in results] == ["stored"] * 300


async def test_a_taken_port_is_named(config: HubConfig, hub: RunningHub, tmp_path: Path) -> None:
    second = replace(config, port=hub.port, database_url=sqlite_url(tmp_path / "second.db"))
    with pytest.raises(UserError, match=f"Port {hub.port} on 127.0.0.1 is in use") as caught:
        async with running_hub(second):
            pass
    assert caught.value.action


async def test_a_database_that_is_none_is_named(config: HubConfig, tmp_path: Path) -> None:
    (tmp_path / "hub.db").write_bytes(b"nonsense " * 1000)
    with pytest.raises(UserError, match=r"hub\.db cannot be used"):
        async with running_hub(config):
            pass


async def test_a_database_that_breaks_while_running_answers_503(
    config: HubConfig, hub: RunningHub, session: aiohttp.ClientSession, expect_log: ExpectLog
) -> None:
    expect_log("engine.hub.server", logging.ERROR, "database failed")
    behind_its_back = sa.create_engine(config.database_url)
    with behind_its_back.begin() as connection:
        connection.execute(sa.text("DROP TABLE projects"))
    behind_its_back.dispose()
    async with session.get(f"{hub.url}/api/v1/projects") as response:
        assert await error_of(response) == (503, "storage")


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/api/v1/projects", b"", 400, "bad_request"),
        ("/api/v1/projects", b"{", 400, "bad_request"),
        ("/api/v1/projects", b"[" * 100_000, 400, "bad_request"),
        ("/api/v1/projects", b'{"payload":"e30=","public_key":"","signature":""}', 400, "bad_request"),
        ("/api/v1/receipts", b'{"receipts":7}', 400, "bad_request"),
        ("/api/v1/receipts", json.dumps({"receipts": [1] * 257}).encode(), 400, "bad_request"),
        ("/api/v1/names", b'{"peer_id":"x","name":"y","at":1,"signature":""}', 400, "bad_request"),
        ("/api/v1/names", b"\xff\xfe\x00", 400, "bad_request"),
        ("/api/v1/nothing", b"{}", 404, "not_found"),
        ("/api/v1/hub", b"{}", 405, "not_found"),
        ("/api/v1/projects", b" " * (MAX_BODY_BYTES + 1), 413, "too_large"),
    ],
)
async def test_bodies_that_are_wrong(
    hub: RunningHub, session: aiohttp.ClientSession, path: str, body: bytes, status: int, code: str
) -> None:
    headers = {"Content-Type": "application/json"}
    async with session.post(hub.url + path, data=io.BytesIO(body), headers=headers) as response:
        assert await error_of(response) == (status, code)


async def test_a_body_must_say_that_it_is_json(hub: RunningHub, session: aiohttp.ClientSession) -> None:
    async with session.post(f"{hub.url}/api/v1/receipts", data=b'{"receipts":[]}') as response:
        assert await error_of(response) == (415, "unsupported")


async def test_a_compressed_body_is_not_unpacked(hub: RunningHub, session: aiohttp.ClientSession) -> None:
    async with session.post(f"{hub.url}/api/v1/receipts", json={"receipts": []}, compress="gzip") as response:
        assert await error_of(response) == (400, "bad_request")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"/api/v1/projects/{'0' * 64}/leaderboard", 404, "unknown_project"),
        (f"/api/v1/projects/{'0' * 64}/receipts", 404, "unknown_project"),
        ("/api/v1/projects/xyz/leaderboard", 400, "bad_request"),
        (f"/api/v1/projects/{'A' * 64}/receipts", 400, "bad_request"),
        (f"/api/v1/projects/{PROJECT.project_id}/leaderboard?days=0", 400, "bad_request"),
        (f"/api/v1/projects/{PROJECT.project_id}/leaderboard?days=²", 400, "bad_request"),
        (f"/api/v1/projects/{PROJECT.project_id}/receipts?after=-1", 400, "bad_request"),
        (f"/api/v1/projects?after={'9' * 30}", 400, "bad_request"),
        ("/api/v1/rooms/xyz", 400, "bad_request"),
        (f"/api/v1/rooms/{PROJECT.project_id}", 400, "bad_request"),  # not a websocket
        ("/api/v2/hub", 404, "not_found"),
    ],
)
async def test_calls_that_are_wrong(
    client: HubClient, hub: RunningHub, session: aiohttp.ClientSession, path: str, status: int, code: str
) -> None:
    await client.publish(SIGNED)
    async with session.get(hub.url + path) as response:
        assert await error_of(response) == (status, code)


async def test_a_forged_manifest_and_a_forged_receipt_are_refused(client: HubClient) -> None:
    with pytest.raises(HubRefused) as caught:
        await client.publish(msgspec.structs.replace(SIGNED, signature=bytes(64)))
    assert (caught.value.code, caught.value.url.endswith("/api/v1/projects")) == ("bad_manifest", True)
    await client.publish(SIGNED)
    good = sign_receipt(receipt(BEN, ANN, TABLE, manifest_hash=PROJECT.manifest_hash), BEN)
    forged = msgspec.structs.replace(good, signature=bytes(64))
    results = await client.post_receipts([forged, good])
    assert [(r.status, r.reason) for r in results] == [("rejected", "bad_signature"), ("stored", "")]


async def test_an_older_name_is_not_taken_back(client: HubClient) -> None:
    await client.set_name("New", NOW)
    with pytest.raises(HubRefused) as caught:
        await client.set_name("Old", NOW - 1.0)
    assert caught.value.code == "stale"


async def test_only_chosen_publishers_publish(config: HubConfig, session: aiohttp.ClientSession) -> None:
    async with running_hub(replace(config, publishers=(PUBLISHER.peer_id,))) as hub:
        client = HubClient(hub.url, ANN, session)
        with pytest.raises(HubRefused) as caught:
            await client.publish(sealed(ANN, name="another"))
        assert caught.value.code == "not_allowed"
        assert (await client.publish(SIGNED)).project_id == PROJECT.project_id


async def test_too_many_calls_are_refused_by_address(config: HubConfig, session: aiohttp.ClientSession) -> None:
    limits = HubLimits(reads=Rate(per_second=0.0, burst=2.0))
    async with running_hub(replace(config, limits=limits, behind_proxy=True)) as hub:
        statuses = []
        for address in ("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2"):
            headers = {"X-Forwarded-For": f"6.6.6.6, {address}"}
            async with session.get(f"{hub.url}/api/v1/hub", headers=headers) as response:
                statuses.append(response.status)
        assert statuses == [200, 200, 429, 200]


async def test_the_word_of_a_caller_about_its_address_counts_only_behind_a_proxy(
    config: HubConfig, session: aiohttp.ClientSession
) -> None:
    async with running_hub(replace(config, limits=HubLimits(reads=Rate(per_second=0.0, burst=1.0)))) as hub:
        for address, status in (("192.0.2.1", 200), ("192.0.2.2", 429)):
            async with session.get(f"{hub.url}/", headers={"X-Forwarded-For": address}) as response:
                assert response.status == status


async def test_turn_credentials_are_not_told_to_everyone(config: HubConfig, session: aiohttp.ClientSession) -> None:
    servers = (
        IceServer(urls=("stun:stun.example.org",)),
        IceServer(urls=("turn:turn.example.org",), username="u", credential="secret"),
    )
    async with running_hub(replace(config, ice_servers=servers)) as hub:
        assert (await HubClient(hub.url, ANN, session).hub()).ice_servers == servers[:1]


async def page_of(session: aiohttp.ClientSession, url: str, status: int = 200) -> tuple[str, Any]:
    async with session.get(url) as response:
        assert response.status == status
        assert response.content_type == "text/html"
        return await response.text(), response.headers


async def test_pages_show_what_the_api_says(client: HubClient, hub: RunningHub, session: aiohttp.ClientSession) -> None:
    text, _ = await page_of(session, hub.url)
    assert "No project yet" in text
    hostile = sealed(PUBLISHER, title="<script>alert(1)</script>", summary="</style><img src=x>", name="hostile")
    await client.publish(hostile)
    await client.publish(SIGNED)
    await client.set_name("<b>Ann</b>", NOW)
    project_id = open_signed(hostile).project_id
    await client.post_receipts([sign_receipt(receipt(BEN, ANN, TABLE, manifest_hash=bytes.fromhex(project_id)), BEN)])
    index, headers = await page_of(session, hub.url)
    project, _ = await page_of(session, f"{hub.url}/projects/hostile")
    assert "Pocket Python" in index
    for text in (index, project):
        assert "&lt;script&gt;alert(1)" in text
        assert "<script" not in text
        assert "<img" not in text
        assert text.count("</style>") == 1
    assert "&lt;b&gt;Ann&lt;/b&gt;" in project
    quoted = hub.url.replace(":", "%3A").replace("/", "%2F")
    assert f'href="potluck://join?hub={quoted}&amp;project={project_id}"' in project
    assert parse_link(f"potluck://join?hub={quoted}&project={project_id}") == JoinLink(hub.url, project_id)
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"


async def test_the_join_link_names_the_public_address(config: HubConfig, session: aiohttp.ClientSession) -> None:
    async with running_hub(replace(config, public_url="https://hub.example.org/")) as hub:
        await HubClient(hub.url, ANN, session).publish(SIGNED)
        text, _ = await page_of(session, f"{hub.url}/projects/pocket-python")
        assert "potluck://join?hub=https%3A%2F%2Fhub.example.org&amp;project=" in text


@pytest.mark.parametrize("host", ['a"><script>', "hub:99999", "user@hub", "hub/?x", ""])
async def test_a_forged_host_header_gets_no_link(client: HubClient, hub: RunningHub, host: str) -> None:
    await client.publish(SIGNED)
    reader, writer = await asyncio.open_connection(hub.host, hub.port)
    writer.write(f"GET /projects/pocket-python HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"potluck://" not in answer
    assert b"<script" not in answer


@pytest.mark.parametrize("path", ["/projects/nobody", "/projects/..%2f..%2fetc", "/projects/A%00", "/favicon.ico"])
async def test_pages_that_do_not_exist(hub: RunningHub, session: aiohttp.ClientSession, path: str) -> None:
    text, _ = await page_of(session, hub.url + path, 404)
    assert "There is no such page" in text


async def test_many_calls_at_once_are_all_answered(client: HubClient) -> None:
    await client.publish(SIGNED)
    async with asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(client.leaderboard(PROJECT.project_id)) for _ in range(50)]
    assert {call.result().project_id for call in calls} == {PROJECT.project_id}
