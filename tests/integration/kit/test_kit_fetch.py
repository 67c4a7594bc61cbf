"""Fetching a kit from a real server that is cut, lies, is full or is not there."""

import asyncio
import shutil
import socket
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest
from aiohttp import web

from engine.hub.config import HubConfig, sqlite_url
from engine.hub.server import running_hub
from engine.kit.errors import KitFault
from engine.kit.fetch import PART_SUFFIX, bytes_here, fetch_kit
from tests.helpers.kit_samples import Mirror, a_mirror, kit_of, torch_like

pytestmark = pytest.mark.integration

FILES = torch_like()
KIT = kit_of(FILES)
BIG = next(iter(FILES))
BIG_BYTES = len(FILES[BIG])


async def get(folder: Path, *sources: str, mirror: Mirror | None = None) -> list[int]:
    seen: list[int] = []

    def note(done: int) -> None:
        seen.append(done)
        if mirror is not None:
            mirror.note(done)

    async with aiohttp.ClientSession() as http:
        await fetch_kit(KIT, folder, sources, http, note)
    return seen


def whole(folder: Path) -> bool:
    return {path.name: path.read_bytes() for path in folder.iterdir()} == FILES


async def test_all_files_come_whole(tmp_path: Path) -> None:
    async with a_mirror(FILES) as mirror:
        seen = await get(tmp_path, mirror.url)
        assert whole(tmp_path)
        assert seen == sorted(seen)
        assert seen[-1] == KIT.download_bytes == bytes_here(KIT, tmp_path)
        await get(tmp_path, mirror.url)
        assert len(mirror.asked) == 2  # what is here is not asked for again


@pytest.mark.parametrize("tenth", range(10))
async def test_a_line_that_is_cut_at_any_tenth_is_gone_on_with(tmp_path: Path, tenth: int) -> None:
    async with a_mirror(FILES) as mirror:
        cut = BIG_BYTES * tenth // 10
        mirror.cut_after = [cut]
        await get(tmp_path, mirror.url, mirror=mirror)
        assert whole(tmp_path)
        assert mirror.asked[1] == (BIG, f"bytes={cut}-" if cut else "")


@pytest.mark.parametrize("tenth", range(10))
async def test_a_download_that_was_given_up_goes_on_where_it_was(tmp_path: Path, tenth: int) -> None:
    here = BIG_BYTES * tenth // 10
    (tmp_path / (BIG + PART_SUFFIX)).write_bytes(FILES[BIG][:here])
    async with a_mirror(FILES) as mirror:
        await get(tmp_path, mirror.url)
        assert whole(tmp_path)
        assert mirror.asked[0][1] == (f"bytes={here}-" if here else "")


async def test_a_line_that_brings_little_each_time_gets_there(tmp_path: Path) -> None:
    async with a_mirror(FILES) as mirror:
        mirror.cut_after = [20_000] * 12
        await get(tmp_path, mirror.url, mirror=mirror)
        assert whole(tmp_path)


async def test_a_line_that_brings_nothing_is_given_up(tmp_path: Path) -> None:
    async with a_mirror(FILES) as mirror:
        mirror.cut_after = [0] * 50
        with pytest.raises(KitFault) as failed:
            await get(tmp_path, mirror.url)
        assert failed.value.code == "unreachable"
        assert len(mirror.asked) < 10
        mirror.cut_after = []
        await get(tmp_path, mirror.url)
        assert whole(tmp_path)


async def test_a_pause_keeps_what_is_here(tmp_path: Path) -> None:
    async with a_mirror(FILES) as mirror, aiohttp.ClientSession() as http:
        mirror.holding = True
        begun = asyncio.Event()
        task = asyncio.create_task(fetch_kit(KIT, tmp_path, [mirror.url], http, lambda done: begun.set()))
        async with asyncio.timeout(20):
            await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        mirror.holding = False
        mirror.let_go.set()
        kept = bytes_here(KIT, tmp_path)
        assert 0 < kept <= BIG_BYTES // 2
        await get(tmp_path, mirror.url)
        assert whole(tmp_path)
        assert mirror.asked[1] == (BIG, f"bytes={kept}-")


async def test_a_file_of_another_hash_is_thrown_away_and_another_source_asked(tmp_path: Path) -> None:
    forged = {name: bytes([data[0] ^ 1]) + data[1:] for name, data in FILES.items()}
    async with a_mirror(forged) as liar:
        with pytest.raises(KitFault) as failed:
            await get(tmp_path, liar.url)
        assert (failed.value.code, failed.value.params["filename"]) == ("wrong_hash", BIG)
        assert list(tmp_path.iterdir()) == []
        async with a_mirror(FILES) as mirror:
            await get(tmp_path, liar.url, mirror.url)
            assert whole(tmp_path)


async def test_a_source_that_does_not_end_is_cut_off(tmp_path: Path) -> None:
    async with a_mirror({name: data + b"x" * 10_000_000 for name, data in FILES.items()}) as liar:
        with pytest.raises(KitFault) as failed:
            await get(tmp_path, liar.url)
        assert failed.value.code == "wrong_hash"
        assert all(path.stat().st_size <= BIG_BYTES for path in tmp_path.iterdir())


async def test_part_of_something_else_is_found_out_and_fetched_anew(tmp_path: Path) -> None:
    (tmp_path / (BIG + PART_SUFFIX)).write_bytes(b"?" * 1000)
    async with a_mirror(FILES) as mirror:
        with pytest.raises(KitFault, match="thrown away"):
            await get(tmp_path, mirror.url)
        await get(tmp_path, mirror.url)
        assert whole(tmp_path)


class Odd(NamedTuple):
    answer: web.Response
    says: str


@pytest.mark.parametrize(
    "odd",
    [
        Odd(web.Response(status=404), "answered 404"),
        Odd(web.Response(status=503), "answered 503"),
        Odd(web.Response(status=206, headers={"Content-Range": "bytes 5-9/10"}, body=b"hello"), "another range"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_told(tmp_path: Path, odd: Odd) -> None:
    async with a_mirror(FILES) as mirror:
        mirror.misbehave = lambda name: web.Response(
            status=odd.answer.status,
            headers=dict(odd.answer.headers) if odd.answer.status == 206 else {},
            body=b"hello",
        )
        with pytest.raises(KitFault, match=odd.says) as failed:
            await get(tmp_path, mirror.url)
        assert failed.value.code == "unreachable"
        assert len(mirror.asked) == 1
        mirror.misbehave = lambda name: None
        await get(tmp_path, mirror.url)
        assert whole(tmp_path)


async def test_a_source_that_knows_no_ranges_begins_again(tmp_path: Path) -> None:
    (tmp_path / (BIG + PART_SUFFIX)).write_bytes(FILES[BIG][:1000])
    async with a_mirror(FILES) as mirror:
        mirror.misbehave = lambda name: web.Response(body=FILES[name])
        await get(tmp_path, mirror.url)
        assert whole(tmp_path)


async def test_no_network_is_told_and_tried_again(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{nobody.getsockname()[1]}/kits"
        with pytest.raises(KitFault) as failed:
            await get(tmp_path, dead)
        assert failed.value.code == "unreachable"
        async with a_mirror(FILES) as mirror:
            await get(tmp_path, dead, mirror.url)
            assert whole(tmp_path)


async def test_without_a_source_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(KitFault, match="No place is known"):
        await get(tmp_path)


async def test_too_little_room_is_told_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000_000)
    monkeypatch.setattr("engine.kit.fetch.shutil.disk_usage", lambda path: usage)
    async with a_mirror(FILES) as mirror:
        with pytest.raises(KitFault, match=r"0\.0 GB are free") as failed:
            await get(tmp_path, mirror.url)
        assert failed.value.code == "disk_full"
        assert mirror.asked == []
        monkeypatch.undo()
        await get(tmp_path, mirror.url)
        assert whole(tmp_path)


async def test_a_disk_that_fills_up_meanwhile_keeps_what_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []

    class Full:
        def __init__(self, real: object) -> None:
            self.real = real

        def write(self, piece: bytes) -> int:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            self.real.close()  # type: ignore[attr-defined]

        def __enter__(self) -> "Full":
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

    def open_full(part: Path, here: int) -> Full:
        opened.append(part)
        return Full(part.open("ab"))

    (tmp_path / (BIG + PART_SUFFIX)).write_bytes(FILES[BIG][:5000])
    async with a_mirror(FILES) as mirror:
        monkeypatch.setattr("engine.kit.fetch._open", open_full)
        with pytest.raises(KitFault) as failed:
            await get(tmp_path, mirror.url)
        assert failed.value.code == "disk_full"
        assert len(opened) == 1  # another source would not help
        assert bytes_here(KIT, tmp_path) == 5000
        monkeypatch.undo()
        await get(tmp_path, mirror.url)
        assert whole(tmp_path)


async def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(KitFault) as failed:
        await get(tmp_path / "file" / "kit", "http://127.0.0.1:9/kits")
    assert failed.value.code == "unwritable"


async def test_a_hub_serves_them_and_nothing_else(tmp_path: Path) -> None:
    served = tmp_path / "served"
    served.mkdir()
    for name, data in FILES.items():
        (served / name).write_bytes(data)
    (tmp_path / "secret.whl").write_bytes(b"not for others")
    config = HubConfig(database_url=sqlite_url(tmp_path / "hub.db"), kits_folder=served)
    here = tmp_path / "here"
    here.mkdir()
    (here / (BIG + PART_SUFFIX)).write_bytes(FILES[BIG][:70_000])
    async with running_hub(config) as hub:
        await get(here, f"{hub.url}/kits")
        assert whole(here)
        async with aiohttp.ClientSession() as http:
            for path in ("/kits/..%2Fsecret.whl", "/kits/none.whl", "/kits/", "/kits/%2e%2e/secret.whl"):
                async with http.get(hub.url + path) as answer:
                    assert answer.status == 404


async def test_a_hub_without_kits_says_so(tmp_path: Path) -> None:
    async with running_hub(HubConfig(database_url=sqlite_url(tmp_path / "hub.db"))) as hub:
        with pytest.raises(KitFault, match="answered 404"):
            await get(tmp_path / "here", f"{hub.url}/kits")
